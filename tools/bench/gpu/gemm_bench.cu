// gemm_bench: checks and times the generated GEMM kernels on a GPU.
//
//   gemm_bench check FOLDER [FIRST]
//     Every kernel of FOLDER/manifest from number FIRST on: all elements
//     against float64 at sizes even and odd, padded operands, poisoned outputs,
//     three times with the same bits. Where CUDA fails (or a kernel hangs) the
//     exit code is 100 + the kernel's number: go on with the next one.
//   gemm_bench check-small FOLDER [FIRST]
//     The smallest sizes alone, for compute-sanitizer.
//   gemm_bench time FOLDER M,N,K[,BATCH] ROUNDS LABEL[:GROUP]...
//     The kernels, which must have one layout and epilogue, against the best
//     of cuBLASLt's eight proposals, timed in the same rounds.
//
// Built where the CUDA toolkit is (no CMake target, since no test needs it):
//   nvcc -O2 -std=c++17 -I. -gencode=arch=compute_90a,code=sm_90a -o gemm_bench
//     tools/bench/gpu/gemm_bench.cu
//     compiler/emit/nvptx/gemm/{GemmConfig,GemmConfigText,GemmLaunch,TileTable}.cpp
//     compiler/emit/nvptx/gemm/mma/MmaConfig.cpp
//     -lcublasLt -lcuda
#include "tools/bench/gpu/gemm_check.cuh"
#include "tools/bench/gpu/gemm_time.cuh"

using namespace bench;

int main(int argc, char **argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  CHECK_CUDA(cudaSetDevice(0));
  CHECK_CUDA(cudaFree(nullptr));
  if (words.size() >= 2 && (words[0] == "check" || words[0] == "check-small"))
    return check(words[1], words.size() > 2 ? std::atoi(words[2].c_str()) : 0,
                 words[0] == "check-small");
  if (words.size() >= 5 && words[0] == "time") {
    GemmSize size;
    std::sscanf(words[2].c_str(), "%ld,%ld,%ld,%ld", &size.m, &size.n, &size.k,
                &size.batch);
    return timeSize(words[1], size, std::atoi(words[3].c_str()),
                    {words.begin() + 4, words.end()});
  }
  std::printf("usage: gemm_bench check|check-small FOLDER [FIRST]\n"
              "       gemm_bench time FOLDER M,N,K[,BATCH] ROUNDS "
              "LABEL[:GROUP]...\n");
  return 2;
}
