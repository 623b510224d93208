// Values from the host to the arena, piece by piece: while one piece is copied,
// the next one is made in the other of two page-locked buffers.
#ifndef LOCKSTEP_RUNTIME_DEVICE_CUDA_UPLOAD_H
#define LOCKSTEP_RUNTIME_DEVICE_CUDA_UPLOAD_H

#include "runtime/device/cuda/gpu.h"
#include "runtime/device/device.h"

#include <memory>

namespace lockstep::runtime::cuda {

class Upload {
public:
  static constexpr int64_t pieceBytes = 16 << 20;

  /// Takes the buffers. `gpu` must outlive the upload. Error: no page-locked
  /// memory.
  static StatusOr<std::unique_ptr<Upload>> create(const Gpu &gpu);
  /// No copy is under way afterwards.
  ~Upload();

  /// Has `edit` make `bytes` bytes, and starts their copies to `target`.
  Status send(Address target, int64_t bytes, const Device::Edit &edit);

  /// Returns once all is copied.
  Status finish();

private:
  explicit Upload(const Gpu &gpu) : gpu(gpu) {}
  struct Piece {
    PinnedBuffer memory;
    Event copied;
  };
  const Gpu &gpu;
  Piece pieces[2];
  int next = 0;
  Stream stream; ///< goes first
};

} // namespace lockstep::runtime::cuda

#endif // LOCKSTEP_RUNTIME_DEVICE_CUDA_UPLOAD_H
