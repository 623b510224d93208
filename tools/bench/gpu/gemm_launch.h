// Loads and launches the generated GEMM kernels, for gemm_bench.
#ifndef LOCKSTEP_TOOLS_BENCH_GPU_GEMM_LAUNCH_H
#define LOCKSTEP_TOOLS_BENCH_GPU_GEMM_LAUNCH_H

#include "compiler/emit/nvptx/gemm/GemmConfig.h"
#include "compiler/emit/nvptx/gemm/GemmLaunch.h"
#include "compiler/emit/nvptx/gemm/mma/MmaConfig.h"
#include "tools/bench/gpu/gemm_data.cuh"

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

namespace bench {

using namespace lockstep::gemm;

/// The process's exit code where CUDA failed: a context is of no use then.
inline int exitCodeOnFailure = 3;

[[noreturn]] inline void fail(const char *what, const char *why, int line) {
  std::printf("FAILED %s: %s (line %d)\n", what, why, line);
  std::fflush(stdout);
  std::_Exit(exitCodeOnFailure);
}
#define CHECK_CUDA(call)                                                       \
  do {                                                                         \
    if (cudaError_t error = (call))                                            \
      bench::fail(#call, cudaGetErrorString(error), __LINE__);                 \
  } while (0)
#define CHECK_DRIVER(call)                                                     \
  do {                                                                         \
    if (CUresult error = (call)) {                                             \
      const char *text = "";                                                   \
      cuGetErrorString(error, &text);                                          \
      bench::fail(#call, text, __LINE__);                                      \
    }                                                                          \
  } while (0)

/// Device memory that is never initialised by accident: every byte is 0xFF,
/// which is NaN in bf16 and f32.
template <typename T> T *allocate(long count) {
  void *data = nullptr;
  size_t bytes = std::max(count, 1L) * sizeof(T);
  CHECK_CUDA(cudaMalloc(&data, bytes));
  CHECK_CUDA(cudaMemset(data, 0xff, bytes));
  return static_cast<T *>(data);
}

/// A kernel of a manifest, loaded.
struct Kernel {
  std::string label;
  /// By mma.sync: of the configuration only operands and epilogue count.
  bool isMma;
  GemmConfig config;
  CUfunction function = nullptr;

  void load(const std::string &folder) {
    if (function)
      return;
    std::ifstream file(folder + "/" + label + ".cubin", std::ios::binary);
    std::string image((std::istreambuf_iterator<char>(file)), {});
    if (image.empty())
      fail(label.c_str(), "no cubin", __LINE__);
    CUmodule module;
    CHECK_DRIVER(cuModuleLoadData(&module, image.data()));
    CHECK_DRIVER(cuModuleGetFunction(&function, module, "gemm"));
    CHECK_DRIVER(cuFuncSetAttribute(
        function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
        getSharedBytes()));
  }

  int getSharedBytes() const {
    return isMma ? mmaSharedBytes : getSharedLayout(config).totalBytes;
  }
};

inline std::vector<Kernel> readManifest(const std::string &folder) {
  std::ifstream file(folder + "/manifest");
  std::vector<Kernel> kernels;
  for (std::string line; std::getline(file, line);) {
    size_t end = line.find(' ');
    std::string label = line.substr(0, end), error;
    bool isMma = line.compare(end, 5, " mma ") == 0;
    auto config = parseConfig(line.substr(isMma ? end + 5 : end), error);
    if (!config)
      fail(line.c_str(), error.c_str(), __LINE__);
    kernels.push_back({label, isMma, *config});
  }
  return kernels;
}

inline CUtensorMap makeMap(void *data, const TensorMapShape &shape) {
  cuuint64_t extents[3], strides[2];
  cuuint32_t box[3], steps[3] = {1, 1, 1};
  std::copy(shape.extents.begin(), shape.extents.end(), extents);
  std::copy(shape.byteStrides.begin(), shape.byteStrides.end(), strides);
  std::copy(shape.box.begin(), shape.box.end(), box);
  CUtensorMap map;
  CHECK_DRIVER(cuTensorMapEncodeTiled(
      &map,
      shape.elementBytes == 2 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                              : CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
      shape.extents.size(), data, extents, strides, box, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE,
      shape.swizzleBytes == 128 ? CU_TENSOR_MAP_SWIZZLE_128B
                                : CU_TENSOR_MAP_SWIZZLE_64B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  return map;
}

/// A kernel bound to a size and to sets of operands.
class Launch {
public:
  Launch(const Kernel &kernel, const std::vector<Operands> &sets)
      : kernel(kernel), sets(sets) {}
  virtual ~Launch() = default;
  /// Starts it on one of the sets, in turns.
  virtual void run(int set) = 0;
  virtual int getSlices() const { return 1; }

  const Kernel &kernel;
  float *columnSums = nullptr;
  long columnSumLines = 0;

protected:
  void start(dim3 grid, int threads, void **arguments) {
    CUlaunchAttribute overlap = {};
    overlap.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    overlap.value.programmaticStreamSerializationAllowed = 1;
    CUlaunchConfig launch = {};
    launch.gridDimX = grid.x;
    launch.gridDimY = grid.y;
    launch.gridDimZ = grid.z;
    launch.blockDimX = threads;
    launch.blockDimY = launch.blockDimZ = 1;
    launch.sharedMemBytes = kernel.getSharedBytes();
    launch.attrs = &overlap;
    launch.numAttrs = kernel.config.overlapLaunch ? 1 : 0;
    CHECK_DRIVER(
        cuLaunchKernelEx(&launch, kernel.function, arguments, nullptr));
  }

  const std::vector<Operands> &sets;
};

inline long getLeading(const Matrix &matrix) {
  return std::max(matrix.rowStride, matrix.columnStride);
}

inline int getMultiprocessors() {
  int device, count;
  CHECK_CUDA(cudaGetDevice(&device));
  CHECK_CUDA(
      cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return count;
}

/// By wgmma, with a tile table and tensor maps.
class TensorLaunch : public Launch {
public:
  TensorLaunch(const Kernel &kernel, const GemmSize &size,
               const std::vector<Operands> &sets, int group)
      : Launch(kernel, sets) {
    const Operands &first = sets[0];
    GemmStrides strides = {getLeading(first.a), getLeading(first.b),
                           getLeading(first.d), first.a.batchStride,
                           first.b.batchStride, first.d.batchStride};
    std::string error = checkStrides(kernel.config, size, strides);
    if (!error.empty())
      fail(kernel.label.c_str(), error.c_str(), __LINE__);
    plan =
        planLaunch(kernel.config, size, strides, getMultiprocessors(), group);
    items = allocate<TileItem>(plan.table.items.size());
    CHECK_CUDA(cudaMemcpy(items, plan.table.items.data(),
                          plan.table.items.size() * sizeof(TileItem),
                          cudaMemcpyHostToDevice));
    workspace = allocate<char>(plan.workspaceBytes);
    counters = allocate<char>(plan.counterBytes);
    CHECK_CUDA(cudaMemset(counters, 0, plan.counterBytes));
    columnSums = allocate<float>(plan.columnSumBytes / 4);
    columnSumLines = plan.columnSumBytes / 4 / size.n;
    for (const Operands &set : sets)
      for (const LaunchParameter &parameter : plan.parameters)
        values.push_back(makeValue(parameter, set));
  }
  ~TensorLaunch() override {
    for (void *data : {static_cast<void *>(items), workspace, counters,
                       static_cast<void *>(columnSums)})
      cudaFree(data);
  }

  void run(int set) override {
    size_t count = plan.parameters.size();
    std::vector<void *> arguments(count);
    for (size_t i = 0; i < count; ++i)
      arguments[i] = &values[set % sets.size() * count + i];
    start(plan.gridBlocks, plan.threads, arguments.data());
  }
  int getSlices() const override { return plan.table.slices; }

private:
  union Value {
    CUtensorMap map;
    const void *pointer;
    int32_t number;
  };

  static void *getTensor(GemmTensor tensor, const Operands &set) {
    switch (tensor) {
    case GemmTensor::A:
      return set.a.data;
    case GemmTensor::B:
      return set.b.data;
    case GemmTensor::D:
      return set.d.data;
    case GemmTensor::Side:
      return set.side.data;
    case GemmTensor::Bias:
      return const_cast<bf16 *>(set.bias);
    }
    return nullptr;
  }

  Value makeValue(const LaunchParameter &parameter, const Operands &set) {
    using Kind = LaunchParameter::Kind;
    Value value;
    switch (parameter.kind) {
    case Kind::TensorMap:
      value.map = makeMap(getTensor(parameter.tensor, set), parameter.map);
      break;
    case Kind::Pointer:
      value.pointer = getTensor(parameter.tensor, set);
      break;
    case Kind::TileTable:
      value.pointer = items;
      break;
    case Kind::Workspace:
      value.pointer = workspace;
      break;
    case Kind::Counters:
      value.pointer = counters;
      break;
    case Kind::ColumnSums:
      value.pointer = columnSums;
      break;
    case Kind::Number:
      value.number = parameter.number;
      break;
    case Kind::Null:
      value.pointer = nullptr;
      break;
    }
    return value;
  }

  GemmLaunch plan;
  TileItem *items = nullptr;
  void *workspace = nullptr, *counters = nullptr;
  /// Each set's arguments in turn.
  std::vector<Value> values;
};

/// By mma.sync, with plain pointers.
class MmaLaunch : public Launch {
public:
  MmaLaunch(const Kernel &kernel, const GemmSize &size,
            const std::vector<Operands> &sets)
      : Launch(kernel, sets), m(size.m), n(size.n), k(size.k),
        batch(size.batch) {}

  void run(int set) override {
    Operands operands = sets[set % sets.size()];
    long leading[3], stride[3];
    int index = 0;
    for (const Matrix *matrix : {&operands.a, &operands.b, &operands.d}) {
      leading[index] = getLeading(*matrix);
      stride[index++] = matrix->batchStride;
    }
    void *arguments[] = {&operands.a.data,
                         &operands.b.data,
                         &operands.d.data,
                         &operands.side.data,
                         &operands.bias,
                         &m,
                         &n,
                         &k,
                         &leading[0],
                         &leading[1],
                         &leading[2],
                         &stride[0],
                         &stride[1],
                         &stride[2]};
    dim3 grid((m + mmaTile - 1) / mmaTile, (n + mmaTile - 1) / mmaTile, batch);
    start(grid, mmaThreads, arguments);
  }

private:
  int m, n, k, batch;
};

inline std::unique_ptr<Launch> makeLaunch(const Kernel &kernel,
                                          const GemmSize &size,
                                          const std::vector<Operands> &sets,
                                          int group) {
  if (kernel.isMma)
    return std::make_unique<MmaLaunch>(kernel, size, sets);
  return std::make_unique<TensorLaunch>(kernel, size, sets, group);
}

} // namespace bench

#endif
