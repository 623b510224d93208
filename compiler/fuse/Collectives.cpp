//===- Collectives.cpp - Collectives in the runtime's form ----------------===//
#include "compiler/fuse/Collectives.h"
#include "dialects/dist/Dist.h"
#include "dialects/train/DecompositionUtils.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace lockstep;
using train::TensorBuilder;

/// Whether the parts of a value along `dim` lie one after another.
static bool isLeading(Value whole, int64_t dim) {
  return llvm::all_of(train::getShape(whole).take_front(dim),
                      [](int64_t size) { return size == 1; });
}

bool fuse::needsLeadingForm(Operation *op) {
  return TypeSwitch<Operation *, bool>(op)
      .Case<dist::LocalSliceOp, dist::AllToAllOp>([](auto) { return true; })
      .Case([](dist::AllGatherOp gather) {
        return gather.getDim() != 0 &&
               !llvm::all_of(gather.getOutputs(), [&](Value whole) {
                 return isLeading(whole, gather.getDim());
               });
      })
      .Case([](dist::ReduceScatterOp scatter) {
        return scatter.getDim() != 0 &&
               !llvm::all_of(scatter.getInputs(), [&](Value whole) {
                 return isLeading(whole, scatter.getDim());
               });
      })
      .Default([](auto) { return false; });
}

/// [.., n * s, ..] as [.., n, s, ..] at `dim`.
static Value cut(TensorBuilder &b, Value value, int64_t dim, int64_t blocks) {
  SmallVector<int64_t> shape(train::getShape(value));
  shape[dim] /= blocks;
  shape.insert(shape.begin() + dim, blocks);
  return b.reshape(value, shape);
}

/// [n, .., s, ..] as [.., n * s, ..], where s is dimension `dim` without the
/// leading one.
static Value joinLeading(TensorBuilder &b, Value value, int64_t dim) {
  SmallVector<int64_t> permutation =
      train::getDimRange(1, train::getTensorType(value).getRank());
  permutation.insert(permutation.begin() + dim, 0);
  SmallVector<int64_t> shape(train::getShape(value).drop_front());
  shape[dim] *= train::getShape(value).front();
  return b.reshape(b.transpose(value, permutation), shape);
}

/// The values of all ranks of the group, one after another along a new leading
/// dimension.
static SmallVector<Value> gatherLeading(TensorBuilder &b, ValueRange values,
                                        int64_t ranks, FlatSymbolRefAttr mesh,
                                        dist::AxesAttr axes) {
  SmallVector<Value> parts;
  SmallVector<Type> types;
  for (Value value : values) {
    SmallVector<int64_t> shape(train::getShape(value));
    shape.insert(shape.begin(), 1);
    parts.push_back(b.reshape(value, shape));
    shape.front() = ranks;
    types.push_back(RankedTensorType::get(shape, train::getElementType(value)));
  }
  auto gather =
      dist::AllGatherOp::create(b.getBuilder(), b.getLoc(), types, parts,
                                /*dim=*/uint64_t(0), mesh.getValue(), axes);
  return SmallVector<Value>(gather.getOutputs());
}

/// This rank's block of a dimension that is cut into as many as there are
/// ranks: a gather of one block.
static Value takeBlock(TensorBuilder &b, Value value, int64_t dim,
                       int64_t ranks, FlatSymbolRefAttr mesh,
                       dist::AxesAttr axes) {
  OpBuilder &builder = b.getBuilder();
  Value place = dist::CoordinateOp::create(
      builder, b.getLoc(), RankedTensorType::get({}, builder.getI64Type()),
      mesh, axes);
  return train::GatherOp::create(builder, b.getLoc(), cut(b, value, dim, ranks),
                                 ValueRange{place}, ArrayRef<int64_t>{dim},
                                 /*batch_dims=*/0);
}

static SmallVector<Value> rewrite(TensorBuilder &b, dist::AllGatherOp op) {
  int64_t dim = op.getDim(),
          ranks = train::getShape(op.getOutputs().front())[dim] /
                  train::getShape(op.getInputs().front())[dim];
  SmallVector<Value> values = gatherLeading(b, op.getInputs(), ranks,
                                            op.getMeshAttr(), op.getAxesAttr());
  for (Value &value : values)
    value = joinLeading(b, value, dim);
  return values;
}

static SmallVector<Value> rewrite(TensorBuilder &b, dist::ReduceScatterOp op) {
  int64_t dim = op.getDim(),
          ranks = train::getShape(op.getInputs().front())[dim] /
                  train::getShape(op.getOutputs().front())[dim];
  SmallVector<Value> blocks;
  SmallVector<Type> types;
  for (Value input : op.getInputs()) {
    Value pieces = cut(b, input, dim, ranks);
    SmallVector<int64_t> permutation =
        train::getDimRange(0, train::getTensorType(pieces).getRank());
    std::rotate(permutation.begin(), permutation.begin() + dim,
                permutation.begin() + dim + 1);
    blocks.push_back(b.transpose(pieces, permutation));
    SmallVector<int64_t> shape(train::getShape(blocks.back()));
    shape.front() = 1;
    types.push_back(RankedTensorType::get(shape, train::getElementType(input)));
  }
  auto scatter = dist::ReduceScatterOp::create(
      b.getBuilder(), b.getLoc(), types, op.getKind(), blocks,
      /*dim=*/uint64_t(0), op.getMesh(), op.getAxesAttr());
  SmallVector<Value> values;
  for (Value part : scatter.getOutputs())
    values.push_back(b.reshape(part, train::getShape(part).drop_front()));
  return values;
}

/// Every rank's value is gathered, and of each the block for this rank kept:
/// ranks times the bytes of a real exchange.
static SmallVector<Value> rewrite(TensorBuilder &b, dist::AllToAllOp op) {
  int64_t split = op.getSplitDim(), concat = op.getConcatDim();
  auto mesh =
      SymbolTable::lookupNearestSymbolFrom<dist::MeshOp>(op, op.getMeshAttr());
  int64_t ranks = mesh.getSize(op.getAxesAttr());
  Value all =
      gatherLeading(b, op.getInput(), ranks, op.getMeshAttr(), op.getAxesAttr())
          .front();
  Value mine =
      takeBlock(b, all, split + 1, ranks, op.getMeshAttr(), op.getAxesAttr());
  return {joinLeading(b, mine, concat)};
}

static SmallVector<Value> rewrite(TensorBuilder &b, dist::LocalSliceOp op) {
  int64_t dim = op.getDim(), ranks = train::getShape(op.getInput())[dim] /
                                     train::getShape(op.getOutput())[dim];
  return {takeBlock(b, op.getInput(), dim, ranks, op.getMeshAttr(),
                    op.getAxesAttr())};
}

void fuse::rewriteToLeadingForm(Operation *op) {
  OpBuilder builder(op);
  TensorBuilder b(builder, op->getLoc());
  SmallVector<Value> values =
      TypeSwitch<Operation *, SmallVector<Value>>(op)
          .Case<dist::LocalSliceOp, dist::AllToAllOp, dist::AllGatherOp,
                dist::ReduceScatterOp>([&](auto op) { return rewrite(b, op); });
  op->replaceAllUsesWith(values);
  op->erase();
}
