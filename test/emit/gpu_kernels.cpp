// gpu-kernels FILE.mlir --target sm_90a --ptx
//   prints the PTX of the generated kernels of a module.
// gpu-kernels FILE.mlir --target sm_90a --cases DIR [--shapes-only]
//   writes what test/system/gpu_kernels.py needs to run each of them on a GPU:
//   DIR/code (a cubin, or PTX), DIR/index.json (launches and operands) and
//   DIR/data (arguments and expected results).
#include "compiler/driver/Registration.h"
#include "compiler/emit/nvptx/NvptxTarget.h"
#include "dialects/plan/KernelModel.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "test/emit/KernelCheck.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace lockstep;
namespace json = llvm::json;
namespace cl = llvm::cl;

static cl::opt<std::string> input(cl::Positional, cl::Required);
static cl::opt<std::string> chip("target", cl::init("sm_90a"));
static cl::opt<bool> printPtx("ptx");
static cl::opt<std::string> folder("cases");
static cl::opt<bool> shapesOnly("shapes-only");
static cl::opt<int64_t> integersBelow("integers-below", cl::init(3));
static cl::opt<unsigned> seed("seed", cl::init(1));

/// Elements of the segments that an update kernel is run on.
static constexpr int64_t kSegments[] = {1, 5003, 20000};
static constexpr int64_t kAlignment = 256;

static SmallVector<emit::GeneratedKernel> collect(ModuleOp module) {
  SmallVector<emit::GeneratedKernel> kernels;
  emit::NvptxTarget target(chip);
  for (auto kernel : module.getOps<plan::KernelOp>()) {
    SmallVector<int64_t> alignments(kernel.getArgumentTypes().size() +
                                        kernel.getResultTypes().size(),
                                    kAlignment);
    if (!target.usesLibrary(kernel, alignments))
      kernels.push_back(
          {kernel, kernel.getSymName().str(), {}, std::move(alignments)});
  }
  return kernels;
}

namespace {

/// Writes operands behind one another.
class DataFile {
public:
  DataFile(StringRef path, std::error_code &error) : file(path, error) {}

  json::Object add(RankedTensorType type, const HostTensor *tensor) {
    json::Object entry;
    std::string name;
    llvm::raw_string_ostream(name) << type.getElementType();
    entry["type"] = name;
    entry["bytes"] = type.getNumElements() *
                     HostTensor::getElementBytes(type.getElementType());
    if (!tensor)
      return entry;
    entry["offset"] = int64_t(file.tell());
    file.write(static_cast<const char *>(tensor->getData()),
               tensor->getNumBytes());
    return entry;
  }

private:
  llvm::raw_fd_ostream file;
};

} // namespace

static RankedTensorType widen(plan::KernelOp kernel, Type type,
                              int64_t elements) {
  auto tensor = cast<RankedTensorType>(type);
  bool isUpdate = kernel.getKind() == plan::KernelKind::Update;
  return isUpdate && tensor.getRank() == 1 ? tensor.clone({elements}) : tensor;
}

/// The operands of one segment.
static FailureOr<json::Array> describeSegment(plan::KernelOp kernel,
                                              ModuleOp module, DataFile &data,
                                              int64_t elements) {
  std::optional<test::KernelCase> drawn;
  if (!shapesOnly) {
    auto result =
        test::drawKernelCase(kernel, module, integersBelow, seed, elements);
    if (failed(result))
      return failure();
    drawn = std::move(*result);
  }
  json::Array operands;
  for (auto [i, type] : llvm::enumerate(kernel.getArgumentTypes()))
    operands.push_back(data.add(widen(kernel, type, elements),
                                drawn ? &drawn->arguments[i] : nullptr));
  std::vector<HostTensor> results;
  for (auto [i, type] : llvm::enumerate(kernel.getResultTypes())) {
    if (drawn)
      results.push_back(drawn->results[i].expand());
    operands.push_back(data.add(widen(kernel, type, elements),
                                drawn ? &results.back() : nullptr));
  }
  return operands;
}

static json::Array toJson(ArrayRef<int64_t> numbers) {
  json::Array array;
  for (int64_t number : numbers)
    array.push_back(number);
  return array;
}

/// Fields as in the artifact (artifact.fbs); constants as hexadecimal text.
static json::Object describeLaunch(const emit::KernelLaunch &launch) {
  json::Array parameters;
  for (const auto &parameter : launch.parameters)
    parameters.push_back(json::Object{
        {"kind", artifact::EnumNameParameterKind(parameter->kind)},
        {"operand", parameter->operand},
        {"byte_offset", parameter->byte_offset},
        {"dtype", artifact::EnumNameDType(parameter->dtype)},
        {"dims", toJson(parameter->dims)},
        {"strides", toJson(parameter->strides)},
        {"box", toJson(SmallVector<int64_t>(parameter->box.begin(),
                                            parameter->box.end()))},
        {"swizzle", parameter->swizzle},
        {"offset", parameter->offset},
        {"bytes", parameter->bytes},
        {"value", parameter->value},
        {"real", parameter->real}});
  return json::Object{{"parameters", std::move(parameters)},
                      {"constants", llvm::toHex(launch.constants)},
                      {"grid", launch.grid}};
}

static FailureOr<json::Object> describe(const emit::GeneratedKernel &generated,
                                        ModuleOp module, DataFile &data) {
  plan::KernelOp kernel = generated.kernel;
  const emit::KernelShape &shape = generated.shape;
  json::Object entry{{"name", kernel.getSymName().str()},
                     {"symbol", generated.symbol},
                     {"kind", plan::stringifyKernelKind(kernel.getKind())},
                     {"threads", shape.threads},
                     {"shared_bytes", shape.sharedBytes},
                     {"work_items", shape.workItems},
                     {"items_per_block", shape.itemsPerBlock},
                     {"segmented", shape.segmented},
                     {"arguments", int64_t(kernel.getArgumentTypes().size())}};
  json::Array segments, over;
  const int64_t one = 1;
  for (int64_t elements :
       shape.segmented ? ArrayRef<int64_t>(kSegments) : ArrayRef(one)) {
    FailureOr<json::Array> operands =
        describeSegment(kernel, module, data, elements);
    if (failed(operands))
      return failure();
    segments.push_back(std::move(*operands));
  }
  entry["segments"] = std::move(segments);
  // Where a result may take an argument's place, it is tried.
  for (unsigned i = 0; i < kernel.getArgumentTypes().size(); ++i)
    for (unsigned k = 0; k < kernel.getResultTypes().size(); ++k)
      if (plan::canWriteOver(kernel, i, k))
        over.push_back(json::Array{i, k});
  entry["over"] = std::move(over);
  // Runs whose result has no argument's place begin with what they add to.
  json::Array added;
  for (unsigned k = 0; k < kernel.getResultTypes().size(); ++k)
    if (int i = plan::getAccumulatedArgument(kernel, k); i >= 0)
      added.push_back(json::Array{i, k});
  entry["added"] = std::move(added);
  if (!generated.launch.parameters.empty())
    entry["launch"] = describeLaunch(generated.launch);
  entry["varies"] = generated.varies;
  json::Array parts;
  for (const emit::KernelPart &part : generated.parts)
    parts.push_back(json::Object{{"symbol", part.symbol},
                                 {"threads", part.shape.threads},
                                 {"shared_bytes", part.shape.sharedBytes},
                                 {"launch", describeLaunch(part.launch)}});
  if (!parts.empty())
    entry["parts"] = std::move(parts);
  return entry;
}

static bool write(const Twine &path, StringRef text) {
  std::error_code error;
  llvm::raw_fd_ostream file(path.str(), error);
  if (!error)
    file << text;
  return !error;
}

int main(int argc, char **argv) {
  cl::ParseCommandLineOptions(argc, argv);
  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry);
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(input, &context);
  if (!module)
    return 1;
  SmallVector<emit::GeneratedKernel> kernels = collect(*module);
  emit::NvptxTarget target(chip);
  std::string code;
  if (printPtx) {
    if (failed(target.compileToPtx(*module, kernels, code)))
      return 1;
    llvm::outs() << code;
    return 0;
  }
  std::vector<std::string> objects;
  if (failed(target.compile(*module, kernels, objects)))
    return 1;
  std::error_code error = llvm::sys::fs::create_directories(folder);
  for (auto [i, object] : llvm::enumerate(objects))
    if (error || !write(folder + "/code" + Twine(i), object)) {
      llvm::errs() << "cannot write to " << folder << "\n";
      return 1;
    }
  DataFile data(folder + "/data", error);
  json::Array entries;
  for (const emit::GeneratedKernel &kernel : kernels) {
    FailureOr<json::Object> entry = describe(kernel, *module, data);
    if (failed(entry)) {
      llvm::errs() << kernel.symbol << ": cannot be evaluated\n";
      return 1;
    }
    entries.push_back(std::move(*entry));
  }
  std::string text;
  llvm::raw_string_ostream(text) << json::Value(std::move(entries));
  return write(folder + "/index.json", text) ? 0 : 1;
}
