// What a user reads when a GPU, its driver or the artifact's code is not what
// it should be.
#include "runtime/device/cuda/code.h"
#include "runtime/device/cuda/cuda_device.h"
#include "runtime/device/cuda/library_search.h"
#include "test/runtime/device/fake_driver.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace lockstep;
using namespace lockstep::runtime;
using namespace lockstep::runtime::testing;

static std::string openError(FakeGpu gpu) {
  fakeGpu = gpu;
  cuda::Driver driver = fakeDriver();
  auto opened = cuda::Gpu::open(driver, 0);
  REQUIRE(!opened.ok());
  CHECK(opened.status().exitCode() == 1);
  return opened.status().toString();
}

TEST_CASE("a machine without a GPU says so") {
  const char *none =
      "the CUDA driver shows no GPU; run on a machine with an NVIDIA GPU "
      "(CUDA_VISIBLE_DEVICES can hide them), or compile with --target "
      "x86-64-v3";
  FakeGpu gpu;
  gpu.count = 0;
  CHECK(openError(gpu) == none);
  gpu.initResult = cuda::noDevice;
  CHECK(openError(gpu) == none);
  gpu.initResult = 802;
  CHECK(openError(gpu) ==
        "the CUDA driver does not start: CUDA_ERROR_FAKE (fake); see whether "
        "nvidia-smi works");
}

TEST_CASE("ranks of a machine take its GPUs in turn") {
  fakeGpu = FakeGpu();
  fakeGpu.count = 4;
  cuda::Driver driver = fakeDriver();
  for (int rank : {0, 3, 4, 9}) {
    REQUIRE(cuda::Gpu::open(driver, rank).ok());
    CHECK(fakeGpu.opened == rank % 4);
  }
}

/// The target chosen, or the error.
static std::string choose(int major, int minor,
                          std::vector<std::string> targets,
                          bool allowJit = false) {
  fakeGpu = FakeGpu();
  fakeGpu.major = major;
  fakeGpu.minor = minor;
  cuda::Driver driver = fakeDriver();
  auto gpu = cuda::Gpu::open(driver, 0);
  std::vector<CodeSection> code;
  for (const std::string &target : targets)
    code.push_back({target, ""});
  auto chosen = cuda::chooseCode(code, **gpu, allowJit);
  return chosen.ok() ? (*chosen)->target : chosen.status().toString();
}

TEST_CASE("code for the GPU's capability is chosen, and only that") {
  CHECK(choose(9, 0, {"sm_80", "sm_90a", "sm_100a"}) == "sm_90a");
  CHECK(choose(8, 0, {"sm_80"}) == "sm_80");
  CHECK(choose(8, 9, {"sm_80"}) == "sm_80");
  CHECK(choose(10, 0, {"sm_90a", "sm_100a"}) == "sm_100a");
  CHECK(choose(9, 0, {"sm_80"}) ==
        "the artifact has code for sm_80, but this machine has GPU 0 (Fake, "
        "sm_90); compile with --target sm_90");
  CHECK(choose(8, 0, {"sm_90a", "sm_100a"}) ==
        "the artifact has code for sm_90a, sm_100a, but this machine has GPU 0 "
        "(Fake, sm_80); compile with --target sm_80");
  CHECK(choose(10, 3, {"sm_100a"}).find("has code for sm_100a") !=
        std::string::npos);
}

TEST_CASE("PTX runs with --allow-jit alone") {
  CHECK(choose(9, 0, {"ptx-sm_90a"}, true) == "ptx-sm_90a");
  CHECK(choose(9, 0, {"ptx-sm_80"}, true) == "ptx-sm_80");
  CHECK(choose(9, 0, {"ptx-sm_80", "sm_90a"}, true) == "sm_90a");
  CHECK(choose(9, 0, {"ptx-sm_90a"}) ==
        "the artifact has no machine code for GPU 0 (Fake, sm_90), only PTX "
        "(ptx-sm_90a); compile where ptxas is installed, or give --allow-jit "
        "to let the driver compile it at every start");
  CHECK(choose(8, 0, {"ptx-sm_90a"}, true).find("has code for ptx-sm_90a") !=
        std::string::npos);
}

TEST_CASE("memory that is not there is named with its purpose") {
  fakeGpu = FakeGpu();
  fakeGpu.freeBytes = 1000;
  cuda::Driver driver = fakeDriver();
  auto gpu = cuda::Gpu::open(driver, 0);
  CHECK(cuda::CudaDevice::create(**gpu, 4096, false).status().toString() ==
        "cannot take 4096 bytes for the arena on GPU 0 (Fake, sm_90): 1000 of "
        "2000 bytes are free; end other programs on this GPU, or compile for "
        "more ranks or a smaller batch");
}

static Status load(cuda::Result result, const char *log = "",
                   const char *target = "sm_90a") {
  fakeGpu = FakeGpu();
  fakeGpu.driverVersion = 12020;
  fakeGpu.loadResult = result;
  fakeGpu.jitLog = log;
  cuda::Driver driver = fakeDriver();
  auto gpu = cuda::Gpu::open(driver, 0);
  return cuda::Code::load(**gpu, {{target, "code"}}, target).status();
}

TEST_CASE("a driver that is too old for the code says so") {
  CHECK(load(cuda::success).ok());
  CHECK(load(cuda::noBinaryForGpu).toString() ==
        "the driver, for CUDA 12.2, cannot load the code for sm_90a: "
        "CUDA_ERROR_FAKE (fake); update the driver, or compile with a ptxas "
        "that is not newer");
  CHECK(load(cuda::unsupportedPtxVersion, "", "ptx-sm_90a").exitCode() == 1);
  CHECK(load(218, "ptxas error: line 3", "ptx-sm_90a").toString() ==
        "the driver cannot compile the PTX: ptxas error: line 3");
  CHECK(load(999).exitCode() == 3);
}

TEST_CASE("a kernel that the code does not have, or cannot run, is named") {
  fakeGpu = FakeGpu();
  cuda::Driver driver = fakeDriver();
  auto gpu = cuda::Gpu::open(driver, 0);
  auto code = cuda::Code::load(
      **gpu, {{"sm_80", "other"}, {"sm_90a", "code"}, {"sm_90a", "more"}},
      "sm_90a");
  REQUIRE(code.ok());
  artifact::KernelT kernel;
  kernel.name = kernel.symbol = "present";
  kernel.threads = 256;
  CHECK(code->find(kernel).ok());
  fakeGpu.threadsPerBlock = 128;
  CHECK(code->find(kernel).status().what() ==
        "kernel 'present' wants 256 threads, but its code allows 128");
  kernel.threads = 128;
  kernel.shared_bytes = 300000;
  CHECK(code->find(kernel).status().what() ==
        "giving kernel 'present' 300000 bytes of shared memory failed: "
        "CUDA_ERROR_FAKE (fake)");
  kernel.symbol = "absent";
  CHECK(code->find(kernel).status().what() ==
        "the code section has no kernel 'absent'");
}

TEST_CASE("libraries are looked for in CUDA's folders and beside a python") {
  namespace fs = std::filesystem;
  std::string name =
      (fs::temp_directory_path() / "lockstep-search-XXXXXX").string();
  fs::path root = mkdtemp(name.data());
  fs::path pip = root / "venv/lib/python3.11/site-packages/nvidia/nccl/lib";
  fs::create_directories(root / "cuda/lib64");
  fs::create_directories(pip);
  fs::create_directories(root / "venv/bin");
  std::ofstream(root / "venv/bin/python3");
  std::ofstream(pip / "libnccl-fake.so") << "no library";
  std::string before = getenv("PATH") ? getenv("PATH") : "";
  setenv("CUDA_HOME", (root / "cuda").c_str(), 1);
  setenv("PATH", ("/nowhere:" + (root / "venv/bin").string()).c_str(), 1);
  unsetenv("VIRTUAL_ENV");
  std::vector<std::string> folders = cuda::libraryFolders();
  auto absent = cuda::openLibrary("NCCL", {"libabsent.so"}, "nvidia-nccl");
  auto broken = cuda::openLibrary("NCCL", {"libnccl-fake.so"}, "nvidia-nccl");
  setenv("PATH", before.c_str(), 1);
  unsetenv("CUDA_HOME");
  fs::remove_all(root);
  REQUIRE(folders.size() >= 2);
  CHECK(folders.front() == (root / "cuda/lib64").string());
  CHECK(std::find(folders.begin(), folders.end(), pip.string()) !=
        folders.end());
  CHECK(absent.status().toString() ==
        "NCCL is not installed: libabsent.so was not found; install the CUDA "
        "Toolkit, or 'pip install nvidia-nccl', or name its folder in "
        "CUDA_HOME or LD_LIBRARY_PATH");
  CHECK(broken.status().what().find("libnccl-fake.so cannot be loaded (") !=
        std::string::npos);
}
