// gemm_bench check: every element against float64.
#ifndef LOCKSTEP_TOOLS_BENCH_GPU_GEMM_CHECK_CUH
#define LOCKSTEP_TOOLS_BENCH_GPU_GEMM_CHECK_CUH

#include "tools/bench/gpu/gemm_operands.cuh"

#include <array>
#include <map>

namespace bench {

/// The reference's sums, made once for each size.
inline const double *getSums(const GemmSize &size, const Operands &set) {
  static std::map<std::array<int64_t, 4>, const double *> known;
  const double *&sums = known[{size.m, size.n, size.k, size.batch}];
  if (!sums) {
    double *made = allocate<double>(size.batch * size.m * size.n);
    dim3 grid((size.n + 127) / 128, size.m, size.batch);
    multiplyReference<<<grid, 128>>>(set.a, set.b, size.k, made);
    CHECK_CUDA(cudaDeviceSynchronize());
    sums = made;
  }
  return sums;
}

inline std::vector<char> copyOut(const GemmConfig &config,
                                 const Operands &set) {
  std::vector<char> bytes(set.d.size() * getOutputBytes(config));
  CHECK_CUDA(cudaMemcpy(bytes.data(), set.d.data, bytes.size(),
                        cudaMemcpyDeviceToHost));
  return bytes;
}

/// One kernel at one size; whether all is right.
inline bool checkSizeOf(const Kernel &kernel, const GemmSize &size,
                        long padding, int group) {
  const GemmConfig &config = kernel.config;
  std::vector<Operands> sets{makeOperands(config, size, 7, padding)};
  const Operands &set = sets[0];
  const double *sums = getSums(size, set);
  Errors *errors = allocate<Errors>(2);
  CHECK_CUDA(cudaMemset(errors, 0, 2 * sizeof(Errors)));
  bool repeats = true;
  int slices;
  {
    std::unique_ptr<Launch> launch = makeLaunch(kernel, size, sets, group);
    slices = launch->getSlices();
    std::vector<char> first;
    for (int repeat = 0; repeat < 3; ++repeat) {
      poison(config, set);
      launch->run(0);
      synchronize(kernel.label);
      std::vector<char> bytes = copyOut(config, set);
      repeats = repeats && (repeat == 0 || bytes == first);
      first = bytes;
    }
    compareAll<<<1024, 256>>>(set, getKind(config), sums, errors);
    if (config.columnSums)
      compareColumnSums<<<(size.n + 127) / 128, 128>>>(
          set, getKind(config), sums, launch->columnSums,
          launch->columnSumLines, errors + 1);
    synchronize(kernel.label);
  }
  Errors found[2];
  CHECK_CUDA(cudaMemcpy(found, errors, sizeof found, cudaMemcpyDeviceToHost));
  double limit = config.output == Output::BFloat16 ? 3e-3 : 2e-5;
  bool right = repeats && getError(found[0], 0) < limit &&
               getError(found[0], 1) < 3e-3 && getError(found[1], 0) < 1e-3 &&
               found[0].notNumbers == 0 && found[0].outside == 0 &&
               found[1].notNumbers == 0;
  bool ragged = padding || size.m % 8 || size.n % 8;
  if (!right)
    std::printf("  WRONG %s %ldx%ldx%ld batch %ld padding %ld slices %d%s: "
                "error %.2e, saved %.2e, sums %.2e, NaN %.0f+%.0f, outside "
                "%.0f%s\n",
                kernel.label.c_str(), long(size.m), long(size.n), long(size.k),
                long(size.batch), padding, slices, ragged ? " ragged" : "",
                getError(found[0], 0), getError(found[0], 1),
                getError(found[1], 0), found[0].notNumbers, found[1].notNumbers,
                found[0].outside, repeats ? "" : ", other bits when repeated");
  cudaFree(errors);
  release(set);
  return right;
}

struct CheckedSize {
  GemmSize size;
  long padding;
};

inline std::vector<CheckedSize> getCheckedSizes(const Kernel &kernel) {
  const GemmConfig &config = kernel.config;
  std::vector<CheckedSize> sizes = {
      {{384, 512, 64}, 0},   {{256, 256, 192}, 0},   {{1000, 1000, 200}, 0},
      {{136, 4104, 72}, 1},  {{129, 250, 1}, 0},     {{77, 34, 1003}, 2},
      {{1, 2, 65}, 0},       {{2048, 1536, 768}, 0}, {{768, 3072, 8192}, 0},
      {{65, 1026, 4100}, 1},
  };
  if (config.batched || kernel.isMma)
    for (GemmSize size : {GemmSize{300, 200, 100, 5}, GemmSize{129, 65, 33, 7},
                          GemmSize{1024, 1024, 64, 24}})
      sizes.push_back({size, size.m % 2});
  sizes.push_back({{333, 777, 555}, 0});
  auto isRefused = [&](const CheckedSize &checked) {
    return !checkSize(config, checked.size).empty();
  };
  sizes.erase(std::remove_if(sizes.begin(), sizes.end(), isRefused),
              sizes.end());
  return sizes;
}

inline int check(const std::string &folder, int first, bool small) {
  std::vector<Kernel> kernels = readManifest(folder);
  int wrong = 0;
  for (int i = first; i < int(kernels.size()); ++i) {
    exitCodeOnFailure = 100 + i;
    Kernel &kernel = kernels[i];
    kernel.load(folder);
    int passed = 0, all = 0;
    for (const CheckedSize &checked : getCheckedSizes(kernel)) {
      bool isSmall = checked.size.m * checked.size.n * checked.size.k < 1 << 22;
      if (small && !isSmall)
        continue;
      ++all;
      passed +=
          checkSizeOf(kernel, checked.size, checked.padding, i % 2 ? 8 : -4);
    }
    wrong += all - passed;
    std::printf("%-22s %d of %d sizes right\n", kernel.label.c_str(), passed,
                all);
    std::fflush(stdout);
  }
  return wrong ? 1 : 0;
}

} // namespace bench

#endif
