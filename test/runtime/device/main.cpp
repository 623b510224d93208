// The device suite: runtime_device_test [--device host|cuda] [--kernels DIR].
// Without a GPU, or built without nvcc, the CUDA suite is skipped, which exit
// code 77 tells ctest.
#define CATCH_CONFIG_RUNNER
#include "runtime/device/cuda/gpu.h"
#include "test/runtime/device/device_under_test.h"

#include <catch2/catch.hpp>
#include <cstdio>

using namespace lockstep;
using namespace lockstep::runtime;

/// Why the CUDA suite cannot run here; "" when it can.
static std::string obstacle() {
  auto driver = cuda::loadDriver();
  if (!driver.ok())
    return driver.status().what();
  auto gpu = cuda::Gpu::open(**driver, 0);
  if (!gpu.ok())
    return gpu.status().what();
  return testing::cubinTargets().empty() ? "the suite was built without nvcc"
                                         : "";
}

int main(int argc, char **argv) {
  Catch::Session session;
  using Catch::clara::Opt;
  session.cli(
      session.cli() |
      Opt(testing::deviceKind, "host|cuda")["--device"]("what to test") |
      Opt(testing::kernelFolder,
          "folder")["--kernels"]("where the suite's kernels are"));
  if (int code = session.applyCommandLine(argc, argv))
    return code;
  if (testing::deviceKind == "cuda")
    if (std::string reason = obstacle(); !reason.empty()) {
      printf("SKIPPED: %s\n", reason.c_str());
      return 77;
    }
  return session.run();
}
