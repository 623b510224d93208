// gemm_bench: checks and times the generated GEMM kernels on a GPU.
//
//   gemm_bench check FOLDER [FIRST]
//     Every kernel of FOLDER/manifest from number FIRST on: all elements
//     against float64 at sizes even and odd, padded operands, poisoned outputs,
//     twice with the same bits. Where CUDA fails (or a kernel hangs) the exit
//     code is 100 + the kernel's number, and the caller goes on with the next.
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
#include "tools/bench/gpu/gemm_cublas.h"
#include "tools/bench/gpu/gemm_data.cuh"
#include "tools/bench/gpu/gemm_launch.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <thread>

using namespace bench;

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// A matrix whose contiguous index is padded to 16 bytes and `padding` more.
static Matrix makeMatrix(long rows, long columns, long batch, bool rowsInside,
                         int elementBytes, long padding) {
  Matrix matrix;
  matrix.rows = rows;
  matrix.columns = columns;
  matrix.batch = batch;
  long step = 16 / elementBytes;
  long inner = rowsInside ? rows : columns;
  long leading = (inner + step - 1) / step * step + padding * step;
  matrix.rowStride = rowsInside ? 1 : leading;
  matrix.columnStride = rowsInside ? leading : 1;
  matrix.batchStride = leading * (rowsInside ? columns : rows);
  matrix.data = allocate<char>(matrix.size() * elementBytes);
  return matrix;
}

/// Numbers of one tensor are far from those of another.
static unsigned long long getSeed(unsigned long long seed, int tensor) {
  return (seed * 8 + tensor) * 0x9E3779B97F4A7C15ULL;
}

static Operands makeOperands(const GemmConfig &config, const GemmSize &size,
                             unsigned long long seed, long padding) {
  Operands set = {};
  int bytes = getOutputBytes(config);
  set.a = makeMatrix(size.m, size.k, size.batch, config.a == Major::Outer, 2,
                     padding);
  set.b =
      makeMatrix(size.k, size.n, size.batch, config.b == Major::K, 2, padding);
  set.d = makeMatrix(size.m, size.n, size.batch, false, bytes, padding);
  fillRandom<bf16><<<2048, 256>>>(set.a, getSeed(seed, 0), 1);
  fillRandom<bf16><<<2048, 256>>>(set.b, getSeed(seed, 1), 1 / sqrtf(size.k));
  if (config.side != Side::None)
    set.side = makeMatrix(size.m, size.n, size.batch, false, 2, padding);
  if (readsSide(config))
    fillRandom<bf16><<<2048, 256>>>(set.side, getSeed(seed, 2), 1);
  if (config.output == Output::Float32Accumulate) {
    set.old = makeMatrix(size.m, size.n, size.batch, false, bytes, padding);
    fillRandom<float><<<2048, 256>>>(set.old, getSeed(seed, 3), 1);
  }
  // Just N elements: reads past the end are the memory checker's to find.
  Matrix bias = {};
  bias.rows = 1;
  bias.columns = bias.rowStride = bias.batchStride = size.n;
  bias.data = allocate<bf16>(size.n);
  fillRandom<bf16><<<16, 256>>>(bias, getSeed(seed, 4), 0.5f);
  set.bias = static_cast<const bf16 *>(bias.data);
  CHECK_CUDA(cudaGetLastError());
  return set;
}

static void release(const Operands &set) {
  for (const Matrix *matrix : {&set.a, &set.b, &set.d, &set.side, &set.old})
    cudaFree(matrix->data);
  cudaFree(const_cast<bf16 *>(set.bias));
}

static EpilogueKind getKind(const GemmConfig &config) {
  return {config.bias, config.activation, config.side, config.output};
}

/// Outputs to NaN, or to what is accumulated into.
static void poison(const GemmConfig &config, const Operands &set) {
  long bytes = set.d.size() * getOutputBytes(config);
  if (set.old.data)
    CHECK_CUDA(
        cudaMemcpy(set.d.data, set.old.data, bytes, cudaMemcpyDeviceToDevice));
  else
    CHECK_CUDA(cudaMemset(set.d.data, 0xff, bytes));
  if (config.side == Side::SavePreactivation)
    CHECK_CUDA(cudaMemset(set.side.data, 0xff, set.side.size() * 2));
}

/// Waits; a kernel that runs for seconds hangs.
static void synchronize(const std::string &label) {
  CHECK_CUDA(cudaGetLastError());
  auto start = std::chrono::steady_clock::now();
  for (cudaError_t state; (state = cudaStreamQuery(nullptr));) {
    if (state != cudaErrorNotReady)
      fail(label.c_str(), cudaGetErrorString(state), __LINE__);
    if (std::chrono::steady_clock::now() - start > std::chrono::seconds(20))
      fail(label.c_str(), "it hangs", __LINE__);
    std::this_thread::yield();
  }
}

//===----------------------------------------------------------------------===//
// check
//===----------------------------------------------------------------------===//

static double getError(const Errors &errors, int which) {
  return errors.norm[which] > 0
             ? std::sqrt(errors.difference[which] / errors.norm[which])
             : 0;
}

/// The reference's sums, made once for each size.
static const double *getSums(const GemmSize &size, const Operands &set) {
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

static std::vector<char> copyOut(const GemmConfig &config,
                                 const Operands &set) {
  std::vector<char> bytes(set.d.size() * getOutputBytes(config));
  CHECK_CUDA(cudaMemcpy(bytes.data(), set.d.data, bytes.size(),
                        cudaMemcpyDeviceToHost));
  return bytes;
}

/// One kernel at one size; whether all is right.
static bool checkSizeOf(const Kernel &kernel, const GemmSize &size,
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

static std::vector<CheckedSize> getCheckedSizes(const Kernel &kernel) {
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

static int check(const std::string &folder, int first, bool small) {
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

//===----------------------------------------------------------------------===//
// time
//===----------------------------------------------------------------------===//

namespace {
struct Contender {
  std::string label;
  std::function<void(int)> run;
  std::vector<double> times;
};
} // namespace

static double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Microseconds of one launch, over several in a row.
static double timeLaunches(Contender &contender, int launches, int &counter) {
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
static void runRounds(std::vector<Contender> &contenders, int rounds,
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
static std::string verify(const GemmConfig &config, const GemmSize &size,
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

static bool hasLibraryEpilogue(const GemmConfig &config) {
  if (readsSide(config) || config.columnSums)
    return false;
  if (config.activation == Activation::None)
    return true;
  return config.bias && config.activation == Activation::GeluTanh &&
         config.side == Side::SavePreactivation;
}

static int timeSize(const std::string &folder, const GemmSize &size, int rounds,
                    const std::vector<std::string> &labels) {
  std::vector<Kernel> kernels = readManifest(folder);
  std::vector<std::pair<Kernel *, int>> chosen;
  for (const std::string &label : labels) {
    size_t colon = label.find(':');
    int group = colon == std::string::npos ? 8 : std::atoi(&label[colon + 1]);
    for (Kernel &kernel : kernels)
      if (kernel.label == label.substr(0, colon))
        chosen.push_back({&kernel, group});
  }
  if (chosen.size() != labels.size())
    fail("time", "unknown label", __LINE__);
  const GemmConfig &config = chosen[0].first->config;
  double bytes = 2.0 * size.batch *
                 (size.m * size.k + size.k * size.n +
                  size.m * size.n * (config.side == Side::None ? 1 : 2));
  // More than the cache holds, in turns.
  int setCount = std::clamp(int(std::ceil(3e8 / bytes)), 2, 6);
  std::vector<Operands> sets;
  for (int i = 0; i < setCount; ++i)
    sets.push_back(makeOperands(config, size, 11 + i, 0));
  // Where the library lacks the epilogue it does the plain product.
  GemmConfig libraryConfig = config;
  bool compares = hasLibraryEpilogue(config);
  if (!compares) {
    libraryConfig.bias = false;
    libraryConfig.activation = Activation::None;
  }
  Library library(libraryConfig, sets[0], size);
  bf16 *expected = nullptr;
  if (compares && config.output == Output::BFloat16) {
    expected = allocate<bf16>(sets[0].d.size());
    library.run(0, sets[0]);
    CHECK_CUDA(cudaMemcpy(expected, sets[0].d.data, sets[0].d.size() * 2,
                          cudaMemcpyDeviceToDevice));
  }
  std::vector<Contender> contenders;
  for (int i = 0; i < library.count(); ++i)
    contenders.push_back({"cuBLASLt " + std::to_string(i),
                          [&, i](int n) { library.run(i, sets[n % setCount]); },
                          {}});
  std::vector<std::unique_ptr<Launch>> launches;
  std::printf("== %ldx%ldx%ld batch %ld %s%s%s\n", long(size.m), long(size.n),
              long(size.k), long(size.batch), printConfig(config).c_str(),
              compares ? "" : " (library: plain)",
              size.batch > 1 ? " batched" : "");
  for (auto [kernel, group] : chosen) {
    kernel->load(folder);
    launches.push_back(makeLaunch(*kernel, size, sets, group));
    Launch *launch = launches.back().get();
    std::string text = verify(kernel->config, size, sets[0], expected, *launch);
    std::string label = kernel->label + ":" + std::to_string(group);
    if (launch->getSlices() > 1)
      label += "/" + std::to_string(launch->getSlices());
    std::printf("   %-24s %s\n", label.c_str(), text.c_str());
    contenders.push_back({label, [launch](int n) { launch->run(n); }, {}});
  }
  double flops = 2.0 * size.m * size.n * size.k * size.batch;
  int perRound = std::max(1, int(3e-3 * 700e12 / flops));
  runRounds(contenders, rounds, perRound);
  int best = 0;
  for (int i = 0; i < library.count(); ++i)
    if (median(contenders[i].times) < median(contenders[best].times))
      best = i;
  for (int i = 0; i < int(contenders.size()); ++i) {
    if (i < library.count() && i != best)
      continue;
    const Contender &contender = contenders[i];
    std::vector<double> paired;
    for (int round = 0; round < rounds; ++round)
      paired.push_back(contenders[best].times[round] / contender.times[round]);
    double time = median(contender.times);
    std::printf("  %-26s %9.1f us %6.1f TF/s ratio %.3f paired %.3f\n",
                contender.label.c_str(), time, flops / time / 1e6,
                median(contenders[best].times) / time, median(paired));
  }
  return 0;
}

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
