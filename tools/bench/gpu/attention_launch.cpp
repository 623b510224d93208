// Loads and launches the generated attention kernels, for attention_bench.py.
//
// Built where the CUDA toolkit is (no CMake target, since no test needs it):
//   g++ -O2 -std=c++20 -shared -fPIC -I. -I/usr/local/cuda/include
//     -o libattention_launch.so tools/bench/gpu/attention_launch.cpp
//     compiler/emit/nvptx/attention/{AttentionConfig,AttentionConfigText}.cpp
//     compiler/emit/nvptx/attention/WorkTable.cpp -lcuda
#include "compiler/emit/nvptx/attention/AttentionConfigText.h"
#include "compiler/emit/nvptx/attention/WorkTable.h"

#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

using namespace lockstep::attention;

[[noreturn]] static void fail(const std::string &what, const std::string &why) {
  std::printf("FAILED %s: %s\n", what.c_str(), why.c_str());
  std::fflush(stdout);
  std::_Exit(3);
}

static void check(CUresult result, const char *what) {
  if (!result)
    return;
  const char *text = "";
  cuGetErrorString(result, &text);
  fail(what, text);
}
#define CHECK(call) check((call), #call)

namespace {
/// As Python passes it: sizes and strides (in elements) of batch, head, row and
/// column.
struct Tensor {
  void *data;
  int64_t sizes[4], strides[4];
};

/// A kernel of a manifest; of a backward with dq three functions.
struct Kernel {
  std::string label;
  KernelConfig config;
  CUfunction main = nullptr, prepare = nullptr, convert = nullptr;
  /// Makes the key bias from a mask, where one is taken.
  CUfunction keyBias = nullptr;
};

/// One launch: the arguments' bytes, in order.
class Launch {
public:
  Launch(CUfunction function, int64_t grid, int threads, int sharedBytes)
      : function(function), grid(grid), threads(threads),
        sharedBytes(sharedBytes) {}

  template <typename T> Launch &add(const T &value) {
    auto bytes = std::make_unique<Storage>();
    static_assert(sizeof(T) <= sizeof(Storage));
    std::memcpy(bytes->data, &value, sizeof(T));
    pointers.push_back(bytes->data);
    storage.push_back(std::move(bytes));
    return *this;
  }
  void run(CUstream stream) {
    CHECK(cuLaunchKernel(function, grid, 1, 1, threads, 1, 1, sharedBytes,
                         stream, pointers.data(), nullptr));
  }

private:
  struct alignas(64) Storage {
    char data[128];
  };
  CUfunction function;
  int64_t grid;
  int threads, sharedBytes;
  std::vector<std::unique_ptr<Storage>> storage;
  std::vector<void *> pointers;
};

/// Launches in order, and the device memory that they share.
class Plan {
public:
  ~Plan() {
    for (CUdeviceptr pointer : allocations)
      cuMemFree(pointer);
  }

  /// NaN in every element, so that nothing unwritten goes unnoticed.
  CUdeviceptr allocate(int64_t bytes) {
    CUdeviceptr pointer;
    CHECK(cuMemAlloc(&pointer, std::max<int64_t>(bytes, 16)));
    CHECK(cuMemsetD8(pointer, 0xff, std::max<int64_t>(bytes, 16)));
    allocations.push_back(pointer);
    return pointer;
  }
  template <typename T> CUdeviceptr upload(const std::vector<T> &values) {
    CUdeviceptr pointer = allocate(values.size() * sizeof(T));
    CHECK(cuMemcpyHtoD(pointer, values.data(), values.size() * sizeof(T)));
    return pointer;
  }

  std::vector<Launch> launches;
  double balance = 1;

private:
  std::vector<CUdeviceptr> allocations;
};
} // namespace

static int countProcessors() {
  CUdevice device;
  int count;
  CHECK(cuCtxGetDevice(&device));
  CHECK(cuDeviceGetAttribute(&count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                             device));
  return count;
}

static CUfunction load(const std::string &path, int sharedBytes) {
  std::ifstream file(path, std::ios::binary);
  std::string image((std::istreambuf_iterator<char>(file)), {});
  if (image.empty())
    fail(path, "no cubin");
  CUmodule module;
  CUfunction function;
  CHECK(cuModuleLoadData(&module, image.data()));
  CHECK(cuModuleGetFunction(&function, module, "attention"));
  CHECK(cuFuncSetAttribute(
      function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, sharedBytes));
  return function;
}

static CUtensorMap makeMap(const Tensor &tensor, int rows) {
  // (column, row, head, batch)
  cuuint64_t extents[4], strides[3];
  for (int i = 0; i < 4; ++i)
    extents[i] = tensor.sizes[3 - i];
  for (int i = 0; i < 3; ++i)
    strides[i] = tensor.strides[2 - i] * 2;
  cuuint32_t box[4] = {boxColumns, cuuint32_t(rows), 1, 1};
  cuuint32_t steps[4] = {1, 1, 1, 1};
  CUtensorMap map;
  CHECK(cuTensorMapEncodeTiled(
      &map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, tensor.data, extents, strides,
      box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  return map;
}

static AttentionSize getSize(const Tensor &query, const Tensor &key,
                             int64_t window) {
  AttentionSize size;
  size.batch = query.sizes[0];
  size.queryHeads = query.sizes[1];
  size.keyHeads = key.sizes[1];
  size.queries = query.sizes[2];
  size.keys = key.sizes[2];
  size.headDim = query.sizes[3];
  size.window = window;
  return size;
}

template <typename Config>
static void checkOrFail(const std::string &label, const Config &config,
                        const AttentionSize &size) {
  std::string error = checkSize(config.headDim, config.mask, size);
  if (!error.empty())
    fail(label, error);
}

static void addStrides(Launch &launch, const Tensor &a, const Tensor &b) {
  for (const Tensor *tensor : {&a, &b})
    for (int dimension : {2, 1, 0})
      launch.add(tensor->strides[dimension]);
}

/// With a mask [batch][key] of bytes; null without.
static CUdeviceptr addKeyBias(Plan &plan, const Kernel &kernel,
                              const AttentionSize &size, const void *mask,
                              float scale) {
  if (!kernel.keyBias)
    return 0;
  int32_t padded = getPaddedKeys(size.keys);
  int32_t rows = size.batch * padded;
  CUdeviceptr bias = plan.allocate(int64_t(rows) * 4);
  Launch launch(kernel.keyBias, (rows + keyBiasThreads - 1) / keyBiasThreads,
                keyBiasThreads, 0);
  launch.add(mask).add(bias).add(rows).add(int32_t(size.keys)).add(padded);
  launch.add(int64_t(size.keys)).add(scale);
  plan.launches.push_back(std::move(launch));
  return bias;
}

/// What both forms of backward share.
struct BackwardTensors {
  const Tensor &query, &key, &value, &output, &outputGradient;
  const Tensor &queryGradient, &keyGradient, &valueGradient;
  const float *lse;
  CUdeviceptr logSum, rowSum, querySums, keyBias;
};

static void addPrepare(Plan &plan, const Kernel &kernel,
                       const BackwardConfig &config, const AttentionSize &size,
                       const BackwardTensors &tensors) {
  int32_t padded = getPaddedRows(config, size.queries);
  int32_t rows = size.batch * size.queryHeads * padded;
  int each = getPrepareRows(config.headDim);
  Launch launch(kernel.prepare, (rows + each - 1) / each, prepareThreads, 0);
  launch.add(tensors.output.data).add(tensors.outputGradient.data);
  launch.add(tensors.lse).add(tensors.logSum).add(tensors.rowSum);
  launch.add(tensors.querySums).add(rows).add(int32_t(size.queries));
  launch.add(padded).add(int32_t(size.queryHeads)).add(int32_t(size.headDim));
  addStrides(launch, tensors.output, tensors.outputGradient);
  plan.launches.push_back(std::move(launch));
}

static void addQueryGradient(Plan &plan, const Kernel &kernel,
                             const BackwardConfig &backward,
                             const AttentionSize &size,
                             const BackwardTensors &tensors, float scale) {
  const auto &config = std::get<QueryGradientConfig>(kernel.config);
  checkOrFail(kernel.label, config, size);
  auto table = buildWorkTable(config, size, countProcessors());
  Launch launch(kernel.main, table.gridBlocks, getThreads(config),
                getSharedLayout(config).totalBytes);
  launch.add(makeMap(tensors.query, 128)).add(makeMap(tensors.key, keyBlock));
  launch.add(makeMap(tensors.value, keyBlock));
  launch.add(makeMap(tensors.outputGradient, 128));
  launch.add(makeMap(tensors.queryGradient, storeBoxRows));
  launch.add(tensors.output.data).add(tensors.outputGradient.data);
  launch.add(tensors.lse).add(tensors.logSum).add(tensors.rowSum);
  launch.add(tensors.keyBias);
  launch.add(plan.upload(table.items)).add(plan.upload(table.bounds));
  launch.add(int32_t(size.queries)).add(int32_t(size.keys));
  launch.add(int32_t(getPaddedRows(backward, size.queries)));
  launch.add(int32_t(size.queryHeads)).add(int32_t(size.window));
  launch.add(int32_t(size.headDim));
  addStrides(launch, tensors.output, tensors.outputGradient);
  launch.add(scale);
  plan.launches.push_back(std::move(launch));
}

static void addBackward(Plan &plan, const Kernel &kernel,
                        const BackwardConfig &config, const AttentionSize &size,
                        const BackwardTensors &tensors, float scale) {
  auto table = buildWorkTable(config, size, countProcessors());
  plan.balance = table.balance;
  int rows = getQueryRows(config);
  Launch launch(kernel.main, table.gridBlocks, getThreads(config),
                getSharedLayout(config).totalBytes);
  launch.add(makeMap(tensors.query, rows)).add(makeMap(tensors.key, keyBlock));
  launch.add(makeMap(tensors.value, keyBlock));
  launch.add(makeMap(tensors.outputGradient, rows));
  launch.add(makeMap(tensors.keyGradient, storeBoxRows));
  launch.add(makeMap(tensors.valueGradient, storeBoxRows));
  launch.add(tensors.logSum).add(tensors.rowSum).add(tensors.querySums);
  launch.add(tensors.keyBias);
  launch.add(plan.upload(table.items)).add(plan.upload(table.bounds));
  launch.add(int32_t(getPaddedRows(config, size.queries) / rows));
  launch.add(int32_t(size.keys)).add(int32_t(size.queryHeads));
  launch.add(int32_t(size.window)).add(scale);
  plan.launches.push_back(std::move(launch));
}

static void addConvert(Plan &plan, const Kernel &kernel,
                       const BackwardConfig &config, const AttentionSize &size,
                       const BackwardTensors &tensors, float scale) {
  int32_t tiles = getPaddedRows(config, size.queries) / getQueryRows(config);
  Launch launch(kernel.convert, 2 * size.batch * size.queryHeads * tiles,
                convertThreads, convertSharedBytes);
  launch.add(makeMap(tensors.queryGradient, storeBoxRows));
  launch.add(tensors.querySums).add(tiles).add(int32_t(size.queryHeads));
  launch.add(scale);
  plan.launches.push_back(std::move(launch));
}

extern "C" {

Kernel *attention_open(const char *folder, const char *label) {
  std::ifstream file(std::string(folder) + "/manifest");
  std::string prefix = std::string(label) + " ";
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, prefix.size(), prefix))
      continue;
    std::string error;
    auto config = parseConfig(line.substr(prefix.size()), error);
    if (!config)
      fail(line, error);
    auto *kernel = new Kernel{label, *config};
    std::string path = std::string(folder) + "/" + label;
    kernel->main = load(
        path + ".cubin",
        std::visit(
            [](const auto &each) { return getSharedLayout(each).totalBytes; },
            *config));
    if (std::visit([](const auto &each) { return each.keyBias; }, *config))
      kernel->keyBias = load(std::string(folder) + "/keybias.cubin", 0);
    auto *backward = std::get_if<BackwardConfig>(&*config);
    if (backward && backward->queryGradient != QueryGradient::None) {
      kernel->prepare = load(path + ".prepare.cubin", 0);
      kernel->convert = load(path + ".convert.cubin", convertSharedBytes);
    }
    return kernel;
  }
  fail(label, "it is not in the manifest");
}

Plan *attention_forward(const Kernel *kernel, const Tensor *query,
                        const Tensor *key, const Tensor *value,
                        const Tensor *output, float *lse, const void *mask,
                        int64_t window, float scale) {
  const auto &config = std::get<ForwardConfig>(kernel->config);
  AttentionSize size = getSize(*query, *key, window);
  checkOrFail(kernel->label, config, size);
  auto table = buildWorkTable(config, size, countProcessors());
  auto *plan = new Plan;
  plan->balance = table.balance;
  CUdeviceptr keyBias = addKeyBias(*plan, *kernel, size, mask, scale);
  Launch launch(kernel->main, table.gridBlocks, getThreads(config),
                getSharedLayout(config).totalBytes);
  launch.add(makeMap(*query, getQueryRows(config)));
  launch.add(makeMap(*key, keyBlock)).add(makeMap(*value, keyBlock));
  launch.add(makeMap(*output, storeBoxRows)).add(lse).add(keyBias);
  launch.add(plan->upload(table.items)).add(plan->upload(table.bounds));
  launch.add(int32_t(size.queries)).add(int32_t(size.keys));
  launch.add(int32_t(size.queryHeads)).add(int32_t(window)).add(scale);
  plan->launches.push_back(std::move(launch));
  return plan;
}

/// With a kernel for dq alone in `queryKernel`, else null.
Plan *attention_backward(const Kernel *kernel, const Kernel *queryKernel,
                         const Tensor *tensors, const float *lse,
                         const void *mask, int64_t window, float scale) {
  const auto &config = std::get<BackwardConfig>(kernel->config);
  AttentionSize size = getSize(tensors[0], tensors[1], window);
  checkOrFail(kernel->label, config, size);
  auto *plan = new Plan;
  int64_t heads = size.batch * size.queryHeads;
  int64_t vectorBytes = heads * getPaddedRows(config, size.queries) * 4;
  int64_t sumBytes =
      queryKernel ? 0 : heads * getQuerySumBytes(config, size.queries);
  BackwardTensors all = {tensors[0],
                         tensors[1],
                         tensors[2],
                         tensors[3],
                         tensors[4],
                         tensors[5],
                         tensors[6],
                         tensors[7],
                         lse,
                         plan->allocate(vectorBytes),
                         plan->allocate(vectorBytes),
                         plan->allocate(sumBytes),
                         addKeyBias(*plan, *kernel, size, mask, scale)};
  if (queryKernel)
    addQueryGradient(*plan, *queryKernel, config, size, all, scale);
  else
    addPrepare(*plan, *kernel, config, size, all);
  addBackward(*plan, *kernel, config, size, all, scale);
  if (!queryKernel)
    addConvert(*plan, *kernel, config, size, all, scale);
  return plan;
}

int attention_count(const Plan *plan) { return plan->launches.size(); }
double attention_balance(const Plan *plan) { return plan->balance; }

/// All launches, or only one of them.
void attention_run(Plan *plan, int which, CUstream stream) {
  for (int i = 0; i < int(plan->launches.size()); ++i)
    if (which < 0 || which == i)
      plan->launches[i].run(stream);
}

void attention_close(Plan *plan) { delete plan; }

} // extern "C"
