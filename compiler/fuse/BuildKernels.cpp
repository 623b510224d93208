//===- BuildKernels.cpp - Regions of kernels ------------------------------===//
#include "compiler/fuse/BuildKernels.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::fuse;

namespace {

/// Fills the body of a kernel by copying operations on demand; what is not
/// computed inside becomes an argument.
class RegionBuilder {
public:
  RegionBuilder(MLIRContext *context, Location loc, plan::KernelKind kind)
      : builder(context),
        kernel(plan::KernelOp::create(builder, loc, kind, "kernel",
                                      builder.getFunctionType({}, {}))) {
    builder.setInsertionPointToStart(&kernel.getBlock());
  }

  Value addArgument(FoldedOperand argument, Type type) {
    arguments.push_back(std::move(argument));
    return kernel.getBlock().addArgument(type, kernel.getLoc());
  }
  Value addArgument(Value root) {
    if (Value known = mapping.lookupOrNull(root))
      return known;
    Value argument = addArgument(FoldedOperand{root, {}}, root.getType());
    mapping.map(root, argument);
    return argument;
  }
  Operation *clone(Operation *op) { return builder.clone(*op, mapping); }

  BuiltKernel finish(ValueRange inside, ArrayRef<Value> results) {
    plan::ReturnOp::create(builder, kernel.getLoc(), inside);
    kernel.setFunctionType(builder.getFunctionType(
        kernel.getBlock().getArgumentTypes(), inside.getTypes()));
    return {kernel, std::move(arguments), SmallVector<Value>(results)};
  }

  OpBuilder builder;
  IRMapping mapping;
  plan::KernelOp kernel;
  SmallVector<FoldedOperand> arguments;
};

} // namespace

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

/// The location of a kernel: those of its operations, each once.
static Location getLoc(MLIRContext *context, ArrayRef<Operation *> ops) {
  llvm::SetVector<Location> locs;
  for (Operation *op : ops)
    locs.insert(op->getLoc());
  return FusedLoc::get(context, locs.getArrayRef());
}

static Value copyInto(RegionBuilder &region, const Node &node,
                      Operands &operands,
                      const llvm::DenseSet<Operation *> &members, Value value) {
  if (Value known = region.mapping.lookupOrNull(value))
    return known;
  Operation *op = value.getDefiningOp();
  bool outsideConstant =
      op && isa<train::ConstantOp>(op) && operands.getLeaves(value).empty();
  if (!op || !(members.contains(op) || operands.isSoft(op) ||
               node.repeated.contains(op) || outsideConstant))
    return region.addArgument(value);
  for (Value operand : op->getOperands())
    copyInto(region, node, operands, members, operand);
  region.clone(op);
  return region.mapping.lookup(value);
}

BuiltKernel fuse::buildLoopKernel(const Node &node, Operands &operands,
                                  ArrayRef<Value> outputs) {
  MLIRContext *context = outputs.front().getContext();
  RegionBuilder region(context, getLoc(context, node.members),
                       plan::KernelKind::Loop);
  llvm::DenseSet<Operation *> members(node.members.begin(), node.members.end());
  SmallVector<Value> inside;
  for (Value output : outputs)
    inside.push_back(copyInto(region, node, operands, members, output));
  BuiltKernel built = region.finish(inside, outputs);
  return built;
}

//===----------------------------------------------------------------------===//
// Anchors and updates
//===----------------------------------------------------------------------===//

/// The update as work on one element: tensors become tensor<1xT>.
static BuiltKernel buildUpdateKernel(Operation *op, Operands &operands) {
  RegionBuilder region(op->getContext(), op->getLoc(),
                       plan::KernelKind::Update);
  auto narrow = [](Type type) {
    return cast<RankedTensorType>(type).clone({1});
  };
  // Scalars come last; a parameter may have rank 0 itself.
  size_t tensors = isa<train::AdamOp>(op)                       ? 4
                   : cast<train::SgdOp>(op).getMomentumBuffer() ? 3
                                                                : 2;
  for (auto [index, operand] : llvm::enumerate(op->getOperands())) {
    if (region.mapping.contains(operand))
      continue;
    if (takesConstant(op, index))
      region.clone(operand.getDefiningOp());
    else
      region.mapping.map(operand,
                         region.addArgument(operands.getFolded(op)[index],
                                            index < tensors
                                                ? narrow(operand.getType())
                                                : operand.getType()));
  }
  Operation *update = region.clone(op);
  for (Value result : update->getResults())
    result.setType(narrow(result.getType()));
  SmallVector<Value> inside =
      cast<train::DecomposableOpInterface>(update).decompose(region.builder);
  region.builder.setInsertionPointToEnd(&region.kernel.getBlock());
  update->erase();
  return region.finish(inside, SmallVector<Value>(op->getResults()));
}

BuiltKernel fuse::buildAnchorKernel(Operation *op, Operands &operands) {
  std::optional<plan::KernelKind> kind = plan::getAnchorKind(op);
  if (!kind)
    return buildUpdateKernel(op, operands);
  // Only these take strides; for the others, a contiguous part is a view
  // outside.
  bool strided = *kind == plan::KernelKind::Contraction ||
                 *kind == plan::KernelKind::Attention ||
                 *kind == plan::KernelKind::AttentionGradient;
  RegionBuilder region(op->getContext(), op->getLoc(), *kind);
  for (auto [index, operand] : llvm::enumerate(op->getOperands())) {
    if (region.mapping.contains(operand))
      continue;
    const FoldedOperand &folded = operands.getFolded(op)[index];
    if (takesConstant(op, index)) {
      region.clone(operand.getDefiningOp());
    } else if (!strided) {
      region.mapping.map(operand,
                         region.addArgument(folded, operand.getType()));
    } else {
      region.addArgument(folded.root);
      for (Operation *view : folded.views)
        if (!region.mapping.contains(view->getResult(0)))
          region.clone(view);
    }
  }
  Operation *anchor = region.clone(op);
  SmallVector<Value> inside, results;
  for (auto [result, copied] :
       llvm::zip_equal(op->getResults(), anchor->getResults())) {
    Value written = operands.getWritten(result), value = result;
    while (value != written) {
      Operation *view = *value.user_begin();
      region.clone(view);
      value = view->getResult(0);
    }
    inside.push_back(region.mapping.lookup(written));
    results.push_back(written);
  }
  return region.finish(inside, results);
}

//===----------------------------------------------------------------------===//
// KernelTable
//===----------------------------------------------------------------------===//

/// Names say what a kernel does most: its anchor, its costliest operation, or
/// what it moves.
static llvm::StringRef getHint(plan::KernelOp kernel) {
  if (Operation *anchor = kernel.getAnchor())
    return anchor->getName().stripDialect();
  llvm::StringRef hint = plan::stringifyKernelKind(kernel.getKind());
  int best = -1;
  for (Operation &op : kernel.getBlock().without_terminator()) {
    int weight = isa<train::ConstantOp, train::IotaOp>(op)          ? -1
                 : plan::isViewOp(&op) || isa<train::ConvertOp>(op) ? 0
                 : isa<train::ReduceOp>(op)                         ? 2
                 : op.hasTrait<train::Pointwise>() && !isCheap(&op) ? 3
                                                                    : 1;
    if (weight > best || (weight == best && weight == 1)) {
      best = weight;
      hint = op.getName().stripDialect();
    }
  }
  return hint;
}

/// Work of a loop or update: one operation per element and pointwise operation
/// or reduced element, 10 for costly ones.
static double countFlops(Operation &op) {
  if (auto costed = dyn_cast<train::CostedOpInterface>(op);
      costed && plan::getAnchorKind(&op))
    return costed.getCost().flops;
  if (isa<train::ReduceOp>(op))
    return static_cast<double>(getElements(op.getOperand(0)));
  if (op.hasTrait<train::Pointwise>() && !isa<train::ConvertOp>(op))
    return static_cast<double>(getElements(op.getResult(0))) *
           (isCheap(&op) ? 1 : 10);
  return 0;
}

/// Equal for kernels of equal structure: what each operation is, without names
/// and locations.
static size_t getHash(plan::KernelOp kernel) {
  llvm::hash_code hash =
      llvm::hash_combine(kernel.getKind(), kernel.getFunctionType());
  for (Operation &op : kernel.getBlock())
    hash =
        llvm::hash_combine(hash, OperationEquivalence::computeHash(
                                     &op, OperationEquivalence::ignoreHashValue,
                                     OperationEquivalence::ignoreHashValue,
                                     OperationEquivalence::IgnoreLocations));
  return hash;
}

static bool isEqual(plan::KernelOp a, plan::KernelOp b) {
  return a.getKind() == b.getKind() &&
         a.getFunctionType() == b.getFunctionType() &&
         OperationEquivalence::isRegionEquivalentTo(
             &a.getBody(), &b.getBody(), OperationEquivalence::IgnoreLocations);
}

KernelTable::KernelTable(ModuleOp module) : module(module) {
  for (auto kernel : module.getOps<plan::KernelOp>()) {
    kernels[getHash(kernel)].push_back(kernel);
    ++count;
  }
}

plan::KernelOp KernelTable::insert(plan::KernelOp kernel) {
  SmallVector<plan::KernelOp, 1> &candidates = kernels[getHash(kernel)];
  for (plan::KernelOp candidate : candidates)
    if (isEqual(candidate, kernel)) {
      kernel->erase();
      return candidate;
    }
  candidates.push_back(kernel);
  OpBuilder builder(kernel.getContext());
  double flops = 0, bytes = 0;
  for (Operation &op : kernel.getBlock().without_terminator())
    flops += countFlops(op);
  for (Type type : llvm::concat<const Type>(kernel.getArgumentTypes(),
                                            kernel.getResultTypes()))
    bytes +=
        static_cast<double>(plan::getTensorBytes(cast<RankedTensorType>(type)));
  kernel.setFlopsAttr(builder.getF64FloatAttr(flops));
  kernel.setBytesAttr(builder.getF64FloatAttr(bytes));
  kernel.setSymName((getHint(kernel) + "_" + llvm::Twine(count++)).str());
  module.push_back(kernel);
  return kernel;
}
