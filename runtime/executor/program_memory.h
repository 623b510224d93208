// What goes in and out of a program on a GPU: pinned host memory for its inputs
// and scalars, and copies of both ways. Inputs are copied ahead, on a stream of
// their own, into a buffer beside the arena; scalars and metrics move within
// the program.
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
                                        cuda::CudaDevice &device);

  /// Host memory of the input or scalar at this offset of the arena.
  std::byte *place(int64_t offset) const;

  /// Copies the inputs to the GPU, on `copies`, once the run before has taken
  /// its own.
  Status stage(cuda::StreamHandle copies);
  /// Moves staged inputs into the arena, on the program's stream; stages them
  /// first when nobody did.
  Status takeInputs(cuda::StreamHandle copies, cuda::StreamHandle compute);
  /// Waits until the host may write the next inputs.
  Status waitForHost() const;

  Status writeScalars(cuda::StreamHandle compute) const;
  Status readMetrics(cuda::StreamHandle compute) const;

  int64_t stagingBytes() const { return staging.bytes(); }

private:
  explicit ProgramMemory(cuda::CudaDevice &device) : device(&device) {}
  void layOut(const artifact::PlanT &plan, const artifact::ProgramT &program);

  cuda::CudaDevice *device;
  std::vector<PlacedRange> inputs, scalars, metrics;
  std::map<int64_t, int64_t> places; ///< start of a range: its place
  int64_t inputBytes = 0, hostBytes = 0;
  cuda::PinnedBuffer host;
  cuda::Buffer staging;
  cuda::Event copied, taken;
  bool staged = false, everTaken = false;
};

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_EXECUTOR_PROGRAM_MEMORY_H
