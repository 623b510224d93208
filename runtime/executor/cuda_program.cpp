#include "runtime/executor/cuda_program.h"
#include "runtime/artifact/types.h"

#include <algorithm>
#include <climits>
#include <cstring>

namespace lockstep::runtime {

using cuda::Address;
using Kind = CudaOperation::Kind;

StatusOr<std::unique_ptr<CudaKernels>>
CudaKernels::load(const ArtifactReader &artifact, cuda::CudaDevice &device,
                  bool allowJit) {
  std::unique_ptr<CudaKernels> kernels(new CudaKernels(artifact, device));
  LOCKSTEP_RETURN_IF_ERROR(kernels->loadAll(allowJit));
  return kernels;
}

Status CudaKernels::loadAll(bool allowJit) {
  const cuda::Gpu &gpu = device.gpu();
  LOCKSTEP_ASSIGN_OR_RETURN(const CodeSection *section,
                            cuda::chooseCode(artifact.code(), gpu, allowJit));
  LOCKSTEP_ASSIGN_OR_RETURN(
      code, cuda::Code::load(gpu, artifact.code(), section->target));
  LOCKSTEP_ASSIGN_OR_RETURN(parameters,
                            CudaParameters::create(artifact.plan(), device));
  for (const auto &kernel : artifact.plan().kernels) {
    functions.push_back(nullptr);
    library.emplace_back();
    if (kernel->library != artifact::LibraryKernel::None) {
      LOCKSTEP_ASSIGN_OR_RETURN(library.back(), prepare(*kernel));
      continue;
    }
    LOCKSTEP_ASSIGN_OR_RETURN(functions.back(), code.find(*kernel));
  }
  return Status::success();
}

StatusOr<CudaKernels::Library>
CudaKernels::prepare(const artifact::KernelT &kernel) {
  using K = artifact::LibraryKernel;
  Library result;
  Attributes attributes(kernel);
  switch (kernel.library) {
  case K::Gemm: {
    if (!blas) {
      LOCKSTEP_ASSIGN_OR_RETURN(blas, cuda::CublasLt::load(device.gpu()));
      device.addMemory(
          {"workspace of cuBLASLt", cuda::CublasLt::workspaceBytes});
    }
    LOCKSTEP_ASSIGN_OR_RETURN(
        result.gemm, readGemmShape(attributes, {"f32", "f64", "bf16"}));
    return result;
  }
  case K::Fill:
    result.value = static_cast<unsigned char>(attributes.integer("byte", 0));
    [[fallthrough]];
  case K::Copy:
    result.bytes = attributes.integer("bytes");
    if (result.bytes < 0)
      attributes.reject("bytes", "must not be negative");
    LOCKSTEP_RETURN_IF_ERROR(attributes.finish());
    return result;
  default:
    return inputError(std::string("kernel '") + kernel.name +
                      "' is the library kernel " +
                      artifact::EnumNameLibraryKernel(kernel.library) +
                      ", which GPUs do not have")
        .remedy("compile with --target x86-64-v3");
  }
}

Status CudaKernels::resolve(const artifact::ProgramT &program,
                            std::vector<CudaOperation> &to) {
  return resolveBody(program.instructions, 0, to)
      .at("program '" + program.name + "'");
}

Status CudaKernels::resolveBody(const Body &body, int64_t iteration,
                                std::vector<CudaOperation> &to) {
  for (const auto &instruction : body) {
    const artifact::OperationUnion &source = instruction->operation;
    if (const auto *launch = source.AsLaunch()) {
      LOCKSTEP_RETURN_IF_ERROR(resolveLaunch(*launch, iteration, to));
    } else if (const auto *start = source.AsCollectiveStart()) {
      LOCKSTEP_RETURN_IF_ERROR(resolveStart(*start, iteration, to));
    } else if (const auto *wait = source.AsCollectiveWait()) {
      CudaOperation &operation = to.emplace_back();
      operation.kind = Kind::Wait;
      operation.collective.id = wait->id;
      operation.collective.name = collectiveNames[wait->id];
    } else if (const auto *loop = source.AsLoop()) {
      for (int64_t i = 0; i < loop->count; ++i)
        LOCKSTEP_RETURN_IF_ERROR(resolveBody(loop->body, i, to));
    }
  }
  return Status::success();
}

Address CudaKernels::addressOf(const artifact::Operand &operand,
                               int64_t iteration) const {
  return device.at(operand.offset() + iteration * operand.iteration_stride());
}

Status CudaKernels::resolveLaunch(const artifact::LaunchT &launch,
                                  int64_t iteration,
                                  std::vector<CudaOperation> &to) {
  const artifact::KernelT &kernel = *artifact.plan().kernels[launch.kernel];
  Status status;
  if (kernel.library != artifact::LibraryKernel::None)
    status = resolveLibrary(launch, iteration, to);
  else if (kernel.segmented)
    status = resolveSegmented(launch, iteration, to);
  else
    status = resolveGenerated(launch, iteration, to);
  return std::move(status).at("kernel '" + kernel.name + "'");
}

/// Blocks for so many pieces of work. Error: more than a grid has.
static StatusOr<unsigned> blocksFor(int64_t count) {
  if (count > INT_MAX)
    return internalFault("a launch of " + std::to_string(count) +
                         " blocks is larger than a grid");
  return unsigned(count);
}

static void shape(const artifact::KernelT &kernel, CudaOperation &operation) {
  operation.kind = Kind::Kernel;
  operation.threads = kernel.threads;
  operation.sharedBytes = kernel.shared_bytes;
}

Status CudaKernels::resolveGenerated(const artifact::LaunchT &launch,
                                     int64_t iteration,
                                     std::vector<CudaOperation> &to) {
  const artifact::KernelT &kernel = *artifact.plan().kernels[launch.kernel];
  for (const auto &segment : launch.segments) {
    if (!segment->work_items)
      continue;
    CudaOperation &operation = to.emplace_back();
    shape(kernel, operation);
    operation.kernel = launch.kernel;
    operation.function = functions[launch.kernel];
    operation.blocks = kernel.grid;
    if (!kernel.grid) {
      LOCKSTEP_ASSIGN_OR_RETURN(
          operation.blocks,
          blocksFor((segment->work_items + kernel.items_per_block - 1) /
                    kernel.items_per_block));
    }
    for (const artifact::Operand &operand : segment->arguments)
      operation.arguments.push_back(addressOf(operand, iteration));
    if (!kernel.parameters.empty()) {
      LOCKSTEP_ASSIGN_OR_RETURN(
          operation.parameters,
          parameters.resolve(launch.kernel, operation.arguments));
    }
  }
  return Status::success();
}

namespace {
/// What block b of a segmented kernel does; artifact.fbs, table Kernel.
struct Chunk {
  uint32_t segment, zero;
  int64_t begin, end;
};
static_assert(sizeof(Chunk) == 24, "generated kernels read this layout");
} // namespace

/// Appends to the tables, aligned; the offset.
template <typename T>
static Address append(std::vector<std::byte> &tables,
                      const std::vector<T> &values) {
  size_t offset = (tables.size() + 255) / 256 * 256;
  tables.resize(offset + values.size() * sizeof(T));
  std::memcpy(tables.data() + offset, values.data(), values.size() * sizeof(T));
  return offset;
}

Status CudaKernels::resolveSegmented(const artifact::LaunchT &launch,
                                     int64_t iteration,
                                     std::vector<CudaOperation> &to) {
  const artifact::KernelT &kernel = *artifact.plan().kernels[launch.kernel];
  std::vector<Address> pointers;
  std::vector<Chunk> chunks;
  for (uint32_t i = 0; i < launch.segments.size(); ++i) {
    const artifact::SegmentT &segment = *launch.segments[i];
    for (const artifact::Operand &operand : segment.arguments)
      pointers.push_back(addressOf(operand, iteration));
    for (int64_t begin = 0; begin < segment.work_items;
         begin += kernel.items_per_block)
      chunks.push_back(
          {i, 0, begin,
           std::min(begin + kernel.items_per_block, segment.work_items)});
  }
  if (chunks.empty())
    return Status::success();
  CudaOperation &operation = to.emplace_back();
  shape(kernel, operation);
  operation.kernel = launch.kernel;
  operation.function = functions[launch.kernel];
  LOCKSTEP_ASSIGN_OR_RETURN(operation.blocks,
                            blocksFor(int64_t(chunks.size())));
  operation.arguments = {append(tableBytes, pointers),
                         append(tableBytes, chunks)};
  return Status::success();
}

bool CudaKernels::usesTensorCores(uint32_t kernel) const {
  if (library[kernel].gemm)
    return library[kernel].gemm->dtype == "bf16";
  const auto &parameters = artifact.plan().kernels[kernel]->parameters;
  return std::any_of(
      parameters.begin(), parameters.end(), [](const auto &parameter) {
        return parameter->kind == artifact::ParameterKind::TensorMap &&
               parameter->dtype == artifact::DType::BF16;
      });
}

Status CudaKernels::placeTables(
    const std::vector<std::vector<CudaOperation> *> &programs) {
  if (tableBytes.empty())
    return Status::success();
  const cuda::Gpu &gpu = device.gpu();
  LOCKSTEP_ASSIGN_OR_RETURN(
      tables, cuda::Buffer::create(gpu, int64_t(tableBytes.size()),
                                   "the tables of segmented launches"));
  device.addMemory({"tables of segmented launches", tables.bytes()});
  LOCKSTEP_RETURN_IF_ERROR(gpu.driver().check(
      gpu.driver().memcpyHtoD(tables.address(), tableBytes.data(),
                              tableBytes.size()),
      "copying tables to the GPU"));
  for (std::vector<CudaOperation> *operations : programs)
    for (CudaOperation &operation : *operations)
      if (operation.kind == Kind::Kernel &&
          artifact.plan().kernels[operation.kernel]->segmented)
        for (Address &argument : operation.arguments)
          argument += tables.address();
  tableBytes.clear();
  return Status::success();
}

static Status checkOperands(const artifact::SegmentT &segment,
                            const std::vector<int64_t> &needed) {
  if (segment.arguments.size() != needed.size())
    return internalFault("expected " + std::to_string(needed.size()) +
                         " operands, but got " +
                         std::to_string(segment.arguments.size()));
  for (size_t i = 0; i < needed.size(); ++i)
    if (segment.arguments[i].bytes() < needed[i])
      return internalFault("operand " + std::to_string(i) + " has " +
                           std::to_string(segment.arguments[i].bytes()) +
                           " bytes, expected " + std::to_string(needed[i]));
  return Status::success();
}

/// Least bytes of a, b and c.
static std::vector<int64_t> bytesNeeded(const GemmShape &shape) {
  auto sizeOf = [](const std::string &dtype) {
    return dtype == "f64" ? 8 : dtype == "bf16" ? 2 : 4;
  };
  std::array<int64_t, 3> elements = operandElements(shape);
  return {elements[0] * sizeOf(shape.dtype), elements[1] * sizeOf(shape.dtype),
          elements[2] * sizeOf(shape.cDtype)};
}

Status CudaKernels::resolveLibrary(const artifact::LaunchT &launch,
                                   int64_t iteration,
                                   std::vector<CudaOperation> &to) {
  using K = artifact::LibraryKernel;
  K kind = artifact.plan().kernels[launch.kernel]->library;
  const Library &prepared = library[launch.kernel];
  for (const auto &segment : launch.segments) {
    CudaOperation &operation = to.emplace_back();
    operation.kernel = launch.kernel;
    auto address = [&](size_t i) {
      return addressOf(segment->arguments[i], iteration);
    };
    if (kind == K::Gemm) {
      LOCKSTEP_RETURN_IF_ERROR(
          checkOperands(*segment, bytesNeeded(*prepared.gemm)));
      operation.kind = Kind::Gemm;
      LOCKSTEP_ASSIGN_OR_RETURN(
          operation.gemm,
          cuda::Gemm::create(*blas, *prepared.gemm,
                             {address(0), address(1), address(2)}));
      continue;
    }
    bool copy = kind == K::Copy;
    LOCKSTEP_RETURN_IF_ERROR(checkOperands(
        *segment, std::vector<int64_t>(copy ? 2 : 1, prepared.bytes)));
    operation.kind = copy ? Kind::Copy : Kind::Fill;
    operation.bytes = prepared.bytes;
    operation.value = prepared.value;
    operation.target = address(copy ? 1 : 0);
    operation.source = address(0);
  }
  return Status::success();
}

Status CudaKernels::resolveStart(const artifact::CollectiveStartT &start,
                                 int64_t iteration,
                                 std::vector<CudaOperation> &to) {
  using C = artifact::CollectiveKind;
  bool reduces = start.kind == C::AllReduce || start.kind == C::ReduceScatter;
  if (reduces && !NcclCollectives::reduces(start.dtype))
    return internalFault("NCCL does not reduce elements of type " +
                         nameOf(start.dtype))
        .at("collective '" + start.name + "'");
  CudaOperation &operation = to.emplace_back();
  operation.kind = Kind::Start;
  Collective &c = operation.collective;
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
    c.ranges.push_back({reinterpret_cast<void *>(addressOf(in, iteration)),
                        reinterpret_cast<void *>(addressOf(out, iteration)),
                        in.bytes(), out.bytes()});
  }
  return Status::success();
}

} // namespace lockstep::runtime
