// Loads and launches the generated attention kernels as AttentionLaunch.h plans
// them, for attention_bench.py and attention_small.py.
//
// Built where the CUDA toolkit is (no CMake target, since no test needs it):
//   g++ -O2 -std=c++20 -shared -fPIC -I. -I/usr/local/cuda/include
//     -o libattention_launch.so tools/bench/gpu/attention_launch.cpp
//     compiler/emit/nvptx/attention/{AttentionConfig,AttentionConfigText}.cpp
//     compiler/emit/nvptx/attention/{AttentionLaunch,WorkTable}.cpp -lcuda
#include "compiler/emit/nvptx/attention/AttentionConfigText.h"
#include "compiler/emit/nvptx/attention/AttentionLaunch.h"

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
/// column. Without data where the pass has no such tensor.
struct Tensor {
  void *data;
  int64_t sizes[4], strides[4];
};
constexpr int tensorCount = int(AttentionTensor::Mask) + 1;

/// What a pass is: its tensors in the order of AttentionTensor, and numbers.
struct Pass {
  Tensor tensors[tensorCount];
  /// Of a mask's elements: "boolean" (i8), "f32", "bf16".
  const char *maskElement;
  int64_t window;
  float scale;
  /// Whether memory between kernels is NaN at first: without, compute-sanitizer
  /// sees what is read before it is written.
  int32_t poison;
  /// Blocks of a persistent kernel; 0: one on each multiprocessor.
  int32_t blocks;

  const Tensor &operator[](AttentionTensor tensor) const {
    return tensors[int(tensor)];
  }
};

/// A kernel of a manifest. The passes over masks belong to all.
struct Kernel {
  std::string folder, label;
  KernelConfig config;
  std::map<AttentionKernel, CUfunction> functions;
};

/// One launch: the arguments' bytes, in order.
class Launch {
public:
  Launch(CUfunction function, const AttentionLaunch &planned)
      : function(function), grid(planned.gridBlocks), threads(planned.threads),
        sharedBytes(planned.sharedBytes) {}

  template <typename T> void add(const T &value) {
    auto bytes = std::make_unique<Storage>();
    static_assert(sizeof(T) <= sizeof(Storage));
    std::memcpy(bytes->data, &value, sizeof(T));
    pointers.push_back(bytes->data);
    storage.push_back(std::move(bytes));
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
  Plan(const Pass &pass, const AttentionPlan &planned) : pass(pass) {
    for (auto [which, bytes] : planned.scratchBytes)
      scratch[which] = allocate(bytes);
  }
  ~Plan() {
    for (CUdeviceptr pointer : allocations)
      cuMemFree(pointer);
  }
  void add(CUfunction function, const AttentionLaunch &planned);

  std::vector<Launch> launches;

private:
  CUdeviceptr allocate(int64_t bytes) {
    CUdeviceptr pointer;
    CHECK(cuMemAlloc(&pointer, std::max<int64_t>(bytes, 16)));
    if (pass.poison)
      CHECK(cuMemsetD8(pointer, 0xff, std::max<int64_t>(bytes, 16)));
    allocations.push_back(pointer);
    return pointer;
  }
  CUdeviceptr upload(const std::vector<int32_t> &values) {
    CUdeviceptr pointer = allocate(values.size() * 4);
    CHECK(cuMemcpyHtoD(pointer, values.data(), values.size() * 4));
    return pointer;
  }
  void add(Launch &launch, const AttentionLaunch &planned,
           const LaunchParameter &parameter);

  Pass pass;
  std::map<AttentionScratch, CUdeviceptr> scratch;
  std::vector<CUdeviceptr> allocations;
};
} // namespace

static CUtensorMap makeMap(void *data,
                           const lockstep::gemm::TensorMapShape &shape) {
  std::vector<cuuint64_t> extents(shape.extents.begin(), shape.extents.end());
  std::vector<cuuint64_t> strides(shape.byteStrides.begin(),
                                  shape.byteStrides.end());
  std::vector<cuuint32_t> box(shape.box.begin(), shape.box.end());
  std::vector<cuuint32_t> steps(box.size(), 1);
  CUtensorMap map;
  CHECK(cuTensorMapEncodeTiled(
      &map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, extents.size(), data,
      extents.data(), strides.data(), box.data(), steps.data(),
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  return map;
}

void Plan::add(Launch &launch, const AttentionLaunch &planned,
               const LaunchParameter &parameter) {
  using Kind = LaunchParameter::Kind;
  switch (parameter.kind) {
  case Kind::TensorMap:
    return launch.add(makeMap(pass[parameter.tensor].data, parameter.map));
  case Kind::Pointer:
    return launch.add(pass[parameter.tensor].data);
  case Kind::Scratch:
    return launch.add(scratch.at(parameter.scratch));
  case Kind::Table:
    return launch.add(upload(planned.table));
  case Kind::Bounds:
    return launch.add(upload(planned.bounds));
  case Kind::Null:
    return launch.add(CUdeviceptr(0));
  case Kind::Number:
    return launch.add(int32_t(parameter.number));
  case Kind::Wide:
    return launch.add(parameter.number);
  case Kind::Scalar:
    return launch.add(parameter.scalar);
  }
}

void Plan::add(CUfunction function, const AttentionLaunch &planned) {
  Launch launch(function, planned);
  for (const LaunchParameter &parameter : planned.parameters)
    add(launch, planned, parameter);
  launches.push_back(std::move(launch));
}

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

static void loadAll(Kernel &kernel) {
  std::string path = kernel.folder + "/" + kernel.label;
  auto main = AttentionKernel::Forward;
  if (auto *backward = std::get_if<BackwardConfig>(&kernel.config)) {
    main = AttentionKernel::Backward;
    if (backward->queryGradient != QueryGradient::None) {
      kernel.functions[AttentionKernel::Prepare] =
          load(path + ".prepare.cubin", 0);
      kernel.functions[AttentionKernel::Convert] =
          load(path + ".convert.cubin", convertSharedBytes);
    }
  } else if (std::get_if<QueryGradientConfig>(&kernel.config)) {
    main = AttentionKernel::QueryGradient;
  }
  kernel.functions[main] = load(
      path + ".cubin",
      std::visit(
          [](const auto &each) { return getSharedLayout(each).totalBytes; },
          kernel.config));
}

static CUfunction getFunction(const Kernel &kernel, AttentionKernel which,
                              const Pass &pass) {
  auto found = kernel.functions.find(which);
  if (found != kernel.functions.end())
    return found->second;
  const char *name = which == AttentionKernel::KeyBias ? "keybias" : "pieces";
  return load(kernel.folder + "/" + name + "." + pass.maskElement + ".cubin",
              0);
}

static AttentionSize getSize(const Pass &pass) {
  const Tensor &query = pass[AttentionTensor::Query];
  const Tensor &key = pass[AttentionTensor::Key];
  AttentionSize size;
  size.batch = query.sizes[0];
  size.queryHeads = query.sizes[1];
  size.keyHeads = key.sizes[1];
  size.queries = query.sizes[2];
  size.keys = key.sizes[2];
  size.headDim = query.sizes[3];
  size.window = pass.window;
  return size;
}

static AttentionStrides getStrides(const Pass &pass) {
  AttentionStrides strides;
  for (int i = 0; i <= int(AttentionTensor::ValueGradient); ++i)
    if (const Tensor &tensor = pass.tensors[i]; tensor.data)
      strides[AttentionTensor(i)] = {tensor.strides[2], tensor.strides[1],
                                     tensor.strides[0]};
  if (const Tensor &mask = pass[AttentionTensor::KeyMask]; mask.data)
    strides[AttentionTensor::KeyMask] = {0, 0, mask.strides[0]};
  if (const Tensor &mask = pass[AttentionTensor::Mask]; mask.data)
    strides[AttentionTensor::Mask] = {mask.strides[2], mask.strides[1],
                                      mask.strides[0], mask.strides[3]};
  return strides;
}

static AttentionPlan planPass(const Kernel &kernel, const Kernel *queryKernel,
                              const Pass &pass) {
  AttentionSize size = getSize(pass);
  AttentionStrides strides = getStrides(pass);
  std::string error = checkStrides(strides);
  if (error.empty())
    error = std::visit(
        [&](const auto &each) {
          return checkSize(each.headDim, each.mask, size);
        },
        kernel.config);
  if (!error.empty())
    fail(kernel.label, error);
  int processors = pass.blocks ? pass.blocks : countProcessors();
  if (auto *forward = std::get_if<ForwardConfig>(&kernel.config))
    return planForward(*forward, size, strides, pass.scale, processors);
  const auto &backward = std::get<BackwardConfig>(kernel.config);
  if (!queryKernel)
    return planBackward(backward, size, strides, pass.scale, processors);
  return planBackward(std::get<QueryGradientConfig>(queryKernel->config),
                      backward, size, strides, pass.scale, processors);
}

extern "C" {

/// For a caller without a context of its own.
void attention_start() {
  CUdevice device;
  CUcontext context;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
}

/// Device memory with bytes of the host in it.
CUdeviceptr attention_upload(const void *data, int64_t bytes) {
  CUdeviceptr pointer;
  CHECK(cuMemAlloc(&pointer, bytes));
  CHECK(cuMemcpyHtoD(pointer, data, bytes));
  return pointer;
}
void attention_download(void *data, CUdeviceptr pointer, int64_t bytes) {
  CHECK(cuCtxSynchronize());
  CHECK(cuMemcpyDtoH(data, pointer, bytes));
}

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
    auto *kernel = new Kernel{folder, label, *config, {}};
    loadAll(*kernel);
    return kernel;
  }
  fail(label, "it is not in the manifest");
}

/// A forward or a backward pass; with a kernel for dq alone in `queryKernel`,
/// else null.
Plan *attention_plan(const Kernel *kernel, const Kernel *queryKernel,
                     const Pass *pass) {
  AttentionPlan planned = planPass(*kernel, queryKernel, *pass);
  auto *plan = new Plan(*pass, planned);
  for (const AttentionLaunch &launch : planned.launches) {
    bool ofQueries = launch.kernel == AttentionKernel::QueryGradient;
    const Kernel &owner = ofQueries ? *queryKernel : *kernel;
    plan->add(getFunction(owner, launch.kernel, *pass), launch);
  }
  return plan;
}

int attention_count(const Plan *plan) { return plan->launches.size(); }

/// All launches, or only one of them.
void attention_run(Plan *plan, int which, CUstream stream) {
  for (int i = 0; i < int(plan->launches.size()); ++i)
    if (which < 0 || which == i)
      plan->launches[i].run(stream);
}

void attention_close(Plan *plan) { delete plan; }

} // extern "C"
