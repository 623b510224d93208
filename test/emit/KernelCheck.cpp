#include "test/emit/KernelCheck.h"
#include "compiler/emit/Target.h"
#include "compiler/emit/library/LibraryKernels.h"
#include "compiler/reference/Interpreter.h"
#include "dialects/train/DecompositionUtils.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "runtime/device/host/code_object.h"
#include <cmath>
#include <cstring>
#include <random>

using namespace mlir;
using namespace lockstep;

namespace {

/// A function that only calls the kernel, for the interpreter. What an update
/// kernel is written for, one element, is many in the function.
func::FuncOp makeCaller(plan::KernelOp kernel, ModuleOp module,
                        int64_t updateElements) {
  OpBuilder builder(module.getContext());
  builder.setInsertionPointToEnd(module.getBody());
  bool isUpdate = kernel.getKind() == plan::KernelKind::Update;
  auto widen = [&](Type type) -> Type {
    auto tensor = cast<RankedTensorType>(type);
    return isUpdate && tensor.getRank() == 1 ? tensor.clone({updateElements})
                                             : tensor;
  };
  SmallVector<Type> inputs =
                        llvm::map_to_vector(kernel.getArgumentTypes(), widen),
                    outputs =
                        llvm::map_to_vector(kernel.getResultTypes(), widen);
  auto function = func::FuncOp::create(
      builder, kernel.getLoc(), ("call_" + kernel.getSymName()).str(),
      builder.getFunctionType(inputs, outputs));
  builder.setInsertionPointToStart(function.addEntryBlock());
  auto call =
      plan::CallOp::create(builder, kernel.getLoc(), outputs,
                           kernel.getSymName(), function.getArguments());
  func::ReturnOp::create(builder, kernel.getLoc(), call.getResults());
  return function;
}

HostTensor drawTensor(RankedTensorType type, int64_t below,
                      std::mt19937 &random) {
  std::vector<double> values(type.getNumElements());
  Type element = type.getElementType();
  if (isa<FloatType>(element)) {
    std::normal_distribution<double> normal;
    for (double &v : values)
      v = normal(random);
    return HostTensor::fromDoubles(type, values);
  }
  std::uniform_int_distribution<int64_t> uniform(
      0, element.isInteger(1) ? 1 : below - 1);
  std::vector<int64_t> integers(type.getNumElements());
  for (int64_t &v : integers)
    v = uniform(random);
  return HostTensor::fromInts(type, integers);
}

/// Buffers lie as in the arena: at multiples of 64 bytes.
struct alignas(64) Line {
  char bytes[64];
};
struct AlignedBytes {
  explicit AlignedBytes(size_t size, char fill = char(0xff))
      : size(size), lines((size + 63) / 64 + 1) {
    std::memset(data(), fill, size);
  }
  char *data() { return lines.front().bytes; }
  const char *data() const { return lines.front().bytes; }
  bool operator==(const AlignedBytes &other) const {
    return std::memcmp(data(), other.data(), size) == 0;
  }
  size_t size;
  std::vector<Line> lines;
};

std::vector<AlignedBytes> poisoned(plan::KernelOp kernel) {
  std::vector<AlignedBytes> buffers;
  for (Type type : kernel.getResultTypes()) {
    auto tensor = cast<RankedTensorType>(type);
    buffers.emplace_back(tensor.getNumElements() *
                         HostTensor::getElementBytes(tensor.getElementType()));
  }
  return buffers;
}

std::string compare(const HostTensor &got, const HostTensor &want,
                    double tolerance) {
  std::vector<double> a = got.toDoubles(), b = want.toDoubles();
  double scale = 1e-6, worst = 0;
  for (double v : b)
    if (std::isfinite(v))
      scale = std::max(scale, std::abs(v));
  size_t where = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
    double difference = same ? 0
                        : std::isfinite(a[i]) && std::isfinite(b[i])
                            ? std::abs(a[i] - b[i]) / scale
                            : INFINITY;
    if (difference > worst)
      worst = difference, where = i;
  }
  if (worst <= tolerance)
    return "";
  return "element " + std::to_string(where) + " is " +
         std::to_string(a[where]) + ", the evaluation gives " +
         std::to_string(b[where]);
}

} // namespace

/// A copy of the kernel of a narrow product that hands its sums on as f32, as
/// generated kernels do: they round once, at the end (ProductEpilogue.h), where
/// the region rounds the sums as well.
static plan::KernelOp copyWithWideSums(plan::KernelOp kernel, ModuleOp module) {
  plan::KernelOp copy = kernel.clone();
  SymbolTable(module).insert(copy);
  auto dot = cast<train::DotGeneralOp>(copy.getAnchor());
  auto narrow = cast<RankedTensorType>(dot.getType());
  OpBuilder builder(dot);
  auto convert = [&](Value value, Type element) -> Value {
    auto type = cast<RankedTensorType>(value.getType()).clone(element);
    return train::ConvertOp::create(builder, dot.getLoc(), type, value);
  };
  for (OpOperand &operand : dot->getOpOperands())
    operand.set(convert(operand.get(), builder.getF32Type()));
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : dot->getUses())
    uses.push_back(&use);
  dot.getResult().setType(narrow.clone(builder.getF32Type()));
  builder.setInsertionPointAfter(dot);
  Value rounded = convert(dot.getResult(), narrow.getElementType());
  for (OpOperand *use : uses) {
    Operation *user = use->getOwner();
    bool widens = isa<train::ConvertOp>(user) &&
                  user->getResult(0).getType() == dot.getType();
    if (widens)
      user->getResult(0).replaceAllUsesWith(dot.getResult());
    else
      use->set(rounded);
  }
  return copy;
}

static bool isNarrowProduct(plan::KernelOp kernel) {
  if (kernel.getKind() != plan::KernelKind::Contraction)
    return false;
  Type element = getElementTypeOrSelf(
      cast<train::DotGeneralOp>(kernel.getAnchor()).getType());
  return element.isBF16() || element.isF16();
}

/// The value that a chain of turns and reshapes begins with, from the one that
/// it ends in.
static Value undoViews(train::TensorBuilder &b, Value chain, Value last) {
  Operation *op = chain.getDefiningOp();
  if (!op)
    return last;
  if (auto transpose = dyn_cast<train::TransposeOp>(op)) {
    SmallVector<int64_t> inverse(transpose.getPermutation().size());
    for (auto [i, dim] : llvm::enumerate(transpose.getPermutation()))
      inverse[dim] = i;
    last = b.transpose(last, inverse);
  } else {
    last = b.reshape(last, train::getShape(op->getOperand(0)));
  }
  return undoViews(b, op->getOperand(0), last);
}

static unsigned findArgument(Value chain) {
  while (Operation *op = chain.getDefiningOp())
    chain = op->getOperand(0);
  return cast<BlockArgument>(chain).getArgNumber();
}

/// A gradient of attention reads what the forward pass has saved: puts it in
/// the place of those arguments.
static LogicalResult saveForward(plan::KernelOp kernel,
                                 train::AttentionGradientOp gradient,
                                 ModuleOp module,
                                 SmallVectorImpl<HostTensor> &arguments) {
  OpBuilder builder(module.getContext());
  builder.setInsertionPointToEnd(module.getBody());
  auto function = func::FuncOp::create(
      builder, kernel.getLoc(), "save_forward",
      builder.getFunctionType(kernel.getArgumentTypes(), {}));
  builder.setInsertionPointToStart(function.addEntryBlock());
  IRMapping mapping;
  mapping.map(kernel.getBlock().getArguments(), function.getArguments());
  for (Operation &op : kernel.getBlock()) {
    if (&op == gradient)
      break;
    builder.clone(op, mapping);
  }
  train::TensorBuilder b(builder, kernel.getLoc());
  auto forward = train::AttentionOp::create(
      builder, kernel.getLoc(),
      TypeRange{gradient.getOutput().getType(), gradient.getLse().getType()},
      mapping.lookup(gradient.getQuery()), mapping.lookup(gradient.getKey()),
      mapping.lookup(gradient.getValue()),
      mapping.lookupOrDefault(gradient.getMask()), gradient.getScaleAttr(),
      gradient.getCausalAttr(), gradient.getWindowAttr());
  Value saved[] = {undoViews(b, gradient.getOutput(), forward.getResult()),
                   undoViews(b, gradient.getLse(), forward.getLse())};
  func::ReturnOp::create(builder, kernel.getLoc(), saved);
  function.setFunctionType(builder.getFunctionType(
      kernel.getArgumentTypes(), ValueRange(saved).getTypes()));
  FailureOr<SmallVector<HostTensor>> values = interpret(function, arguments);
  function.erase();
  if (failed(values))
    return failure();
  arguments[findArgument(gradient.getOutput())] = (*values)[0].expand();
  arguments[findArgument(gradient.getLse())] = (*values)[1].expand();
  return success();
}

FailureOr<test::KernelCase> test::drawKernelCase(plan::KernelOp kernel,
                                                 ModuleOp module,
                                                 int64_t integersBelow,
                                                 unsigned seed,
                                                 int64_t updateElements) {
  module.getContext()->loadDialect<func::FuncDialect>();
  std::mt19937 random(seed);
  KernelCase drawn;
  plan::KernelOp copy;
  if (isNarrowProduct(kernel))
    kernel = copy = copyWithWideSums(kernel, module);
  func::FuncOp caller = makeCaller(kernel, module, updateElements);
  for (Type type : caller.getArgumentTypes())
    drawn.arguments.push_back(
        drawTensor(cast<RankedTensorType>(type), integersBelow, random)
            .expand());
  auto gradient =
      dyn_cast_or_null<train::AttentionGradientOp>(kernel.getAnchor());
  if (gradient &&
      failed(saveForward(kernel, gradient, module, drawn.arguments)))
    return failure();
  FailureOr<SmallVector<HostTensor>> results =
      interpret(caller, drawn.arguments);
  caller.erase();
  if (copy)
    copy.erase();
  if (failed(results))
    return failure();
  drawn.results = std::move(*results);
  return drawn;
}

std::string test::checkKernels(ModuleOp module,
                               const KernelCheckOptions &options,
                               int *checked) {
  std::string problems;
  SmallVector<emit::GeneratedKernel> kernels;
  for (auto kernel : module.getOps<plan::KernelOp>())
    if (!emit::isLibraryKind(kernel.getKind()) &&
        kernel.getKind() != plan::KernelKind::Update)
      kernels.push_back({kernel, kernel.getSymName().str(), {}, {}});
  if (kernels.empty())
    return "";
  std::unique_ptr<emit::Target> target = emit::Target::create(options.target);
  emit::loadEmitDialects(*module.getContext());
  std::vector<std::string> objects;
  if (failed(target->compile(module, kernels, objects)))
    return "the kernels do not compile\n";
  StatusOr<runtime::CodeObject> code =
      runtime::CodeObject::load(objects.front());
  if (!code.ok())
    return code.status().toString() + "\n";
  unsigned seed = options.seed;
  for (const emit::GeneratedKernel &generated : kernels) {
    plan::KernelOp kernel = generated.kernel;
    std::string name = kernel.getSymName().str();
    FailureOr<KernelCase> drawn =
        drawKernelCase(kernel, module, options.integersBelow, seed++);
    if (failed(drawn)) {
      problems += name + ": cannot be evaluated\n";
      continue;
    }
    std::vector<AlignedBytes> copies;
    for (const HostTensor &argument : drawn->arguments) {
      copies.emplace_back(argument.getNumBytes());
      std::memcpy(copies.back().data(), argument.getData(),
                  argument.getNumBytes());
    }
    std::vector<void *> pointers;
    for (AlignedBytes &copy : copies)
      pointers.push_back(copy.data());
    StatusOr<runtime::GeneratedKernel> function = code->find(name);
    if (!function.ok())
      return function.status().toString() + "\n";
    std::vector<AlignedBytes> whole = poisoned(kernel),
                              pieces = poisoned(kernel);
    for (auto *buffers : {&whole, &pieces}) {
      std::vector<void *> all = pointers;
      for (AlignedBytes &buffer : *buffers)
        all.push_back(buffer.data());
      int64_t items = generated.shape.workItems,
              step = buffers == &whole ? std::max<int64_t>(items, 1) : 3;
      for (int64_t begin = 0; begin < items; begin += step)
        (*function)(all.data(), begin, std::min(items, begin + step));
    }
    if (whole != pieces)
      problems += name + ": the bits depend on how the work is cut\n";
    for (auto [i, type] : llvm::enumerate(kernel.getResultTypes())) {
      HostTensor got = HostTensor::copy(cast<RankedTensorType>(type),
                                        {whole[i].data(), whole[i].size});
      std::string problem = compare(got, drawn->results[i], options.tolerance);
      if (!problem.empty())
        problems +=
            name + " result " + std::to_string(i) + ": " + problem + "\n";
    }
    if (checked)
      ++*checked;
  }
  return problems;
}
