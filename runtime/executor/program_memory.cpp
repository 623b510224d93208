#include "runtime/executor/program_memory.h"
#include "runtime/artifact/types.h"

#include <algorithm>

namespace lockstep::runtime {

namespace {
/// Ranges of the arena that hold something, iterations of loops included.
class UsedRanges {
public:
  UsedRanges(const artifact::PlanT &plan, const artifact::ProgramT &program) {
    for (const auto &tensor : plan.tensors)
      add(tensor->offset, tensor->bytes);
    for (const auto &input : program.inputs)
      add(input->offset, input->bytes);
    for (const auto &scalar : program.scalars)
      if (scalar->kind == artifact::ScalarKind::Metric)
        add(scalar->offset, scalar->count * sizeOf(scalar->dtype));
    addBody(program.instructions, 1);
    std::sort(ranges.begin(), ranges.end());
  }

  /// Whether nothing lies in [begin, end).
  bool free(int64_t begin, int64_t end) const {
    for (auto [first, last] : ranges)
      if (first < end && begin < last)
        return false;
    return true;
  }

private:
  using Body = std::vector<std::unique_ptr<artifact::InstructionT>>;
  void add(int64_t offset, int64_t bytes) {
    if (bytes)
      ranges.emplace_back(offset, offset + bytes);
  }
  void add(const artifact::Operand &operand, int64_t iterations) {
    int64_t moved = operand.iteration_stride() * (iterations - 1);
    add(operand.offset() + std::min<int64_t>(moved, 0),
        operand.bytes() + std::abs(moved));
  }
  void addBody(const Body &body, int64_t iterations) {
    for (const auto &instruction : body) {
      const artifact::OperationUnion &operation = instruction->operation;
      if (const auto *launch = operation.AsLaunch()) {
        for (const auto &segment : launch->segments)
          for (const artifact::Operand &operand : segment->arguments)
            add(operand, iterations);
      } else if (const auto *start = operation.AsCollectiveStart()) {
        for (const auto *operands : {&start->inputs, &start->outputs})
          for (const artifact::Operand &operand : *operands)
            add(operand, iterations);
      } else if (const auto *loop = operation.AsLoop()) {
        addBody(loop->body, loop->count);
      }
    }
  }
  std::vector<std::pair<int64_t, int64_t>> ranges;
};
} // namespace

std::vector<PlacedRange> scalarRanges(const artifact::PlanT &plan,
                                      const artifact::ProgramT &program) {
  std::vector<PlacedRange> each;
  for (const auto &scalar : program.scalars)
    if (scalar->kind != artifact::ScalarKind::Metric)
      each.push_back(
          {scalar->offset, scalar->count * sizeOf(scalar->dtype), 0});
  std::sort(each.begin(), each.end(),
            [](auto &a, auto &b) { return a.offset < b.offset; });
  UsedRanges used(plan, program);
  std::vector<PlacedRange> joined;
  constexpr int64_t longestGap = 4096;
  for (const PlacedRange &range : each) {
    if (!joined.empty()) {
      PlacedRange &last = joined.back();
      int64_t end = last.offset + last.bytes;
      if (range.offset - end <= longestGap && used.free(end, range.offset)) {
        last.bytes = range.offset + range.bytes - last.offset;
        continue;
      }
    }
    joined.push_back(range);
  }
  return joined;
}

void ProgramMemory::layOut(const artifact::PlanT &plan,
                           const artifact::ProgramT &program) {
  auto put = [&](std::vector<PlacedRange> &list, PlacedRange range) {
    range.place = slotBytes;
    slotBytes += (range.bytes + 255) / 256 * 256;
    places[range.offset] = range.place;
    list.push_back(range);
  };
  for (const auto &input : program.inputs)
    put(inputs, {input->offset, input->bytes, 0});
  inputBytes = slotBytes;
  for (const PlacedRange &range : scalarRanges(plan, program))
    put(scalars, range);
  for (const auto &scalar : program.scalars)
    if (scalar->kind == artifact::ScalarKind::Metric)
      put(metrics, {scalar->offset, scalar->count * sizeOf(scalar->dtype), 0});
}

StatusOr<ProgramMemory> ProgramMemory::create(const artifact::PlanT &plan,
                                              const artifact::ProgramT &program,
                                              cuda::CudaDevice &device,
                                              int64_t slots) {
  ProgramMemory memory(device);
  memory.slots = slots;
  memory.layOut(plan, program);
  const cuda::Gpu &gpu = device.gpu();
  int64_t hostBytes = slots * memory.slotBytes;
  LOCKSTEP_ASSIGN_OR_RETURN(memory.host,
                            cuda::PinnedBuffer::create(gpu, hostBytes));
  std::fill_n(memory.host.data(), hostBytes, std::byte{0});
  auto makeBuffer = [&] {
    return cuda::Buffer::create(gpu, slots * memory.inputBytes,
                                "inputs copied ahead");
  };
  LOCKSTEP_ASSIGN_OR_RETURN(memory.staging, makeBuffer());
  if (slots > 1) {
    LOCKSTEP_ASSIGN_OR_RETURN(memory.taken, makeBuffer());
  }
  LOCKSTEP_ASSIGN_OR_RETURN(memory.copied, cuda::Event::create(gpu, false));
  LOCKSTEP_ASSIGN_OR_RETURN(memory.free, cuda::Event::create(gpu, false));
  return memory;
}

/// The inputs of all slots lie together, so that they are copied as one.
int64_t ProgramMemory::placeOf(int64_t place, int64_t slot) const {
  if (place < inputBytes)
    return slot * inputBytes + place;
  return slots * inputBytes + slot * (slotBytes - inputBytes) +
         (place - inputBytes);
}

std::byte *ProgramMemory::place(int64_t offset, int64_t slot) const {
  auto next = places.upper_bound(offset);
  if (next == places.begin())
    return nullptr;
  --next;
  return host.data() + placeOf(next->second + (offset - next->first), slot);
}

Status ProgramMemory::stage(cuda::StreamHandle copies, int64_t runs) {
  const cuda::Driver &api = device->gpu().driver();
  if (everTaken)
    LOCKSTEP_RETURN_IF_ERROR(
        api.check(api.streamWaitEvent(copies, free.handle(), 0),
                  "waiting to copy inputs"));
  if (inputBytes)
    LOCKSTEP_RETURN_IF_ERROR(
        api.check(api.memcpyHtoDAsync(staging.address(), host.data(),
                                      size_t(runs * inputBytes), copies),
                  "copying inputs to the GPU"));
  staged = true;
  return api.check(api.eventRecord(copied.handle(), copies),
                   "copying inputs to the GPU");
}

Status ProgramMemory::takeInputs(cuda::StreamHandle copies,
                                 cuda::StreamHandle compute, int64_t runs) {
  const cuda::Driver &api = device->gpu().driver();
  if (!staged)
    LOCKSTEP_RETURN_IF_ERROR(stage(copies, runs));
  staged = false;
  LOCKSTEP_RETURN_IF_ERROR(api.check(
      api.streamWaitEvent(compute, copied.handle(), 0), "waiting for inputs"));
  if (slots == 1)
    LOCKSTEP_RETURN_IF_ERROR(moveInputs(staging.address(), compute));
  else if (inputBytes)
    LOCKSTEP_RETURN_IF_ERROR(
        api.check(api.memcpyDtoDAsync(taken.address(), staging.address(),
                                      size_t(runs * inputBytes), compute),
                  "moving inputs"));
  everTaken = true;
  return api.check(api.eventRecord(free.handle(), compute), "moving inputs");
}

Status ProgramMemory::moveInputs(cuda::Address from,
                                 cuda::StreamHandle compute) const {
  const cuda::Driver &api = device->gpu().driver();
  for (const PlacedRange &input : inputs)
    if (input.bytes)
      LOCKSTEP_RETURN_IF_ERROR(
          api.check(api.memcpyDtoDAsync(device->at(input.offset),
                                        from + cuda::Address(input.place),
                                        size_t(input.bytes), compute),
                    "moving inputs"));
  return Status::success();
}

Status ProgramMemory::moveInputs(cuda::StreamHandle compute,
                                 int64_t slot) const {
  if (slots == 1)
    return Status::success();
  return moveInputs(taken.address() + cuda::Address(slot * inputBytes),
                    compute);
}

Status ProgramMemory::waitForHost() const {
  const cuda::Driver &api = device->gpu().driver();
  return api.check(api.eventSynchronize(copied.handle()),
                   "copying inputs to the GPU");
}

Status ProgramMemory::writeScalars(cuda::StreamHandle compute,
                                   int64_t slot) const {
  const cuda::Driver &api = device->gpu().driver();
  for (const PlacedRange &range : scalars)
    LOCKSTEP_RETURN_IF_ERROR(
        api.check(api.memcpyHtoDAsync(device->at(range.offset),
                                      host.data() + placeOf(range.place, slot),
                                      size_t(range.bytes), compute),
                  "copying scalars to the GPU"));
  return Status::success();
}

Status ProgramMemory::readMetrics(cuda::StreamHandle compute,
                                  int64_t slot) const {
  const cuda::Driver &api = device->gpu().driver();
  for (const PlacedRange &range : metrics)
    LOCKSTEP_RETURN_IF_ERROR(
        api.check(api.memcpyDtoHAsync(host.data() + placeOf(range.place, slot),
                                      device->at(range.offset),
                                      size_t(range.bytes), compute),
                  "copying metrics from the GPU"));
  return Status::success();
}

} // namespace lockstep::runtime
