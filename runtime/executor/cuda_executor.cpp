#include "runtime/executor/cuda_executor.h"

#include <algorithm>

namespace lockstep::runtime {

using Kind = CudaOperation::Kind;

StatusOr<std::unique_ptr<Executor>>
CudaExecutor::create(const ArtifactReader &artifact, cuda::CudaDevice &device,
                     const NcclCollectives &collectives,
                     const CudaOptions &options) {
  std::unique_ptr<CudaExecutor> executor(
      new CudaExecutor(artifact, device, collectives, options));
  if (Status status = executor->load(); !status.ok())
    return std::move(status).at(artifact.path());
  return std::unique_ptr<Executor>(std::move(executor));
}

Status CudaExecutor::load() {
  const cuda::Gpu &gpu = device.gpu();
  manyRanks = artifact.plan().ranks > 1;
  LOCKSTEP_ASSIGN_OR_RETURN(
      kernels, CudaKernels::load(artifact, device, options.allowJit));
  for (cuda::Stream *stream : {&compute, &communication, &copies}) {
    LOCKSTEP_ASSIGN_OR_RETURN(*stream, cuda::Stream::create(gpu));
  }
  std::vector<std::vector<CudaOperation> *> all;
  int64_t staging = 0;
  for (const auto &table : artifact.plan().programs) {
    Program &program = programs[table.get()];
    program.name = table->name;
    LOCKSTEP_RETURN_IF_ERROR(kernels->resolve(*table, program.operations));
    bool step = table->name == "step";
    LOCKSTEP_ASSIGN_OR_RETURN(
        program.memory,
        ProgramMemory::create(artifact.plan(), *table, device,
                              step ? options.stepsPerLaunch : 1));
    staging += program.memory->stagingBytes();
    LOCKSTEP_RETURN_IF_ERROR(makeEvents(program));
    all.push_back(&program.operations);
  }
  device.addMemory({"inputs copied ahead", staging});
  return kernels->placeTables(all);
}

Status CudaExecutor::makeEvents(const Program &program) {
  for (const CudaOperation &operation : program.operations) {
    if (operation.kind != Kind::Start)
      continue;
    CollectiveEvents &pair = events[operation.collective.id];
    for (cuda::Event *event : {&pair.begun, &pair.ended}) {
      LOCKSTEP_ASSIGN_OR_RETURN(*event,
                                cuda::Event::create(device.gpu(), false));
    }
  }
  return Status::success();
}

CudaExecutor::~CudaExecutor() {
  for (auto &[table, program] : programs)
    for (auto [runs, graph] : program.graphs)
      api.graphExecDestroy(graph);
}

std::byte *CudaExecutor::place(const artifact::ProgramT &program,
                               int64_t offset, int64_t run) {
  return programs.at(&program).memory->place(offset, run);
}

Status CudaExecutor::stage(const artifact::ProgramT &program, int64_t runs) {
  return programs.at(&program).memory->stage(copies.handle(), runs);
}

Status CudaExecutor::start(const artifact::ProgramT &table, int64_t runs) {
  Program &program = programs.at(&table);
  executed.fetch_add(1, std::memory_order_relaxed);
  LOCKSTEP_RETURN_IF_ERROR(
      program.memory->takeInputs(copies.handle(), compute.handle(), runs));
  if (options.graph && !profile) {
    LOCKSTEP_RETURN_IF_ERROR(launchGraph(program, runs));
    return program.memory->waitForHost();
  }
  for (int64_t run = 0; run < runs; ++run)
    LOCKSTEP_RETURN_IF_ERROR(profile ? runProfiled(program, run)
                                     : runOneByOne(program, run));
  return Status::success();
}

Status CudaExecutor::finish() {
  inCollective = manyRanks;
  cuda::Result result = api.streamSynchronize(compute.handle());
  inCollective = false;
  executed.fetch_add(1, std::memory_order_relaxed);
  return api.check(result, "the program on " + device.describe())
      .remedy("run with --no-graph to see which kernel it was");
}

Status CudaExecutor::launchGraph(Program &program, int64_t runs) {
  if (!program.graphs.count(runs)) {
    LOCKSTEP_ASSIGN_OR_RETURN(program.graphs[runs], record(program, runs));
  }
  return api.check(api.graphLaunch(program.graphs[runs], compute.handle()),
                   "launching the graph of program '" + program.name + "'");
}

StatusOr<cuda::GraphExec> CudaExecutor::record(const Program &program,
                                               int64_t runs) {
  std::string what = "recording the graph of program '" + program.name + "'";
  LOCKSTEP_RETURN_IF_ERROR(api.check(
      api.streamBeginCapture(compute.handle(), cuda::captureRelaxed), what));
  Status status;
  for (int64_t run = 0; run < runs && status.ok(); ++run)
    status = enqueueRun(program, run);
  cuda::Graph graph = nullptr;
  cuda::Result ended = api.streamEndCapture(compute.handle(), &graph);
  LOCKSTEP_RETURN_IF_ERROR(status);
  LOCKSTEP_RETURN_IF_ERROR(api.check(ended, what));
  cuda::GraphExec executable = nullptr;
  cuda::Result made = api.graphInstantiate(&executable, graph, 0);
  api.graphDestroy(graph);
  LOCKSTEP_RETURN_IF_ERROR(api.check(made, what));
  return executable;
}

Status CudaExecutor::enqueueRun(const Program &program, int64_t run) {
  const ProgramMemory &memory = *program.memory;
  LOCKSTEP_RETURN_IF_ERROR(memory.moveInputs(compute.handle(), run));
  LOCKSTEP_RETURN_IF_ERROR(memory.writeScalars(compute.handle(), run));
  for (const CudaOperation &operation : program.operations)
    LOCKSTEP_RETURN_IF_ERROR(enqueue(operation));
  return memory.readMetrics(compute.handle(), run);
}

Status CudaExecutor::enqueue(const CudaOperation &operation) {
  cuda::StreamHandle stream = compute.handle();
  switch (operation.kind) {
  case Kind::Kernel:
    return launch(operation);
  case Kind::Gemm:
    return operation.gemm->enqueue(stream).at(nameOf(operation));
  case Kind::Copy:
    return api.check(api.memcpyDtoDAsync(operation.target, operation.source,
                                         size_t(operation.bytes), stream),
                     nameOf(operation));
  case Kind::Fill:
    return api.check(api.memsetD8Async(operation.target, operation.value,
                                       size_t(operation.bytes), stream),
                     nameOf(operation));
  case Kind::Start:
    return startCollective(operation);
  case Kind::Wait: {
    const CollectiveEvents &pair = events.at(operation.collective.id);
    return api.check(api.streamWaitEvent(stream, pair.ended.handle(), 0),
                     nameOf(operation));
  }
  }
  return Status::success();
}

Status CudaExecutor::launch(const CudaOperation &operation) {
  if (!operation.parameters.empty())
    return launchWithParameters(operation);
  std::vector<void *> parameters;
  for (const cuda::Address &argument : operation.arguments)
    parameters.push_back(const_cast<cuda::Address *>(&argument));
  return api.check(api.launchKernel(operation.function, operation.blocks, 1, 1,
                                    operation.threads, 1, 1,
                                    operation.sharedBytes, compute.handle(),
                                    parameters.data(), nullptr),
                   nameOf(operation));
}

Status CudaExecutor::launchWithParameters(const CudaOperation &operation) {
  const artifact::KernelT &kernel = *artifact.plan().kernels[operation.kernel];
  std::vector<cuda::LaunchAttribute> attributes;
  if (kernel.cluster) {
    cuda::LaunchAttribute &cluster = attributes.emplace_back();
    cluster.id = cuda::launchClusterDimension;
    cluster.clusterDim = {kernel.cluster, 1, 1};
  }
  if (kernel.overlap) {
    cuda::LaunchAttribute &overlap = attributes.emplace_back();
    overlap.id = cuda::launchProgrammaticStreamSerialization;
    overlap.programmaticStreamSerialization = 1;
  }
  cuda::LaunchConfig config = {operation.blocks,
                               1,
                               1,
                               operation.threads,
                               1,
                               1,
                               operation.sharedBytes,
                               compute.handle(),
                               attributes.data(),
                               unsigned(attributes.size())};
  std::vector<void *> parameters;
  for (const CudaParameter &parameter : operation.parameters)
    parameters.push_back(const_cast<std::byte *>(parameter.bytes));
  return api.check(api.launchKernelEx(&config, operation.function,
                                      parameters.data(), nullptr),
                   nameOf(operation));
}

Status CudaExecutor::startCollective(const CudaOperation &operation) {
  const CollectiveEvents &pair = events.at(operation.collective.id);
  std::string what = nameOf(operation);
  LOCKSTEP_RETURN_IF_ERROR(
      api.check(api.eventRecord(pair.begun.handle(), compute.handle()), what));
  LOCKSTEP_RETURN_IF_ERROR(api.check(
      api.streamWaitEvent(communication.handle(), pair.begun.handle(), 0),
      what));
  LOCKSTEP_RETURN_IF_ERROR(
      collectives.enqueue(operation.collective, communication.handle()));
  return api.check(api.eventRecord(pair.ended.handle(), communication.handle()),
                   what);
}

Status CudaExecutor::runOneByOne(const Program &program, int64_t run) {
  const ProgramMemory &memory = *program.memory;
  LOCKSTEP_RETURN_IF_ERROR(memory.moveInputs(compute.handle(), run));
  LOCKSTEP_RETURN_IF_ERROR(memory.writeScalars(compute.handle(), run));
  for (const CudaOperation &operation : program.operations) {
    LOCKSTEP_RETURN_IF_ERROR(enqueue(operation));
    executed.fetch_add(1, std::memory_order_relaxed);
    if (operation.kind == Kind::Start)
      continue;
    inCollective = operation.kind == Kind::Wait && manyRanks;
    cuda::Result result = api.streamSynchronize(compute.handle());
    inCollective = false;
    LOCKSTEP_RETURN_IF_ERROR(api.check(result, nameOf(operation)));
  }
  return memory.readMetrics(compute.handle(), run);
}

Status CudaExecutor::runProfiled(const Program &program, int64_t run) {
  const ProgramMemory &memory = *program.memory;
  cuda::StreamHandle stream = compute.handle();
  size_t count = program.operations.size();
  while (marks.size() <= count) {
    LOCKSTEP_ASSIGN_OR_RETURN(cuda::Event event,
                              cuda::Event::create(device.gpu(), true));
    marks.push_back(std::move(event));
  }
  auto mark = [&](size_t i) {
    return api.check(api.eventRecord(marks[i].handle(), stream), "a profile");
  };
  LOCKSTEP_RETURN_IF_ERROR(memory.moveInputs(stream, run));
  LOCKSTEP_RETURN_IF_ERROR(memory.writeScalars(stream, run));
  LOCKSTEP_RETURN_IF_ERROR(mark(0));
  for (size_t i = 0; i < count; ++i) {
    LOCKSTEP_RETURN_IF_ERROR(enqueue(program.operations[i]));
    LOCKSTEP_RETURN_IF_ERROR(mark(i + 1));
  }
  LOCKSTEP_RETURN_IF_ERROR(memory.readMetrics(stream, run));
  LOCKSTEP_RETURN_IF_ERROR(finish());
  std::vector<float> milliseconds(count);
  for (size_t i = 0; i < count; ++i)
    LOCKSTEP_RETURN_IF_ERROR(
        api.check(api.eventElapsedTime(&milliseconds[i], marks[i].handle(),
                                       marks[i + 1].handle()),
                  "a profile"));
  addTimes(program, milliseconds);
  return Status::success();
}

void CudaExecutor::addTimes(const Program &program,
                            const std::vector<float> &milliseconds) {
  const cuda::Gpu &gpu = device.gpu();
  for (size_t i = 0; i < milliseconds.size(); ++i) {
    const CudaOperation &operation = program.operations[i];
    auto time = std::chrono::duration_cast<Profile::Clock::duration>(
        std::chrono::duration<double, std::milli>(milliseconds[i]));
    if (operation.kind == Kind::Start) {
      profile->add("(start of collectives)", time, 0, 0);
    } else if (operation.kind == Kind::Wait) {
      profile->add("(wait for " + operation.collective.name + ")", time, 0, 0);
    } else {
      const artifact::KernelT &kernel =
          *artifact.plan().kernels[operation.kernel];
      double rate = kernels->usesTensorCores(operation.kernel)
                        ? gpu.peakTensorFlops()
                        : gpu.peakFlops();
      double floor =
          std::max(kernel.bytes / gpu.peakBytes(), kernel.flops / rate);
      profile->add(kernel.name, time, kernel.flops, kernel.bytes, floor);
    }
  }
}

std::string CudaExecutor::nameOf(const CudaOperation &operation) const {
  if (operation.kind == Kind::Start || operation.kind == Kind::Wait)
    return "collective '" + operation.collective.name + "'";
  const artifact::KernelT &kernel = *artifact.plan().kernels[operation.kernel];
  return "kernel '" + kernel.name + "'" +
         (kernel.sources.empty() ? "" : " (" + kernel.sources[0] + ")");
}

} // namespace lockstep::runtime
