// What goes in and out of a program on a GPU: pinned host memory for its inputs
// and scalars, and copies of both ways. Inputs are copied ahead, on a stream of
// their own, into a buffer beside the arena; scalars and metrics move within
// the program. A launch may run the program several times; each of its runs has
// a slot of its own, of inputs and of scalars.
#ifndef LOCKSTEP_RUNTIME_EXECUTOR_PROGRAM_MEMORY_H
#define LOCKSTEP_RUNTIME_EXECUTOR_PROGRAM_MEMORY_H

#include "runtime/artifact/artifact_generated.h"
#include "runtime/device/cuda/cuda_device.h"

#include <map>

namespace lockstep::runtime {

/// A range of the arena and where it lies in a buffer.
struct PlacedRange {
  int64_t offset, bytes, place;
};

/// Scalars that the host writes, as few ranges as possible: two become one
/// when nothing else of the program or the model lies between them.
std::vector<PlacedRange> scalarRanges(const artifact::PlanT &plan,
                                      const artifact::ProgramT &program);

class ProgramMemory {
public:
  static StatusOr<ProgramMemory> create(const artifact::PlanT &plan,
                                        const artifact::ProgramT &program,
                                        cuda::CudaDevice &device,
                                        int64_t slots);

  /// Host memory of the input or scalar at this offset of the arena.
  std::byte *place(int64_t offset, int64_t slot) const;

  /// Copies the inputs of `runs` runs to the GPU, on `copies`, once the launch
  /// before has taken its own.
  Status stage(cuda::StreamHandle copies, int64_t runs);
  /// Takes staged inputs over, on the program's stream, so that the next may be
  /// staged: those of a single slot into the arena. Stages them first when
  /// nobody did.
  Status takeInputs(cuda::StreamHandle copies, cuda::StreamHandle compute,
                    int64_t runs);
  /// Waits until the host may write the next inputs.
  Status waitForHost() const;

  // Part of the program, on its stream: inputs of a run into the arena where
  // takeInputs did not, scalars in, metrics out.
  Status moveInputs(cuda::StreamHandle compute, int64_t slot) const;
  Status writeScalars(cuda::StreamHandle compute, int64_t slot) const;
  Status readMetrics(cuda::StreamHandle compute, int64_t slot) const;

  int64_t stagingBytes() const { return staging.bytes() + taken.bytes(); }

private:
  explicit ProgramMemory(cuda::CudaDevice &device) : device(&device) {}
  void layOut(const artifact::PlanT &plan, const artifact::ProgramT &program);
  /// Where byte `place` of a slot lies in the host's memory.
  int64_t placeOf(int64_t place, int64_t slot) const;
  Status moveInputs(cuda::Address from, cuda::StreamHandle compute) const;

  cuda::CudaDevice *device;
  std::vector<PlacedRange> inputs, scalars, metrics;
  std::map<int64_t, int64_t> places; ///< start of a range: its place
  int64_t slots = 1;
  int64_t inputBytes = 0, slotBytes = 0; ///< of a slot: inputs, then the rest
  cuda::PinnedBuffer host;
  cuda::Buffer staging, taken; ///< `taken` for several slots
  cuda::Event copied, free;    ///< staging is full; staging may be overwritten
  bool staged = false, everTaken = false;
};

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_EXECUTOR_PROGRAM_MEMORY_H
