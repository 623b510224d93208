// gemm_bench time: kernels and cuBLASLt in the same rounds.
#ifndef LOCKSTEP_TOOLS_BENCH_GPU_GEMM_TIME_CUH
#define LOCKSTEP_TOOLS_BENCH_GPU_GEMM_TIME_CUH

#include "tools/bench/gpu/gemm_cublas.h"
#include "tools/bench/gpu/gemm_operands.cuh"

#include <functional>
#include <random>

namespace bench {

namespace {
struct Contender {
  std::string label;
  std::function<void(int)> run;
  std::vector<double> times;
};
} // namespace

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Microseconds of one launch, over several in a row.
inline double timeLaunches(Contender &contender, int launches, int &counter) {
  static cudaEvent_t begin = nullptr, end;
  if (!begin) {
    CHECK_CUDA(cudaEventCreate(&begin));
    CHECK_CUDA(cudaEventCreate(&end));
  }
  CHECK_CUDA(cudaEventRecord(begin));
  for (int i = 0; i < launches; ++i)
    contender.run(counter++);
  CHECK_CUDA(cudaEventRecord(end));
  CHECK_CUDA(cudaEventSynchronize(end));
  float milliseconds;
  CHECK_CUDA(cudaEventElapsedTime(&milliseconds, begin, end));
  return milliseconds * 1e3 / launches;
}

/// A second of work first: the power limit has settled then.
inline void runRounds(std::vector<Contender> &contenders, int rounds,
                      int launches) {
  int counter = 0;
  auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < std::chrono::seconds(1))
    for (Contender &contender : contenders)
      timeLaunches(contender, launches, counter);
  std::mt19937 random(1);
  std::vector<int> order(contenders.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  for (int round = 0; round < rounds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (int i : order)
      contenders[i].times.push_back(
          timeLaunches(contenders[i], launches, counter));
  }
}

/// All of D against cuBLASLt's, and samples against float64.
inline std::string verify(const GemmConfig &config, const GemmSize &size,
                          const Operands &set, const bf16 *expected,
                          Launch &launch) {
  Errors *errors = allocate<Errors>(2);
  CHECK_CUDA(cudaMemset(errors, 0, 2 * sizeof(Errors)));
  poison(config, set);
  launch.run(0);
  compareSamples<<<16384, 128>>>(set, getKind(config), size.k, 999, errors);
  if (expected)
    compareArrays<<<1024, 256>>>(static_cast<const bf16 *>(set.d.data),
                                 expected, set.d.size(), errors + 1);
  synchronize(launch.kernel.label);
  Errors found[2];
  CHECK_CUDA(cudaMemcpy(found, errors, sizeof found, cudaMemcpyDeviceToHost));
  cudaFree(errors);
  double sampled = getError(found[0], 0), whole = getError(found[1], 0);
  bool right = sampled < 3e-3 && getError(found[0], 1) < 3e-3 && whole < 3e-3 &&
               found[0].notNumbers + found[1].notNumbers == 0;
  char text[128];
  std::snprintf(text, sizeof text, "%s %.1e f64, %.1e library",
                right ? "right" : "WRONG", sampled, whole);
  return text;
}

inline bool hasLibraryEpilogue(const GemmConfig &config) {
  if (readsSide(config) || config.columnSums)
    return false;
  if (config.activation == Activation::None)
    return true;
  return config.bias && config.activation == Activation::GeluTanh &&
         config.side == Side::SavePreactivation;
}

/// A kernel with the group of its tile table.
struct ChosenKernel {
  Kernel kernel;
  int group;
};

/// "LABEL:GROUP" or "LABEL".
inline ChosenKernel findKernel(const std::vector<Kernel> &kernels,
                               const std::string &word) {
  size_t colon = word.find(':');
  int group = colon == std::string::npos ? 8 : std::atoi(&word[colon + 1]);
  for (const Kernel &kernel : kernels)
    if (kernel.label == word.substr(0, colon))
      return {kernel, group};
  fail(word.c_str(), "no such kernel", __LINE__);
}

/// More operands than the cache holds, to be taken in turns.
inline std::vector<Operands> makeSets(const GemmConfig &config,
                                      const GemmSize &size) {
  double bytes = 2.0 * size.batch *
                 (size.m * size.k + size.k * size.n +
                  size.m * size.n * (config.side == Side::None ? 1 : 2));
  int count = std::clamp(int(std::ceil(3e8 / bytes)), 2, 6);
  std::vector<Operands> sets;
  for (int i = 0; i < count; ++i)
    sets.push_back(makeOperands(config, size, 11 + i, 0));
  return sets;
}

/// Where the library lacks the epilogue it does the plain product.
inline GemmConfig getLibraryConfig(GemmConfig config) {
  if (!hasLibraryEpilogue(config)) {
    config.bias = false;
    config.activation = Activation::None;
  }
  return config;
}

/// The library's D for the first set; null where it is another function.
inline bf16 *getExpected(const GemmConfig &config, Library &library,
                         const Operands &set) {
  if (!hasLibraryEpilogue(config) || config.output != Output::BFloat16)
    return nullptr;
  bf16 *expected = allocate<bf16>(set.d.size());
  library.run(0, set);
  CHECK_CUDA(cudaMemcpy(expected, set.d.data, set.d.size() * 2,
                        cudaMemcpyDeviceToDevice));
  return expected;
}

/// The best of the library's algorithms, which come first, and the others.
inline void printTimes(const std::vector<Contender> &contenders, int algorithms,
                       double flops) {
  int best = 0;
  for (int i = 0; i < algorithms; ++i)
    if (median(contenders[i].times) < median(contenders[best].times))
      best = i;
  const std::vector<double> &base = contenders[best].times;
  for (int i = 0; i < int(contenders.size()); ++i) {
    if (i < algorithms && i != best)
      continue;
    const Contender &contender = contenders[i];
    std::vector<double> paired;
    for (size_t round = 0; round < base.size(); ++round)
      paired.push_back(base[round] / contender.times[round]);
    double time = median(contender.times);
    std::printf("  %-26s %9.1f us %6.1f TF/s ratio %.3f paired %.3f\n",
                contender.label.c_str(), time, flops / time / 1e6,
                median(base) / time, median(paired));
  }
}

inline int timeSize(const std::string &folder, const GemmSize &size, int rounds,
                    const std::vector<std::string> &words) {
  std::vector<Kernel> kernels = readManifest(folder);
  std::vector<ChosenKernel> chosen;
  for (const std::string &word : words)
    chosen.push_back(findKernel(kernels, word));
  const GemmConfig &config = chosen[0].kernel.config;
  std::printf("== %ldx%ldx%ld batch %ld %s%s\n", long(size.m), long(size.n),
              long(size.k), long(size.batch), printConfig(config).c_str(),
              hasLibraryEpilogue(config) ? "" : " (library: plain)");
  std::vector<Operands> sets = makeSets(config, size);
  Library library(getLibraryConfig(config), sets[0], size);
  bf16 *expected = getExpected(config, library, sets[0]);
  std::vector<Contender> contenders;
  for (int i = 0; i < library.count(); ++i)
    contenders.push_back(
        {"cuBLASLt " + std::to_string(i),
         [&, i](int n) { library.run(i, sets[n % sets.size()]); },
         {}});
  std::vector<std::unique_ptr<Launch>> launches;
  for (ChosenKernel &entry : chosen) {
    entry.kernel.load(folder);
    launches.push_back(makeLaunch(entry.kernel, size, sets, entry.group));
    Launch *launch = launches.back().get();
    std::string label = entry.kernel.label + ":" + std::to_string(entry.group);
    if (launch->getSlices() > 1)
      label += "/" + std::to_string(launch->getSlices());
    std::printf(
        "   %-24s %s\n", label.c_str(),
        verify(entry.kernel.config, size, sets[0], expected, *launch).c_str());
    contenders.push_back({label, [launch](int n) { launch->run(n); }, {}});
  }
  double flops = 2.0 * size.m * size.n * size.k * size.batch;
  int perRound = std::max(1, int(3e-3 * 700e12 / flops));
  runRounds(contenders, rounds, perRound);
  printTimes(contenders, library.count(), flops);
  return 0;
}

} // namespace bench

#endif
