//===- Localization.cpp - From global to local shapes ---------------------===//
#include "compiler/sharding/Localization.h"
#include "compiler/sharding/Decision.h"
#include "compiler/sharding/Propagation.h"
#include "compiler/sharding/Reshard.h"
#include "dialects/train/DecompositionUtils.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::sharding;
using namespace lockstep::train;
using dist::DistDialect;

namespace {

class Localization {
public:
  Localization(func::FuncOp function, MeshOp mesh, bool temporal)
      : function(function), mesh(mesh), temporal(temporal),
        resharder(mesh, temporal) {}
  LogicalResult run();

private:
  LogicalResult localizeBlock(Block &block);
  LogicalResult localizeOp(Operation *op);
  LogicalResult adapt(Operation *op, ArrayRef<ShardingAttr> operands,
                      ArrayRef<ShardingAttr> results);
  void adaptIota(IotaOp op, ShardingAttr sharding);
  void adaptDropout(DropoutOp op, ShardingAttr sharding);
  void averageRunningStatistics(BatchNormOp op);
  LogicalResult enterBody(AccumulateOp op, ArrayRef<ShardingAttr> operands);
  void hoistLabelCounts();

  /// First global index of the rank's block of `localSize`: its place along the
  /// axes times the size, rank 0, i64.
  Value getOffset(TensorBuilder &b, AxesAttr axes, int64_t localSize);
  void setLocalType(Value value, ShardingAttr sharding) {
    value.setType(
        getLocalType(cast<RankedTensorType>(value.getType()), sharding, mesh));
    shardings[value] = sharding;
  }
  ShardingAttr lookup(Value value) {
    ShardingAttr sharding = shardings.lookup(value);
    return sharding ? sharding
                    : ShardingAttr::getReplicated(
                          function.getContext(),
                          cast<RankedTensorType>(value.getType()).getRank());
  }

  func::FuncOp function;
  MeshOp mesh;
  bool temporal;
  Resharder resharder;
  DenseMap<Value, ShardingAttr> shardings;
};

} // namespace

LogicalResult Localization::run() {
  for (BlockArgument argument : function.getArguments())
    if (auto sharding = function.getArgAttrOfType<ShardingAttr>(
            argument.getArgNumber(), DistDialect::kShardingAttr)) {
      setLocalType(argument, sharding);
      function.removeArgAttr(argument.getArgNumber(),
                             DistDialect::kShardingAttr);
    }
  Block &block = function.getBody().front();
  if (failed(localizeBlock(block)))
    return failure();
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    function.removeResultAttr(
        i, StringAttr::get(function.getContext(), DistDialect::kShardingAttr));
  function.setType(FunctionType::get(function.getContext(),
                                     block.getArgumentTypes(),
                                     block.getTerminator()->getOperandTypes()));
  hoistLabelCounts();
  return success();
}

LogicalResult Localization::localizeBlock(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block))
    if (op.getDiscardableAttr(DistDialect::kOperandShardingsAttr) &&
        failed(localizeOp(&op)))
      return failure();
  return success();
}

LogicalResult Localization::localizeOp(Operation *op) {
  SmallVector<ShardingAttr> operands = getOperandShardings(op),
                            results = getResultShardings(op);
  NamedAttrList others(op->getDiscardableAttrDictionary());
  others.erase(DistDialect::kOperandShardingsAttr);
  others.erase(DistDialect::kResultShardingsAttr);
  op->setDiscardableAttrs(others);
  for (auto [operand, required] :
       llvm::zip_equal(op->getOpOperands(), operands)) {
    Value value =
        resharder.reshard(operand.get(), lookup(operand.get()), required, op);
    if (!value)
      return failure();
    operand.set(value);
  }
  for (auto [result, sharding] : llvm::zip_equal(op->getResults(), results))
    setLocalType(result, sharding);
  return adapt(op, operands, results);
}

/// Channels are [group, channel of the group], and ranks divide groups first.
template <typename OpT>
static void adaptGroups(OpT op, ShardingAttr sharding, MeshOp mesh) {
  int64_t groups = op.getGroups();
  op.setGroups(groups / std::min(groups, mesh.getSize(sharding.getDims()[1])));
}

/// What an operation's attributes say about sizes.
LogicalResult Localization::adapt(Operation *op,
                                  ArrayRef<ShardingAttr> operands,
                                  ArrayRef<ShardingAttr> results) {
  if (auto accumulate = dyn_cast<AccumulateOp>(op))
    return enterBody(accumulate, operands);
  if (results.empty() || (!results[0].isDivided() && !hasLocalStatistics(op)))
    return success();
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    constant.setValueAttr(
        getCommonBlock(constant.getValue(), results[0], mesh));
  } else if (auto slice = dyn_cast<SliceOp>(op)) {
    // Only whole dimensions are divided.
    SmallVector<int64_t> limits(slice.getLimits());
    for (auto [dim, axes] : llvm::enumerate(results[0].getDims()))
      if (!axes.empty())
        limits[dim] = cast<RankedTensorType>(slice.getType()).getDimSize(dim);
    slice.setLimits(limits);
  } else if (auto convolution = dyn_cast<ConvolutionOp>(op)) {
    adaptGroups(convolution, operands[0], mesh);
  } else if (auto gradient = dyn_cast<ConvolutionInputGradientOp>(op)) {
    adaptGroups(gradient, operands[0], mesh);
  } else if (auto gradient = dyn_cast<ConvolutionFilterGradientOp>(op)) {
    adaptGroups(gradient, operands[0], mesh);
  } else if (auto iota = dyn_cast<IotaOp>(op)) {
    adaptIota(iota, results[0]);
  } else if (auto dropout = dyn_cast<DropoutOp>(op)) {
    adaptDropout(dropout, results[0]);
  } else if (auto norm = dyn_cast<BatchNormOp>(op)) {
    if (hasLocalStatistics(op))
      averageRunningStatistics(norm);
  }
  return success();
}

LogicalResult Localization::enterBody(AccumulateOp op,
                                      ArrayRef<ShardingAttr> operands) {
  Block &body = op.getBody().front();
  for (auto [argument, sharding] : llvm::zip(body.getArguments(), operands))
    setLocalType(argument, sharding);
  return localizeBlock(body);
}

Value Localization::getOffset(TensorBuilder &b, AxesAttr axes,
                              int64_t localSize) {
  RankedTensorType scalar =
      RankedTensorType::get({}, b.getBuilder().getI64Type());
  if (axes.empty())
    return b.constant(scalar, 0);
  Value place = dist::CoordinateOp::create(b.getBuilder(), b.getLoc(), scalar,
                                           mesh.getSymName(), axes);
  return b.multiply(place, static_cast<double>(localSize));
}

/// iota along the divided dimension counts from the rank's offset.
void Localization::adaptIota(IotaOp op, ShardingAttr sharding) {
  int64_t dim = op.getDimension();
  AxesAttr axes = sharding.getDims()[dim];
  if (axes.empty())
    return;
  auto type = cast<RankedTensorType>(op.getType());
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  TensorBuilder b(builder, op.getLoc());
  Value offset = b.convert(getOffset(b, axes, type.getDimSize(dim)),
                           type.getElementType());
  Value spread = BroadcastInDimOp::create(builder, op.getLoc(), type, offset,
                                          ArrayRef<int64_t>());
  Value sum = b.add(op.getResult(), spread);
  op.getResult().replaceAllUsesExcept(sum, sum.getDefiningOp());
  shardings[sum] = sharding;
}

/// A micro batch has its own iteration number in the generator's counter, and
/// its own indices from 0.
void Localization::adaptDropout(DropoutOp op, ShardingAttr sharding) {
  if (temporal)
    return;
  auto type = cast<RankedTensorType>(op.getType());
  OpBuilder builder(op);
  TensorBuilder b(builder, op.getLoc());
  SmallVector<int64_t> globalShape(type.getShape());
  SmallVector<Value> offsets;
  for (auto [dim, axes] : llvm::enumerate(sharding.getDims())) {
    offsets.push_back(b.reshape(getOffset(b, axes, globalShape[dim]), {1}));
    globalShape[dim] *= mesh.getSize(axes);
  }
  Value joined = ConcatenateOp::create(builder, op.getLoc(), offsets,
                                       static_cast<uint64_t>(0));
  op.getOffsetsMutable().assign(joined);
  op.setGlobalShape(globalShape);
}

/// Running statistics of each rank's part are averaged: scaled here, summed by
/// the all-reduce that their users ask for.
void Localization::averageRunningStatistics(BatchNormOp op) {
  if (temporal)
    return;
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  TensorBuilder b(builder, op.getLoc());
  for (Value result : {op.getNewRunningMean(), op.getNewRunningVar()}) {
    ShardingAttr sharding = lookup(result);
    if (result.use_empty() || !sharding.isPartial())
      continue;
    Value scaled =
        b.multiply(result, 1.0 / mesh.getSize(sharding.getPartial()));
    result.replaceAllUsesExcept(scaled, scaled.getDefiningOp());
    shardings[scaled] = sharding;
  }
}

/// Label counts depend on labels alone: they and their reductions come first,
/// long before the backward pass needs them.
void Localization::hoistLabelCounts() {
  Block &block = function.getBody().front();
  Operation *last = nullptr;
  auto hoist = [&](Operation *op) {
    last ? op->moveAfter(last) : op->moveBefore(&block, block.begin());
    last = op;
  };
  for (LabelCountOp count :
       llvm::make_early_inc_range(block.getOps<LabelCountOp>())) {
    if (!isa<BlockArgument>(count.getLabels()))
      continue;
    hoist(count);
    for (Operation *user :
         llvm::make_early_inc_range(count.getResult().getUsers()))
      if (isa<dist::AllReduceOp>(user) && user->getBlock() == &block &&
          user->getNumOperands() == 1)
        hoist(user);
  }
}

LogicalResult sharding::localize(func::FuncOp function, MeshOp mesh,
                                 bool temporal) {
  return Localization(function, mesh, temporal).run();
}
