#include "runtime/artifact/plan_check.h"
#include "runtime/artifact/types.h"

#include <algorithm>
#include <set>

namespace lockstep::runtime {

using namespace artifact;

static Status violated(const char *rule, const std::string &what) {
  return internalFault(std::string(rule) + ": " + what);
}

namespace {
/// Checks one program; holds the context that the rules need.
class ProgramCheck {
public:
  ProgramCheck(const PlanT &plan, const ProgramT &program)
      : plan(plan), program(program) {}
  Status run();

private:
  using Instructions = std::vector<std::unique_ptr<InstructionT>>;
  Status checkBody(const Instructions &body, int64_t iterations);
  Status checkLaunch(const LaunchT &launch, int64_t iterations);
  Status checkCollective(const CollectiveStartT &start, int64_t iterations);
  Status checkRange(const std::string &what, int64_t offset, int64_t bytes,
                    int64_t alignment, int64_t stride = 0,
                    int64_t iterations = 1);
  Status checkInput(const InputT &input);

  const PlanT &plan;
  const ProgramT &program;
  std::set<uint32_t> usedIds;
};
} // namespace

Status ProgramCheck::checkRange(const std::string &what, int64_t offset,
                                int64_t bytes, int64_t alignment,
                                int64_t stride, int64_t iterations) {
  int64_t arena = program.arena_bytes;
  int64_t last = 0;
  if (offset < 0 || bytes < 0 || iterations < 1 ||
      __builtin_mul_overflow(stride, iterations - 1, &last) ||
      __builtin_add_overflow(last, offset, &last) || last < 0 ||
      bytes > arena || offset > arena - bytes || last > arena - bytes)
    return violated("P1", what + " lies outside the arena of " +
                              std::to_string(arena) + " bytes");
  if (alignment > 1 && (offset % alignment || stride % alignment))
    return violated("P1",
                    what + " is not aligned to " + std::to_string(alignment));
  return Status::success();
}

Status ProgramCheck::checkInput(const InputT &input) {
  std::string what =
      "input '" + input.name + "' of program '" + program.name + "'";
  int64_t size = sizeOf(input.dtype);
  if (!size || input.bytes != elementsOf(input.local_shape) * size)
    return violated("P6", what + " has a size that does not fit its shape");
  std::vector<int64_t> expected = input.global_shape;
  if (!input.whole) {
    int64_t parts = int64_t(plan.ranks) * program.accumulation_steps;
    if (expected.empty() || expected[0] % parts)
      return violated("P7",
                      what + " cannot be divided by " + std::to_string(parts));
    expected[0] /= plan.ranks;
  }
  if (expected != input.local_shape)
    return violated("P7", what + " has local shape " +
                              shapeText(input.local_shape) + ", expected " +
                              shapeText(expected));
  return checkRange(what, input.offset, input.bytes, size);
}

/// Bytes from the first element to the end of the last one.
static int64_t extentOf(const KernelParameterT &map) {
  int64_t bytes = sizeOf(map.dtype) * map.dims[0];
  for (size_t i = 1; i < map.dims.size(); ++i)
    bytes += (map.dims[i] - 1) * map.strides[i - 1];
  return bytes;
}

static Status checkParameters(const KernelT &kernel, const SegmentT &segment) {
  for (size_t i = 0; i < kernel.parameters.size(); ++i) {
    const KernelParameterT &parameter = *kernel.parameters[i];
    bool isMap = parameter.kind == ParameterKind::TensorMap;
    if (!isMap && parameter.kind != ParameterKind::Pointer)
      continue;
    int64_t bytes = isMap ? extentOf(parameter) : 0;
    if (parameter.operand >= segment.arguments.size() ||
        parameter.byte_offset + bytes >
            segment.arguments[parameter.operand].bytes())
      return violated("P9", "parameter " + std::to_string(i) + " of '" +
                                kernel.name + "' is outside of its operand");
  }
  return Status::success();
}

Status ProgramCheck::checkLaunch(const LaunchT &launch, int64_t iterations) {
  if (launch.kernel >= plan.kernels.size())
    return violated("P2",
                    "a launch names kernel " + std::to_string(launch.kernel));
  const KernelT &kernel = *plan.kernels[launch.kernel];
  if (launch.segments.empty())
    return violated("P2", "a launch of '" + kernel.name + "' has no segment");
  const SegmentT &first = *launch.segments[0];
  for (const auto &segment : launch.segments) {
    if (kernel.segmented
            ? segment->arguments.size() != first.arguments.size()
            : kernel.threads && segment->work_items != first.work_items)
      return violated("P8",
                      "segments of a launch of '" + kernel.name + "' differ");
    if (segment->work_items < 0)
      return violated("P2",
                      "a launch of '" + kernel.name + "' has negative work");
    LOCKSTEP_RETURN_IF_ERROR(checkParameters(kernel, *segment));
    for (size_t i = 0; i < segment->arguments.size(); ++i) {
      const Operand &operand = segment->arguments[i];
      LOCKSTEP_RETURN_IF_ERROR(checkRange(
          "argument " + std::to_string(i) + " of '" + kernel.name + "'",
          operand.offset(), operand.bytes(), 1, operand.iteration_stride(),
          iterations));
    }
  }
  return Status::success();
}

Status ProgramCheck::checkCollective(const CollectiveStartT &start,
                                     int64_t iterations) {
  std::string what = "collective '" + start.name + "'";
  if (start.communicator >= plan.communicators.size())
    return violated("P2", what + " names communicator " +
                              std::to_string(start.communicator));
  if (start.kind == CollectiveKind::Barrier)
    return Status::success();
  if (start.inputs.size() != start.outputs.size() || start.inputs.empty())
    return violated("P4", what + " has unpaired operands");
  const CommunicatorT &communicator = *plan.communicators[start.communicator];
  int64_t members = communicator.groups.empty()
                        ? 0
                        : int64_t(communicator.groups[0]->ranks.size());
  if (start.kind == CollectiveKind::Broadcast && start.root >= members)
    return violated("P4",
                    what + " has no member " + std::to_string(start.root));
  int64_t size = sizeOf(start.dtype);
  for (size_t i = 0; i < start.inputs.size(); ++i) {
    const Operand &in = start.inputs[i], &out = start.outputs[i];
    LOCKSTEP_RETURN_IF_ERROR(checkRange(what, in.offset(), in.bytes(), size,
                                        in.iteration_stride(), iterations));
    LOCKSTEP_RETURN_IF_ERROR(checkRange(what, out.offset(), out.bytes(), size,
                                        out.iteration_stride(), iterations));
    int64_t inScale = start.kind == CollectiveKind::AllGather ? members : 1;
    int64_t outScale =
        start.kind == CollectiveKind::ReduceScatter ? members : 1;
    if (!size || in.bytes() % size ||
        in.bytes() * inScale != out.bytes() * outScale)
      return violated("P4", what + " has operands of " +
                                std::to_string(in.bytes()) + " and " +
                                std::to_string(out.bytes()) + " bytes for " +
                                std::to_string(members) + " ranks");
  }
  return Status::success();
}

Status ProgramCheck::checkBody(const Instructions &body, int64_t iterations) {
  std::set<uint32_t> pending;
  for (const auto &instruction : body) {
    const OperationUnion &operation = instruction->operation;
    if (const LaunchT *launch = operation.AsLaunch()) {
      LOCKSTEP_RETURN_IF_ERROR(checkLaunch(*launch, iterations));
    } else if (const CollectiveStartT *start = operation.AsCollectiveStart()) {
      LOCKSTEP_RETURN_IF_ERROR(checkCollective(*start, iterations));
      if (!usedIds.insert(start->id).second)
        return violated("P3", "collective id " + std::to_string(start->id) +
                                  " is used twice");
      pending.insert(start->id);
    } else if (const CollectiveWaitT *wait = operation.AsCollectiveWait()) {
      if (!pending.erase(wait->id))
        return violated("P3", "collective " + std::to_string(wait->id) +
                                  " is awaited but not started here");
    } else if (const LoopT *loop = operation.AsLoop()) {
      if (loop->count < 1)
        return violated("P1", "a loop runs " + std::to_string(loop->count) +
                                  " times");
      LOCKSTEP_RETURN_IF_ERROR(checkBody(loop->body, loop->count));
    } else {
      return violated("P2", "unknown instruction");
    }
  }
  if (!pending.empty())
    return violated("P3", "collective " + std::to_string(*pending.begin()) +
                              " is never awaited");
  return Status::success();
}

Status ProgramCheck::run() {
  if (program.arena_bytes < 0 || program.accumulation_steps < 1)
    return violated("P6",
                    "program '" + program.name + "' has impossible sizes");
  for (const auto &tensor : plan.tensors)
    LOCKSTEP_RETURN_IF_ERROR(checkRange("tensor '" + tensor->name + "'",
                                        tensor->offset, tensor->bytes,
                                        sizeOf(tensor->dtype)));
  for (const auto &input : program.inputs)
    LOCKSTEP_RETURN_IF_ERROR(checkInput(*input));
  for (const auto &scalar : program.scalars) {
    int64_t size = sizeOf(scalar->dtype);
    if (scalar->count < 1 ||
        (scalar->kind == ScalarKind::Rng &&
         (scalar->dtype != artifact::DType::I64 ||
          (scalar->count != 2 &&
           scalar->count != 2 * program.accumulation_steps))) ||
        (scalar->kind == ScalarKind::Coordinate &&
         scalar->communicator >= plan.communicators.size()))
      return violated("P6", "scalar '" + scalar->name + "' has " +
                                std::to_string(scalar->count) + " elements");
    LOCKSTEP_RETURN_IF_ERROR(checkRange("scalar '" + scalar->name + "'",
                                        scalar->offset, size * scalar->count,
                                        size));
  }
  return checkBody(program.instructions, 1);
}

static Status checkTensors(const PlanT &plan) {
  std::set<std::string> names;
  for (const auto &tensor : plan.tensors) {
    int64_t size = sizeOf(tensor->dtype);
    if (!size || tensor->bytes != elementsOf(tensor->shape) * size)
      return violated("P6", "tensor '" + tensor->name +
                                "' has a size that does not fit its shape");
    if (tensor->weight && tensor->weight->bytes != tensor->bytes)
      return violated("P6", "the value of '" + tensor->name + "' has " +
                                std::to_string(tensor->weight->bytes) +
                                " bytes, expected " +
                                std::to_string(tensor->bytes));
    if (!names.insert(tensor->name).second)
      return violated("P6", "two tensors are named '" + tensor->name + "'");
    for (const std::string &tied : tensor->tied_names)
      if (!names.insert(tied).second)
        return violated("P6", "two tensors are named '" + tied + "'");
  }
  return Status::success();
}

static Status checkCommunicators(const PlanT &plan) {
  for (const auto &communicator : plan.communicators) {
    std::set<uint32_t> seen;
    for (const auto &group : communicator->groups) {
      if (group->ranks.size() != communicator->groups[0]->ranks.size())
        return violated("P5", "groups of communicator '" + communicator->name +
                                  "' differ in size");
      for (uint32_t rank : group->ranks)
        if (rank >= plan.ranks || !seen.insert(rank).second)
          return violated("P5", "communicator '" + communicator->name +
                                    "' names rank " + std::to_string(rank) +
                                    " wrongly");
    }
  }
  return Status::success();
}

static bool isPossible(const KernelParameterT &parameter,
                       const KernelT &kernel) {
  constexpr size_t mostDims = 5; // of the copy engine
  auto positive = [](int64_t size) { return size > 0; };
  size_t rank = parameter.dims.size();
  switch (parameter.kind) {
  case ParameterKind::TensorMap:
    return rank >= 1 && rank <= mostDims &&
           parameter.strides.size() == rank - 1 &&
           parameter.box.size() == rank && parameter.byte_offset >= 0 &&
           std::all_of(parameter.dims.begin(), parameter.dims.end(),
                       positive) &&
           std::all_of(parameter.strides.begin(), parameter.strides.end(),
                       positive);
  case ParameterKind::Pointer:
    return parameter.byte_offset >= 0;
  case ParameterKind::Constant:
    return parameter.offset >= 0 && parameter.bytes >= 0 &&
           parameter.bytes <= int64_t(kernel.constants.size()) &&
           parameter.offset <=
               int64_t(kernel.constants.size()) - parameter.bytes;
  case ParameterKind::Scratch:
    return parameter.offset >= 0 && parameter.bytes >= 0;
  case ParameterKind::Int32:
    return parameter.value >= INT32_MIN && parameter.value <= INT32_MAX;
  case ParameterKind::Int64:
  case ParameterKind::Float32:
  case ParameterKind::Null:
    return true;
  }
  return false;
}

static Status checkParameterList(const KernelT &kernel) {
  bool listed = !kernel.parameters.empty();
  bool special = kernel.grid || kernel.cluster || kernel.overlap ||
                 !kernel.constants.empty();
  if ((special && !listed) ||
      (listed && (!kernel.threads || kernel.segmented)) ||
      (kernel.cluster && kernel.grid % kernel.cluster))
    return violated("P9", "kernel '" + kernel.name +
                              "' has an impossible parameter list");
  for (size_t i = 0; i < kernel.parameters.size(); ++i)
    if (!isPossible(*kernel.parameters[i], kernel))
      return violated("P9", "parameter " + std::to_string(i) + " of '" +
                                kernel.name + "' is impossible");
  return Status::success();
}

static Status checkKernels(const PlanT &plan) {
  const KernelT *host = nullptr, *cuda = nullptr;
  for (const auto &kernel : plan.kernels) {
    bool generated = kernel->library == LibraryKernel::None;
    if (generated == kernel->symbol.empty() ||
        kernel->library < LibraryKernel::MIN ||
        kernel->library > LibraryKernel::MAX)
      return violated("P2",
                      "kernel '" + kernel->name +
                          "' must have either a symbol or a library kernel");
    bool shaped = kernel->threads || kernel->shared_bytes ||
                  kernel->items_per_block != 1 || kernel->segmented;
    if (shaped && (!generated || kernel->threads < 1 ||
                   kernel->threads > 1024 || kernel->items_per_block < 1))
      return violated("P8", "kernel '" + kernel->name +
                                "' has an impossible shape of blocks");
    LOCKSTEP_RETURN_IF_ERROR(checkParameterList(*kernel));
    if (generated)
      (kernel->threads ? cuda : host) = kernel.get();
  }
  if (host && cuda)
    return violated("P8", "kernel '" + host->name + "' is for the host, but '" +
                              cuda->name + "' is for CUDA");
  return Status::success();
}

Status checkPlan(const PlanT &plan) {
  if (plan.ranks < 1)
    return violated("P6", "the plan is for no rank");
  LOCKSTEP_RETURN_IF_ERROR(checkKernels(plan));
  LOCKSTEP_RETURN_IF_ERROR(checkTensors(plan));
  LOCKSTEP_RETURN_IF_ERROR(checkCommunicators(plan));
  std::set<std::string> names;
  for (const auto &program : plan.programs) {
    if (!names.insert(program->name).second)
      return violated("P6", "two programs are named '" + program->name + "'");
    LOCKSTEP_RETURN_IF_ERROR(ProgramCheck(plan, *program).run());
  }
  if (!names.count("step"))
    return violated("P6", "the plan has no step program");
  return Status::success();
}

} // namespace lockstep::runtime
