// Values on their way to a GPU, with copies made as late as a driver may.
#include "runtime/device/cuda/cuda_device.h"
#include "test/runtime/device/fake_driver.h"

#include <catch2/catch.hpp>
#include <cstring>

using namespace lockstep;
using namespace lockstep::runtime;
using namespace lockstep::runtime::testing;

namespace {
/// A fake GPU with an arena.
struct OneGpu {
  explicit OneGpu(FakeGpu shown = {}) {
    fakeGpu = std::move(shown);
    driver = fakeDriver();
    gpu = *cuda::Gpu::open(driver, 0);
    device = *cuda::CudaDevice::create(*gpu, arena, false);
  }
  static constexpr int64_t arena = 200 << 20;
  cuda::Driver driver;
  std::unique_ptr<cuda::Gpu> gpu;
  std::unique_ptr<cuda::CudaDevice> device;
};
} // namespace

/// The value of byte `at` of the arena.
static char valueOf(int64_t at) { return char(at % 251 + 1); }

/// Fills a range with valueOf; the pieces must come in order without gaps.
static Status fillRange(Device &device, int64_t offset, int64_t bytes,
                        int64_t &pieces) {
  int64_t expected = 0;
  Status status = device.fill(
      offset, bytes, [&](std::byte *target, int64_t begin, int64_t end) {
        CHECK(begin == expected);
        CHECK(end - begin <= cuda::Upload::pieceBytes);
        for (int64_t i = begin; i < end; ++i)
          target[i - begin] = std::byte(valueOf(offset + i));
        expected = end;
        ++pieces;
      });
  CHECK((!status.ok() || expected == bytes));
  return status;
}

TEST_CASE("values of any size arrive, whenever the GPU copies them") {
  OneGpu one;
  constexpr int64_t piece = cuda::Upload::pieceBytes;
  int64_t pieces = 0, end = 0;
  for (int64_t bytes :
       {int64_t(4), 3 * piece + 20, int64_t(0), piece, int64_t(8), piece + 4}) {
    REQUIRE(fillRange(*one.device, end, bytes, pieces).ok());
    end += bytes;
  }
  CHECK(pieces == 1 + 4 + 1 + 1 + 2);
  // Two buffers, so that making the next piece awaits the one before the last.
  CHECK(fakeGpu.copies.size() == 2);
  CHECK(fakeGpu.pinned == 2);
  REQUIRE(one.device->finishFills().ok());
  CHECK(fakeGpu.pinned == 0);
  REQUIRE(int64_t(fakeGpu.memory.size()) == end);
  int64_t wrong = 0;
  for (int64_t i = 0; i < end; ++i)
    wrong += fakeGpu.memory[size_t(i)] != valueOf(i);
  CHECK(wrong == 0);
  // Ending what was not begun is nothing, and fills may begin again.
  REQUIRE(one.device->finishFills().ok());
  REQUIRE(fillRange(*one.device, 0, 100, pieces).ok());
  CHECK(fakeGpu.pinned == 2);
  one.device.reset();
  CHECK(fakeGpu.pinned == 0);
  CHECK(fakeGpu.copies.empty());
}

TEST_CASE("memory of the GPU is cleared there, without copies") {
  OneGpu one;
  REQUIRE(one.device->clear(512, 100 << 20).ok());
  CHECK(fakeGpu.cleared == 100 << 20);
  REQUIRE(one.device->clear(512, 0).ok());
  CHECK(fakeGpu.cleared == 100 << 20);
  CHECK(fakeGpu.pinned == 0);
}

TEST_CASE("an upload that fails says why") {
  int64_t pieces = 0;
  FakeGpu small;
  small.pinnedBytes = cuda::Upload::pieceBytes;
  CHECK(fillRange(*OneGpu(small).device, 0, 100, pieces).toString() ==
        "cannot take " + std::to_string(cuda::Upload::pieceBytes) +
            " bytes of page-locked host memory; free memory, or raise the "
            "limit (ulimit -l)");
  CHECK(fakeGpu.pinned == 0);
  FakeGpu broken;
  broken.copyResult = 719;
  CHECK(fillRange(*OneGpu(broken).device, 0, 100, pieces).toString() ==
        "copying to the GPU failed: CUDA_ERROR_FAKE (fake)");
  CHECK(fakeGpu.pinned == 0);
}
