//===- ScatterKernel.cpp - Updates at computed positions ------------------===//
//
// A work item is a part of the result that no other item's updates reach: fixed
// batch and other (not indexed) dimensions, the last of these in blocks where
// it is contiguous. Within it updates are applied in their order, so that the
// result does not depend on threads.
//
//===----------------------------------------------------------------------===//
#include "compiler/emit/loops/ScalarOps.h"
#include "compiler/emit/loops/ScatterUpdates.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::emit;
using IP = arith::CmpIPredicate;

Value emit::combineUpdate(ScalarBuilder &b, train::ScatterOp op, Value old,
                          Value update) {
  Type element = op.getType().getElementType();
  auto reduced = [&](train::ReduceKind kind) {
    return roundTo(b, combine(b, kind, old, update, element, false), element);
  };
  switch (op.getKind()) {
  case train::ScatterKind::Add:
    return reduced(train::ReduceKind::Sum);
  case train::ScatterKind::Replace:
    return update;
  case train::ScatterKind::Max:
    return reduced(train::ReduceKind::Max);
  case train::ScatterKind::Min:
    return reduced(train::ReduceKind::Min);
  case train::ScatterKind::Multiply:
    return reduced(train::ReduceKind::Product);
  }
  llvm_unreachable("all kinds are handled");
}

Value emit::liesApart(ElementEmitter &e, Value operand, Buffer result) {
  if (e.isPlanning() || !isa<BlockArgument>(operand))
    return {};
  ScalarBuilder &b = e.scalars();
  auto address = [&](Value pointer) {
    return b.create<LLVM::PtrToIntOp>(b.builder.getI64Type(), pointer);
  };
  return b.compare(IP::ne, address(result.pointer),
                   address(e.bufferOf(operand).pointer));
}

namespace {

class ScatterKernel {
public:
  ScatterKernel(HostFunction &function, train::ScatterOp op)
      : function(function), e(function.emitter), op(op), type(op.getType()) {}
  KernelShape run();

private:
  bool isIndexed(int64_t dim) { return llvm::is_contained(op.getDims(), dim); }
  void emitItem(Value item);
  void emitBase();
  void emitUpdate(Digit position);
  void forBlock(llvm::function_ref<void()> body);
  /// The index of the result with `indexed` at the indexed dimensions.
  Index resultIndex(llvm::ArrayRef<Digit> indexed);

  HostFunction &function;
  ElementEmitter &e;
  train::ScatterOp op;
  RankedTensorType type;
  int64_t block = 1, blocks = 1;
  bool blocked = false; ///< the last dimension is not indexed
  llvm::SmallVector<Digit>
      fixed; ///< per dimension of the result; unused for indexed ones
  Value blockStart, blockCount;
};

} // namespace

KernelShape ScatterKernel::run() {
  int64_t rank = type.getRank(), count = 1;
  blocked = rank > 0 && rank - 1 >= int64_t(op.getBatchDims()) &&
            !isIndexed(rank - 1);
  for (int64_t dim = 0; dim < rank; ++dim)
    if (!isIndexed(dim) && !(blocked && dim == rank - 1))
      count *= type.getDimSize(dim);
  if (blocked) {
    int64_t size = type.getDimSize(rank - 1);
    block = std::min(
        size, std::clamp<int64_t>(llvm::alignTo(llvm::divideCeil(size, 16), 64),
                                  64, 1024));
    blocks = llvm::divideCeil(size, block);
    count *= blocks;
  }
  function.forEachItem(count, [&](Value item) { emitItem(item); });
  return {count, 1};
}

void ScatterKernel::emitItem(Value item) {
  bool planning = e.isPlanning();
  Value left = item;
  auto take = [&](int64_t size) -> Value {
    if (planning)
      return {};
    ScalarBuilder &b = e.scalars();
    Value low = b.create<arith::RemUIOp>(left, b.i64(size));
    left = b.create<arith::DivUIOp>(left, b.i64(size));
    return low;
  };
  int64_t rank = type.getRank();
  fixed.assign(rank, Digit());
  if (blocked) {
    Value number = take(blocks);
    if (!planning) {
      ScalarBuilder &b = e.scalars();
      blockStart = b.create<arith::MulIOp>(number, b.i64(block),
                                           arith::IntegerOverflowFlags::nsw);
      blockCount = b.create<arith::MinSIOp>(
          b.subInt(b.i64(type.getDimSize(rank - 1)), blockStart), b.i64(block));
    }
  }
  for (int64_t dim = rank - (blocked ? 2 : 1); dim >= 0; --dim)
    if (!isIndexed(dim))
      fixed[dim] =
          e.makeDigit(take(type.getDimSize(dim)), type.getDimSize(dim));
  emitBase();
  int64_t positions = 1;
  if (!op.getIndices().empty())
    for (int64_t size :
         cast<RankedTensorType>(op.getIndices().front().getType())
             .getShape()
             .drop_front(op.getBatchDims()))
      positions *= size;
  Value zero, end;
  if (!planning)
    zero = e.scalars().i64(0), end = e.scalars().i64(positions);
  e.loop(
      zero, end, [&](Value i) { emitUpdate(e.makeDigit(i, positions)); },
      /*parallel=*/false);
}

void ScatterKernel::forBlock(llvm::function_ref<void()> body) {
  if (!blocked)
    return body();
  Value zero;
  if (!e.isPlanning())
    zero = e.scalars().i64(0);
  e.loop(zero, blockCount, [&](Value i) {
    Value column = i;
    if (!e.isPlanning())
      column = e.scalars().create<arith::AddIOp>(
          blockStart, i, arith::IntegerOverflowFlags::nsw);
    fixed.back() = e.makeDigit(column, type.getShape().back());
    body();
  });
}

Index ScatterKernel::resultIndex(llvm::ArrayRef<Digit> indexed) {
  Index index;
  size_t next = 0;
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    const Digit &digit = isIndexed(dim) ? indexed[next++] : fixed[dim];
    if (type.getDimSize(dim) != 1)
      index.push_back(digit);
  }
  return index;
}

void ScatterKernel::emitBase() {
  llvm::SmallVector<Digit> indexed;
  auto copy = [&] {
    std::function<void(size_t)> nest = [&](size_t k) {
      if (k == op.getDims().size())
        return forBlock([&] {
          Index index = resultIndex(indexed);
          e.store(function.results[0], e.emit(op.getOperand(), index), index);
        });
      int64_t size = type.getDimSize(op.getDims()[k]);
      Value zero, end;
      if (!e.isPlanning())
        zero = e.scalars().i64(0), end = e.scalars().i64(size);
      e.loop(zero, end, [&](Value i) {
        indexed.push_back(e.makeDigit(i, size));
        nest(k + 1);
        indexed.pop_back();
      });
    };
    nest(0);
  };
  // In place, the base is there already.
  Value apart = liesApart(e, op.getOperand(), function.results[0]);
  apart ? e.branch(apart, copy) : copy();
}

void ScatterKernel::emitUpdate(Digit position) {
  bool planning = e.isPlanning();
  Index place; // Of the index tensors: batch, position.
  for (int64_t dim = 0; dim < int64_t(op.getBatchDims()); ++dim)
    if (type.getDimSize(dim) != 1)
      place.push_back(fixed[dim]);
  if (position.size != 1)
    place.push_back(position);
  llvm::SmallVector<Digit> indexed;
  Value inside;
  for (auto [indices, dim] : llvm::zip(op.getIndices(), op.getDims())) {
    Value number = e.emit(indices, place);
    int64_t size = type.getDimSize(dim);
    if (!planning) {
      ScalarBuilder &b = e.scalars();
      number = convertScalar(b, number, getElementTypeOrSelf(indices.getType()),
                             b.builder.getI64Type());
      Value here = b.compare(IP::ult, number, b.i64(size));
      inside = inside ? b.both(inside, here) : here;
    }
    indexed.push_back(e.makeDigit(number, size));
  }
  auto apply = [&] {
    forBlock([&] {
      Index updateIndex = place;
      for (int64_t dim = op.getBatchDims(); dim < type.getRank(); ++dim)
        if (!isIndexed(dim) && type.getDimSize(dim) != 1)
          updateIndex.push_back(fixed[dim]);
      Value update = e.emit(op.getUpdates(), updateIndex);
      Index index = resultIndex(indexed);
      Value old = e.load(function.results[0], index);
      e.store(function.results[0],
              planning ? Value() : combineUpdate(e.scalars(), op, old, update),
              index);
    });
  };
  if (op.getIndices().empty())
    return apply();
  e.branch(inside, apply);
}

FailureOr<KernelShape> emit::emitScatterItems(HostFunction &function) {
  auto op = cast<train::ScatterOp>(function.kernel.getAnchor());
  auto results = function.kernel.getBlock().getTerminator()->getOperands();
  if (results.size() != 1 || results[0] != op.getResult())
    return function.kernel.emitOpError(
        "must return its scatter and nothing else");
  return ScatterKernel(function, op).run();
}
