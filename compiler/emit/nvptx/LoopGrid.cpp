//===- LoopGrid.cpp - What the grids of loop kernels share ----------------===//
#include "compiler/emit/nvptx/LoopGrid.h"
#include "compiler/emit/loops/ScalarOps.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::emit;

int64_t emit::getLanes(const LoopAnalysis &domain, int64_t size) {
  int64_t bytes = 1;
  auto look = [&](Type type) {
    auto tensor = cast<RankedTensorType>(type);
    if (tensor.getNumElements() != domain.domainSize)
      return;
    Type storage = getStorageType(tensor.getElementType());
    bytes = std::max<int64_t>(bytes, storage.getIntOrFloatBitWidth() / 8);
  };
  plan::KernelOp kernel = domain.kernel;
  for (Type type : kernel.getArgumentTypes())
    look(type);
  for (Type type : kernel.getResultTypes())
    look(type);
  int64_t lanes = kVectorBytes / std::max<int64_t>(bytes, 2);
  while (size % lanes != 0)
    lanes /= 2;
  return lanes;
}

Index emit::getLaneIndex(ElementEmitter &e, Digit vector, int64_t lane,
                         int64_t lanes) {
  Index index;
  if (vector.size != 1)
    index.push_back(vector);
  if (lanes != 1)
    index.push_back(e.constantDigit(lane, lanes));
  return index;
}

/// The number of which `value` is a rounding to bf16; `value` where it is none.
static Value getUnrounded(Value value) {
  auto wide = value.getDefiningOp<arith::ExtFOp>();
  if (!wide)
    return value;
  Value narrow = wide.getIn();
  while (auto bits = narrow.getDefiningOp<arith::BitcastOp>())
    narrow = bits.getIn();
  auto rounded = narrow.getDefiningOp<arith::TruncFOp>();
  return rounded && rounded.getType().isBF16() ? rounded.getIn() : value;
}

/// Two numbers as they lie in memory, rounded by one instruction.
static std::array<Value, 2> roundPair(ScalarBuilder &b, Value x, Value y) {
  auto pair = [](Type type) { return VectorType::get({2}, type); };
  Type i32 = b.builder.getI32Type();
  Value both = b.create<LLVM::PoisonOp>(pair(b.builder.getF32Type()));
  for (auto [i, number] : llvm::enumerate(std::array{x, y}))
    both = b.create<LLVM::InsertElementOp>(both, getUnrounded(number),
                                           b.integer(i32, i));
  Value bits = b.create<arith::BitcastOp>(
      pair(b.builder.getI16Type()),
      b.create<arith::TruncFOp>(pair(b.builder.getBF16Type()), both));
  return {b.create<LLVM::ExtractElementOp>(bits, b.integer(i32, 0)),
          b.create<LLVM::ExtractElementOp>(bits, b.integer(i32, 1))};
}

void emit::storeElements(GridFunction &grid, const LoopAnalysis &domain,
                         llvm::ArrayRef<unsigned> which,
                         llvm::ArrayRef<Index> indices) {
  ElementEmitter &e = grid.emitter;
  struct Element {
    Index index;
    Value value;
  };
  llvm::SmallVector<llvm::SmallVector<Element>> ofResults(which.size());
  for (const Index &index : indices)
    for (auto [elements, i] : llvm::zip_equal(ofResults, which)) {
      Value result = domain.getResults()[i];
      Index place = domain.getResultIndex(e, result, index);
      elements.push_back({place, e.emit(result, place)});
    }
  // Each result's lanes in one piece, so that they become one vector: results
  // may overlap for all that LLVM knows, so it moves no store over another's.
  for (auto [elements, i] : llvm::zip_equal(ofResults, which)) {
    const Buffer &buffer = grid.results[i];
    llvm::ArrayRef<Element> left = elements;
    while (!e.isPlanning() && buffer.element.isBF16() && left.size() > 1) {
      auto pair = roundPair(e.scalars(), left[0].value, left[1].value);
      e.storeStored(buffer, pair[0], left[0].index);
      e.storeStored(buffer, pair[1], left[1].index);
      left = left.drop_front(2);
    }
    for (const Element &element : left)
      e.store(buffer, element.value, element.index);
  }
}

llvm::SmallVector<Index> emit::splitRuns(ElementEmitter &e,
                                         const LoopAnalysis &domain,
                                         bool reduced,
                                         llvm::ArrayRef<Digit> number) {
  llvm::SmallVector<int64_t> sizes;
  for (const Run &run : domain.runs)
    if (run.reduced == reduced)
      sizes.push_back(run.size);
  return e.splitGroups(number, sizes);
}

Index emit::joinRuns(const LoopAnalysis &domain, llvm::ArrayRef<Index> kept,
                     llvm::ArrayRef<Index> reduced) {
  Index index;
  for (const Run &run : domain.runs) {
    llvm::ArrayRef<Index> &from = run.reduced ? reduced : kept;
    index.append(from.front().begin(), from.front().end());
    from = from.drop_front();
  }
  return index;
}

void emit::emitOtherResults(GridFunction &grid, const LoopAnalysis &domain,
                            Value thread, int64_t count) {
  ElementEmitter &e = grid.emitter;
  for (unsigned i : domain.otherResults) {
    int64_t size = getNumElements(domain.getResults()[i]);
    e.loop(
        thread, e.number(size), {},
        [&](Value number, llvm::ArrayRef<Value>) {
          Index index;
          if (size != 1)
            index.push_back(e.makeDigit(number, size));
          storeResults(grid, {i}, [&](Value) { return index; });
          return GridFunction::Values();
        },
        /*parallel=*/true, e.number(count));
  }
}

FailureOr<KernelShape> emit::emitLoopThreads(GridFunction &grid) {
  LoopAnalysis domain(grid.kernel);
  switch (domain.form) {
  case LoopForm::Pointwise:
    return emitPointwiseGrid(grid, domain);
  case LoopForm::Rows:
    return emitRowGrid(grid, domain);
  case LoopForm::Columns:
    return emitColumnGrid(grid, domain);
  }
  llvm_unreachable("all forms are handled");
}
