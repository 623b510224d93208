//===- UpdateGrid.cpp - Multi-tensor updates in one launch ----------------===//
//
// `name(table, chunks)`: table has, per segment, the pointers of its arguments
// and results; chunks says which elements of which segment a block does:
//   { u32 segment; u32 zero; i64 begin; i64 end }
// begin is a multiple of the items of a block. A thread takes vectors of
// neighbouring elements; the last elements of a segment one by one.
//
//===----------------------------------------------------------------------===//
#include "compiler/emit/loops/ScalarOps.h"
#include "compiler/emit/nvptx/GridFunction.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::emit;

/// Vectors of elements that a thread takes: more of them leave too few blocks
/// under way, fewer spend too much on reading tables and scalars (measured).
static constexpr int64_t kVectorsPerThread = 4;
static constexpr int64_t kChunkBytes = 24, kBeginAt = 8, kEndAt = 16;

static int64_t getUpdateLanes(plan::KernelOp kernel) {
  int64_t bytes = 2;
  auto look = [&](Type type) {
    auto tensor = cast<RankedTensorType>(type);
    Type storage = getStorageType(tensor.getElementType());
    if (tensor.getRank() != 0)
      bytes = std::max<int64_t>(bytes, storage.getIntOrFloatBitWidth() / 8);
  };
  for (Type type : kernel.getArgumentTypes())
    look(type);
  for (Type type : kernel.getResultTypes())
    look(type);
  return kVectorBytes / bytes;
}

/// The elements [begin, end) of the block's segment.
static void emitChunk(GridFunction &grid, int64_t lanes, Value begin,
                      Value end) {
  ElementEmitter &e = grid.emitter;
  ScalarBuilder &b = e.scalars();
  auto results = grid.kernel.getBlock().getTerminator()->getOperands();
  auto update = [&](llvm::ArrayRef<Index> indices) {
    llvm::SmallVector<Value> elements;
    for (const Index &index : indices)
      for (Value result : results)
        elements.push_back(e.emit(result, index));
    // Neighbours one after the other: between stores to other tensors, which
    // might overlap for all that LLVM knows, they would not become wide ones.
    for (auto [i, buffer] : llvm::enumerate(grid.results))
      for (auto [k, index] : llvm::enumerate(indices))
        e.store(buffer, elements[k * grid.results.size() + i], index);
  };
  auto vectorAt = [&](Value i, llvm::SmallVectorImpl<Index> &indices) {
    Digit vector = e.makeDigit(i, kUpdateSize / lanes);
    for (int64_t lane = 0; lane < lanes; ++lane)
      indices.push_back({vector, e.constantDigit(lane, lanes)});
  };
  Value step = e.number(grid.threads), twoSteps = e.number(2 * grid.threads);
  Value firstVector = b.addInt(grid.divide(begin, lanes), grid.thread),
        lastVector = grid.divide(end, lanes);
  auto none = [](llvm::ArrayRef<Value>) { return GridFunction::Values(); };
  // Two vectors at a time, whose loads overlap, then what is left.
  GridFunction::Values next = e.loop(
      firstVector, b.subInt(lastVector, step), {firstVector},
      [&](Value i, llvm::ArrayRef<Value>) -> GridFunction::Values {
        llvm::SmallVector<Index> indices;
        vectorAt(i, indices);
        vectorAt(b.addInt(i, step), indices);
        update(indices);
        return {b.addInt(i, twoSteps)};
      },
      /*parallel=*/true, twoSteps);
  e.loop(
      next[0], lastVector, {},
      [&](Value i, llvm::ArrayRef<Value> carried) {
        llvm::SmallVector<Index> indices;
        vectorAt(i, indices);
        update(indices);
        return none(carried);
      },
      /*parallel=*/true, step);
  e.loop(
      grid.addProduct(grid.thread, lastVector, lanes), end, {},
      [&](Value i, llvm::ArrayRef<Value> carried) {
        update({Index{e.makeDigit(i, kUpdateSize)}});
        return none(carried);
      },
      /*parallel=*/true, step);
}

/// Binds arguments and results to the pointers of segment `segment` in `table`.
static void bindSegment(GridFunction &grid, const GeneratedKernel &generated,
                        Value table, Value segment) {
  ScalarBuilder &b = grid.emitter.scalars();
  plan::KernelOp kernel = grid.kernel;
  Type pointer = table.getType();
  unsigned operands =
      kernel.getArgumentTypes().size() + kernel.getResultTypes().size();
  Value row = b.create<arith::MulIOp>(segment, b.i64(operands));
  unsigned next = 0;
  auto nextBuffer = [&](Type tensor) -> Buffer {
    Value address = b.create<LLVM::GEPOp>(
        pointer, pointer, table,
        llvm::ArrayRef<LLVM::GEPArg>{b.addInt(row, b.i64(next))});
    Value loaded = b.create<LLVM::LoadOp>(pointer, address);
    if (next < generated.alignments.size())
      LLVM::AssumeOp::create(
          b.builder, b.loc, b.integer(b.builder.getI1Type(), 1),
          LLVM::AssumeAlignTag(), loaded, b.i64(generated.alignments[next]));
    ++next;
    return {loaded, getElementTypeOrSelf(tensor)};
  };
  for (BlockArgument argument : kernel.getBlock().getArguments())
    grid.emitter.bind(argument, nextBuffer(argument.getType()));
  for (Type type : kernel.getResultTypes())
    grid.results.push_back(nextBuffer(type));
}

static KernelShape buildUpdate(plan::KernelOp kernel,
                               const GeneratedKernel &generated,
                               ModuleOp module) {
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  Location loc = kernel.getLoc();
  constexpr unsigned kGlobal = 1;
  Type pointer = LLVM::LLVMPointerType::get(b.getContext(), kGlobal);
  auto function = LLVM::LLVMFuncOp::create(
      b, loc, generated.symbol,
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()),
                                  {pointer, pointer}));
  Block *entry = function.addEntryBlock(b);
  b.setInsertionPointToEnd(entry);
  b.setInsertionPoint(LLVM::ReturnOp::create(b, loc, ValueRange()));
  LoopShapes shapes;
  ScalarModel model = getScalarModel(kernel);
  model.hardware.prefersApproximations = true;
  ElementEmitter emitter(&b, loc, shapes, model);
  GridFunction grid({kernel, emitter, {}});
  // The number of blocks is the runtime's.
  grid.setGrid(int64_t(1) << 31, kBlockThreads);
  ScalarBuilder &s = emitter.scalars();
  Value chunk = s.create<LLVM::GEPOp>(
      pointer, b.getI8Type(), entry->getArgument(1),
      llvm::ArrayRef<LLVM::GEPArg>{
          s.create<arith::MulIOp>(grid.block, s.i64(kChunkBytes))});
  auto read = [&](Type type, int64_t at) {
    Value address =
        s.create<LLVM::GEPOp>(pointer, b.getI8Type(), chunk,
                              llvm::ArrayRef<LLVM::GEPArg>{int32_t(at)});
    return s.create<LLVM::LoadOp>(type, address);
  };
  Value segment =
      s.create<arith::ExtUIOp>(b.getI64Type(), read(b.getI32Type(), 0));
  bindSegment(grid, generated, entry->getArgument(0), segment);
  int64_t lanes = getUpdateLanes(kernel);
  emitChunk(grid, lanes, read(b.getI64Type(), kBeginAt),
            read(b.getI64Type(), kEndAt));
  markAsKernel(function, grid.threads);
  KernelShape shape;
  shape.workItems = 0;
  shape.threads = grid.threads;
  shape.itemsPerBlock = grid.threads * lanes * kVectorsPerThread;
  shape.segmented = true;
  return shape;
}

FailureOr<KernelShape> emit::emitUpdateGrid(const GeneratedKernel &generated,
                                            ModuleOp module) {
  plan::KernelOp kernel = generated.kernel;
  if (failed(checkOperations(kernel)))
    return failure();
  plan::KernelOp copy = kernel.clone();
  widenUpdate(copy);
  KernelShape shape = buildUpdate(copy, generated, module);
  copy->erase();
  return shape;
}
