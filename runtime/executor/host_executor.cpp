#include "runtime/executor/host_executor.h"
#include "runtime/device/host/cpu_features.h"
#include "runtime/device/host/parallel.h"
#include "runtime/support/signals.h"

#include <algorithm>

namespace lockstep::runtime {

StatusOr<std::unique_ptr<Executor>>
HostExecutor::create(const ArtifactReader &artifact, const Arena &arena,
                     Collectives &collectives) {
  std::unique_ptr<HostExecutor> executor(
      new HostExecutor(artifact, arena, collectives));
  if (Status status = executor->load(); !status.ok())
    return std::move(status).at(artifact.path());
  return std::unique_ptr<Executor>(std::move(executor));
}

Status HostExecutor::load() {
  HandlersHeld held;
  lockstep_on_other_threads(blockSignals);
  const artifact::PlanT &plan = artifact.plan();
  LOCKSTEP_ASSIGN_OR_RETURN(const CodeSection *section,
                            chooseCode(artifact.code()));
  if (section) {
    LOCKSTEP_ASSIGN_OR_RETURN(code, CodeObject::load(section->object));
  }
  functions.resize(plan.kernels.size());
  library.resize(plan.kernels.size());
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const artifact::KernelT &kernel = *plan.kernels[i];
    if (kernel.library == artifact::LibraryKernel::None) {
      LOCKSTEP_ASSIGN_OR_RETURN(functions[i], code.find(kernel.symbol));
    } else {
      LOCKSTEP_ASSIGN_OR_RETURN(library[i], createLibraryKernel(kernel));
    }
  }
  for (const auto &program : plan.programs)
    if (Status status = resolve(program->instructions, programs[program.get()]);
        !status.ok())
      return std::move(status).at("program '" + program->name + "'");
  return Status::success();
}

Status HostExecutor::resolve(const Instructions &from,
                             std::vector<Operation> &to) {
  to.reserve(from.size());
  for (const auto &instruction : from) {
    Operation &operation = to.emplace_back();
    const artifact::OperationUnion &source = instruction->operation;
    if (const auto *launch = source.AsLaunch()) {
      LOCKSTEP_RETURN_IF_ERROR(resolveLaunch(*launch, operation));
    } else if (const auto *start = source.AsCollectiveStart()) {
      resolveCollective(*start, operation);
    } else if (const auto *wait = source.AsCollectiveWait()) {
      if (to.size() > 1 && to[to.size() - 2].kind == Operation::Kind::Start &&
          to[to.size() - 2].collective.id == wait->id)
        to[to.size() - 2].collective.awaitedNext = true;
      operation.kind = Operation::Kind::Wait;
      operation.collective.id = wait->id;
      operation.collective.name = collectiveNames[wait->id];
    } else if (const auto *loop = source.AsLoop()) {
      operation.kind = Operation::Kind::Loop;
      operation.count = loop->count;
      LOCKSTEP_RETURN_IF_ERROR(resolve(loop->body, operation.body));
    }
  }
  return Status::success();
}

Status HostExecutor::resolveLaunch(const artifact::LaunchT &launch,
                                   Operation &to) {
  const artifact::KernelT &kernel = *artifact.plan().kernels[launch.kernel];
  to.kernel = launch.kernel;
  to.function = functions[launch.kernel];
  to.kind = to.function ? Operation::Kind::Generated : Operation::Kind::Library;
  for (const auto &source : launch.segments) {
    Segment &segment = to.segments.emplace_back();
    segment.items = source->work_items;
    for (const artifact::Operand &operand : source->arguments) {
      segment.bases.push_back(arena.at<std::byte>(operand.offset()));
      segment.strides.push_back(operand.iteration_stride());
      segment.arguments.push_back(segment.bases.back());
      segment.moves |= operand.iteration_stride() != 0;
    }
  }
  if (to.kind == Operation::Kind::Library)
    return checkOperands(launch);
  cut(to, launch, kernel);
  return Status::success();
}

Status HostExecutor::checkOperands(const artifact::LaunchT &launch) const {
  const std::string &name = artifact.plan().kernels[launch.kernel]->name;
  std::vector<int64_t> needed = library[launch.kernel]->operandBytes();
  for (const auto &segment : launch.segments) {
    if (segment->arguments.size() != needed.size())
      return internalFault(
          "kernel '" + name + "' expects " + std::to_string(needed.size()) +
          " operands, but got " + std::to_string(segment->arguments.size()));
    for (size_t i = 0; i < needed.size(); ++i)
      if (segment->arguments[i].bytes() < needed[i])
        return internalFault("operand " + std::to_string(i) + " of kernel '" +
                             name + "' has " +
                             std::to_string(segment->arguments[i].bytes()) +
                             " bytes, expected " + std::to_string(needed[i]));
  }
  return Status::success();
}

/// Chunks of at least 64 KiB of operands or 64 K operations, and at most 128
/// per launch: less is not worth waking a thread. The rule knows nothing of
/// threads, so neither do the results.
void HostExecutor::cut(Operation &operation, const artifact::LaunchT &launch,
                       const artifact::KernelT &kernel) {
  constexpr int64_t leastWork = 65536, mostChunks = 128;
  int64_t items = 0, bytes = 0;
  for (const auto &segment : launch.segments) {
    items += segment->work_items;
    for (const artifact::Operand &operand : segment->arguments)
      bytes += operand.bytes();
  }
  int64_t work = std::max(bytes, int64_t(std::min(kernel.flops, 1e15)));
  int64_t perItem = std::max<int64_t>(1, work / std::max<int64_t>(1, items));
  int64_t size = std::max({int64_t(1), kernel.grain, leastWork / perItem,
                           (items + mostChunks - 1) / mostChunks});
  for (uint32_t i = 0; i < operation.segments.size(); ++i)
    for (int64_t begin = 0; begin < operation.segments[i].items; begin += size)
      operation.chunks.push_back(
          {i, begin, std::min(begin + size, operation.segments[i].items)});
}

void HostExecutor::resolveCollective(const artifact::CollectiveStartT &start,
                                     Operation &to) {
  to.kind = Operation::Kind::Start;
  Collective &c = to.collective;
  c.id = start.id;
  c.kind = start.kind;
  c.communicator = start.communicator;
  c.reduction = start.reduction;
  c.dtype = start.dtype;
  c.root = start.root;
  c.name = start.name;
  collectiveNames[c.id] = c.name;
  for (size_t i = 0; i < start.inputs.size(); ++i) {
    const artifact::Operand &in = start.inputs[i], &out = start.outputs[i];
    c.ranges.push_back({arena.at<std::byte>(in.offset()),
                        arena.at<std::byte>(out.offset()), in.bytes(),
                        out.bytes()});
    to.inputStrides.push_back(in.iteration_stride());
    to.outputStrides.push_back(out.iteration_stride());
  }
}

Status HostExecutor::start(const artifact::ProgramT &program, int64_t) {
  HandlersHeld held;
  return execute(programs[&program], 0);
}

Status HostExecutor::execute(std::vector<Operation> &operations,
                             int64_t iteration) {
  for (Operation &operation : operations) {
    executed.fetch_add(1, std::memory_order_relaxed);
    if (!profile || operation.kind == Operation::Kind::Loop) {
      LOCKSTEP_RETURN_IF_ERROR(executeOne(operation, iteration));
      continue;
    }
    auto begin = Profile::Clock::now();
    LOCKSTEP_RETURN_IF_ERROR(executeOne(operation, iteration));
    auto time = Profile::Clock::now() - begin;
    if (operation.kind == Operation::Kind::Start)
      profile->add("(start of collectives)", time, 0, 0);
    else if (operation.kind == Operation::Kind::Wait)
      profile->add("(wait for " + operation.collective.name + ")", time, 0, 0);
    else {
      const artifact::KernelT &kernel =
          *artifact.plan().kernels[operation.kernel];
      profile->add(kernel.name, time, kernel.flops, kernel.bytes);
    }
  }
  return Status::success();
}

Status HostExecutor::executeOne(Operation &operation, int64_t iteration) {
  switch (operation.kind) {
  case Operation::Kind::Generated:
  case Operation::Kind::Library:
    return launch(operation, iteration);
  case Operation::Kind::Start:
    startCollective(operation, iteration);
    return Status::success();
  case Operation::Kind::Wait: {
    inCollective = true;
    Status status = collectives.wait(operation.collective.id);
    inCollective = false;
    return status;
  }
  case Operation::Kind::Loop:
    for (int64_t i = 0; i < operation.count; ++i)
      LOCKSTEP_RETURN_IF_ERROR(execute(operation.body, i));
    return Status::success();
  }
  return Status::success();
}

Status HostExecutor::launch(Operation &operation, int64_t iteration) {
  for (Segment &segment : operation.segments)
    if (segment.moves)
      for (size_t i = 0; i < segment.bases.size(); ++i)
        segment.arguments[i] =
            segment.bases[i] + iteration * segment.strides[i];
  if (operation.kind == Operation::Kind::Generated) {
    parallelFor(int64_t(operation.chunks.size()), [&](int64_t index) {
      const Chunk &chunk = operation.chunks[size_t(index)];
      operation.function(operation.segments[chunk.segment].arguments.data(),
                         chunk.begin, chunk.end);
    });
    return Status::success();
  }
  for (Segment &segment : operation.segments)
    if (Status status =
            library[operation.kernel]->run(segment.arguments.data());
        !status.ok()) {
      const artifact::KernelT &kernel =
          *artifact.plan().kernels[operation.kernel];
      std::string where = "kernel '" + kernel.name + "'";
      if (!kernel.sources.empty())
        where += " (" + kernel.sources[0] + ")";
      return std::move(status).at(where);
    }
  return Status::success();
}

void HostExecutor::startCollective(const Operation &operation,
                                   int64_t iteration) {
  Collective collective = operation.collective;
  for (size_t i = 0; i < collective.ranges.size(); ++i) {
    CollectiveRange &range = collective.ranges[i];
    range.input = static_cast<const std::byte *>(range.input) +
                  iteration * operation.inputStrides[i];
    range.output = static_cast<std::byte *>(range.output) +
                   iteration * operation.outputStrides[i];
  }
  collectives.start(std::move(collective));
}

} // namespace lockstep::runtime
