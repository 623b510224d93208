#include "runtime/device/cuda/upload.h"

#include <algorithm>

namespace lockstep::runtime::cuda {

static const char *const what = "copying to the GPU";

StatusOr<std::unique_ptr<Upload>> Upload::create(const Gpu &gpu) {
  std::unique_ptr<Upload> upload(new Upload(gpu));
  LOCKSTEP_ASSIGN_OR_RETURN(upload->stream, Stream::create(gpu));
  for (Piece &piece : upload->pieces) {
    LOCKSTEP_ASSIGN_OR_RETURN(piece.memory,
                              PinnedBuffer::create(gpu, pieceBytes));
    LOCKSTEP_ASSIGN_OR_RETURN(piece.copied, Event::create(gpu, false));
  }
  return upload;
}

Upload::~Upload() {
  if (stream.handle())
    gpu.driver().streamSynchronize(stream.handle());
}

Status Upload::send(Address target, int64_t bytes, const Device::Edit &edit) {
  const Driver &api = gpu.driver();
  for (int64_t begin = 0; begin < bytes; begin += pieceBytes) {
    int64_t end = std::min(bytes, begin + pieceBytes);
    Piece &piece = pieces[next];
    next = 1 - next;
    // An event that was never recorded has happened.
    LOCKSTEP_RETURN_IF_ERROR(
        api.check(api.eventSynchronize(piece.copied.handle()), what));
    edit(piece.memory.data(), begin, end);
    LOCKSTEP_RETURN_IF_ERROR(api.check(
        api.memcpyHtoDAsync(target + Address(begin), piece.memory.data(),
                            size_t(end - begin), stream.handle()),
        what));
    LOCKSTEP_RETURN_IF_ERROR(api.check(
        api.eventRecord(piece.copied.handle(), stream.handle()), what));
  }
  return Status::success();
}

Status Upload::finish() {
  const Driver &api = gpu.driver();
  return api.check(api.streamSynchronize(stream.handle()), what);
}

} // namespace lockstep::runtime::cuda
