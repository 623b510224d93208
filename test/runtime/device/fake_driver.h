// A CUDA driver of which a test says what it finds: one GPU of any capability
// and memory, and how loading code ends.
#ifndef LOCKSTEP_TEST_RUNTIME_DEVICE_FAKE_DRIVER_H
#define LOCKSTEP_TEST_RUNTIME_DEVICE_FAKE_DRIVER_H

#include "runtime/device/cuda/driver.h"

#include <string>
#include <vector>

namespace lockstep::runtime::testing {

/// A copy that was asked for. It reads its source no earlier than it must: when
/// something behind it is awaited.
struct FakeCopy {
  cuda::Address target;
  const void *source;
  size_t bytes;
};

struct FakeGpu {
  cuda::Result initResult = cuda::success;
  int count = 1;
  int major = 9, minor = 0;
  int driverVersion = 13000;
  size_t freeBytes = 1 << 30;
  cuda::Result loadResult = cuda::success;
  const char *jitLog = "";
  int threadsPerBlock = 1024;   ///< of every function
  int opened = -1;              ///< the GPU that was asked for
  cuda::Address address = 4096; ///< of every allocation
  std::string copied;           ///< last to the GPU
  size_t cleared = 0;           ///< bytes, last
  std::vector<FakeCopy> copies; ///< of the one stream, not yet made
  std::string memory;           ///< from `address`, as far as it was copied to
  int pinned = 0;               ///< page-locked buffers that are held
  size_t pinnedBytes = 1 << 30; ///< that there are
  cuda::Result copyResult = cuda::success;
  cuda::Result mapResult = cuda::success;
};

/// The one that the fake driver shows; tests set it first.
extern FakeGpu fakeGpu;

/// A driver that shows fakeGpu. Functions that no error path needs are null.
cuda::Driver fakeDriver();

} // namespace lockstep::runtime::testing

#endif // LOCKSTEP_TEST_RUNTIME_DEVICE_FAKE_DRIVER_H
