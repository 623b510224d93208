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

/// Tensors become tensor<1xT>: the update is work on one element.
static Type narrow(Type type) {
  return cast<RankedTensorType>(type).clone({1});
}

/// Of an operand within the kernel of an update.
Type fuse::getUpdateType(Operation *op, unsigned index) {
  // Scalars come last; a parameter may have rank 0 itself.
  unsigned tensors = isa<train::AdamOp>(op)                       ? 4
                     : cast<train::SgdOp>(op).getMomentumBuffer() ? 3
                                                                  : 2;
  Type type = op->getOperand(index).getType();
  return index < tensors ? narrow(type) : type;
}

BuiltKernel fuse::describeUpdate(Operation *op, Operands &operands) {
  BuiltKernel built{{}, {}, SmallVector<Value>(op->getResults())};
  llvm::SmallDenseSet<Value> seen;
  for (auto [index, operand] : llvm::enumerate(op->getOperands()))
    if (seen.insert(operand).second && !takesConstant(op, index))
      built.arguments.push_back(operands.getFolded(op)[index]);
  return built;
}

plan::KernelOp fuse::buildUpdateKernel(Operation *op, Operands &operands) {
  RegionBuilder region(op->getContext(), op->getLoc(),
                       plan::KernelKind::Update);
  for (auto [index, operand] : llvm::enumerate(op->getOperands())) {
    if (region.mapping.contains(operand))
      continue;
    if (takesConstant(op, index))
      region.clone(operand.getDefiningOp());
    else
      region.mapping.map(operand,
                         region.addArgument(operands.getFolded(op)[index],
                                            getUpdateType(op, index)));
  }
  Operation *update = region.clone(op);
  for (Value result : update->getResults())
    result.setType(narrow(result.getType()));
  SmallVector<Value> inside =
      cast<train::DecomposableOpInterface>(update).decompose(region.builder);
  region.builder.setInsertionPointToEnd(&region.kernel.getBlock());
  update->erase();
  return region.finish(inside, SmallVector<Value>(op->getResults())).kernel;
}

/// Copies what leads from the results of the anchor `op` to `value`.
static void cloneViews(Operation *op, Value value, RegionBuilder &region) {
  Operation *view = value.getDefiningOp();
  if (view == op || region.mapping.contains(value))
    return;
  for (Value operand : view->getOperands())
    cloneViews(op, operand, region);
  region.clone(view);
}

BuiltKernel fuse::buildAnchorKernel(Operation *op, Operands &operands) {
  std::optional<plan::KernelKind> kind = plan::getAnchorKind(op);
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
  region.clone(op);
  SmallVector<Value> inside;
  llvm::SetVector<Value> results; // several may be joined in one
  for (Value result : op->getResults()) {
    Value written = operands.getWritten(result);
    if (!results.insert(written))
      continue;
    cloneViews(op, written, region);
    inside.push_back(region.mapping.lookup(written));
  }
  return region.finish(inside, results.getArrayRef());
}
