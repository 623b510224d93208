//===- BlockFrame.cpp - What the parts of a kernel share ------------------===//
#include "compiler/emit/nvptx/attention/BlockFrame.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::attention;

static constexpr llvm::StringLiteral sharedMemoryName = "shared_memory";

//===----------------------------------------------------------------------===//
// The function
//===----------------------------------------------------------------------===//

static DictionaryAttr getMapAttributes(OpBuilder &b) {
  auto bytes = LLVM::LLVMArrayType::get(b.getI8Type(), 128);
  return b.getDictionaryAttr(
      {b.getNamedAttr(LLVM::LLVMDialect::getByValAttrName(),
                      TypeAttr::get(bytes)),
       b.getNamedAttr(LLVM::LLVMDialect::getAlignAttrName(),
                      b.getI64IntegerAttr(64)),
       b.getNamedAttr(NVVM::NVVMDialect::getGridConstantAttrName(),
                      b.getUnitAttr())});
}

static DictionaryAttr getAttributes(OpBuilder &b, ArgumentKind kind) {
  if (kind == ArgumentKind::Map)
    return getMapAttributes(b);
  if (kind == ArgumentKind::ReadOnly)
    return b.getDictionaryAttr(b.getNamedAttr(
        LLVM::LLVMDialect::getNoAliasAttrName(), b.getUnitAttr()));
  return b.getDictionaryAttr({});
}

static Type getType(AttentionBuilder &b, ArgumentKind kind) {
  switch (kind) {
  case ArgumentKind::Map:
    return LLVM::LLVMPointerType::get(b.getContext());
  case ArgumentKind::ReadOnly:
  case ArgumentKind::Memory:
    return b.globalPointer();
  case ArgumentKind::Number:
    return b.getI32Type();
  case ArgumentKind::Wide:
    return b.getI64Type();
  case ArgumentKind::Scalar:
    return b.getF32Type();
  }
  llvm_unreachable("an argument of no kind");
}

void attention::createKernel(AttentionBuilder &b, ModuleOp module,
                             llvm::StringRef symbol,
                             ArrayRef<KernelArgument> arguments, int threads) {
  MLIRContext *context = b.getContext();
  b.setInsertionPointToEnd(module.getBody());
  auto bytes = LLVM::LLVMArrayType::get(b.getI8Type(), 0);
  LLVM::GlobalOp::create(b, bytes, /*isConstant=*/false,
                         LLVM::Linkage::External, sharedMemoryName, Attribute(),
                         /*alignment=*/1024, /*addrSpace=*/3);
  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attributes;
  for (const KernelArgument &argument : arguments) {
    types.push_back(getType(b, argument.kind));
    attributes.push_back(getAttributes(b, argument.kind));
  }
  auto type =
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context), types);
  auto function = LLVM::LLVMFuncOp::create(
      b, symbol, type, LLVM::Linkage::External, /*dsoLocal=*/false,
      LLVM::CConv::C, SymbolRefAttr(), ArrayRef<NamedAttribute>(), attributes);
  function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(),
                    b.getUnitAttr());
  // Without a register count at entry ptxas ignores setmaxnreg (C7508).
  function->setAttr(NVVM::NVVMDialect::getReqntidAttrName(),
                    b.getDenseI32ArrayAttr({threads}));
  function->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                    b.getI32IntegerAttr(1));
  Block *entry = function.addEntryBlock(b);
  b.setInsertionPointToStart(entry);
  for (auto [argument, value] : llvm::zip(arguments, entry->getArguments()))
    *argument.value = value;
}

//===----------------------------------------------------------------------===//
// The block
//===----------------------------------------------------------------------===//

Position attention::advance(AttentionBuilder &b, Position at, int stages) {
  if (stages == 1)
    return {b.constant(0), b.bitXor(at.parity, 1)};
  if (stages == 2)
    return {b.bitXor(at.stage, 1), b.bitXor(at.parity, at.stage)};
  Value next = b.add(at.stage, 1);
  Value wraps = b.equal(next, stages);
  return {b.select(wraps, b.constant(0), next),
          b.select(wraps, b.bitXor(at.parity, 1), at.parity)};
}

BlockFrame::BlockFrame(AttentionBuilder &b, int barrierOffset)
    : b(b), nextBarrier(barrierOffset) {
  Type i32 = b.getI32Type();
  thread = NVVM::ThreadIdXOp::create(b, i32);
  lane = b.bitAnd(thread, 31);
  // The shuffle tells ptxas that the warp's index is the same in all lanes.
  warp = b.fromLane(b.shiftRight(thread, 5), b.constant(0));
  warpgroup = b.shiftRight(warp, 2);
  auto memory =
      LLVM::AddressOfOp::create(b, b.sharedPointer(), sharedMemoryName);
  sharedBase = LLVM::PtrToIntOp::create(b, i32, memory);
}

void BlockFrame::findItems(Value bounds) {
  Type i32 = b.getI32Type();
  Value block = NVVM::BlockIdXOp::create(b, i32);
  Value pointer = b.element(bounds, block, i32);
  begin = b.load(pointer, i32, 4, /*invariant=*/true);
  end = b.load(b.element(pointer, 1, i32), i32, 4, /*invariant=*/true);
}

Values BlockFrame::loadItem(Value table, Value index) {
  Value pointer =
      b.element(table, index, LLVM::LLVMArrayType::get(b.getI32Type(), 8));
  Values numbers;
  for (int half = 0; half < 2; ++half) {
    Value four = b.load(b.element(pointer, 4 * half, b.getI32Type()),
                        VectorType::get(4, b.getI32Type()), 16,
                        /*invariant=*/true);
    for (int i = 0; i < 4; ++i)
      numbers.push_back(b.extractElement(four, i));
  }
  return numbers;
}

QueryWork::QueryWork(ValueRange numbers)
    : row(numbers[0]), head(numbers[1]), keyHead(numbers[2]), batch(numbers[3]),
      firstBlock(numbers[4]), blocks(numbers[5]) {}

Values QueryWork::load(BlockFrame &frame, Value table, Value index) {
  Values numbers = frame.loadItem(table, index);
  numbers.resize(6);
  return numbers;
}

Values QueryWork::loadNext(BlockFrame &frame, Value table, Value index) {
  AttentionBuilder &b = frame.b;
  Value last = b.subtract(frame.end, b.constant(1));
  return load(frame, table, b.minimum(b.add(index, 1), last));
}

Value QueryWork::getFirstKey(AttentionBuilder &b, Value j, int keyBlock) const {
  Value last = b.subtract(b.add(firstBlock, blocks), b.constant(1));
  return b.shiftLeft(b.subtract(last, j), llvm::Log2_32(keyBlock));
}

Value BlockFrame::addBarriers(int count, int arrivals) {
  Value first = b.add(sharedBase, nextBarrier);
  nextBarrier += 8 * count;
  barriers.push_back({first, count, arrivals});
  return first;
}

void BlockFrame::initializeBarriers() {
  b.ifThen(b.equal(thread, int64_t(0)), [&] {
    for (const Barriers &each : barriers)
      for (int i = 0; i < each.count; ++i)
        NVVM::MBarrierInitOp::create(b, b.shared(b.add(each.first, 8 * i)),
                                     b.constant(each.arrivals), Value());
    NVVM::FenceMbarrierInitOp::create(b);
  });
  NVVM::BarrierOp::create(b);
}

void BlockFrame::emitRoles(int consumers, llvm::function_ref<void()> producer,
                           llvm::function_ref<void()> consumer) {
  auto setRegisters = [&](int registers, NVVM::SetMaxRegisterAction action) {
    NVVM::SetMaxRegisterOp::create(b, registers, action);
  };
  b.ifThenElse(
      b.equal(warpgroup, int64_t(0)), {},
      [&]() -> Values {
        setRegisters(consumers == 2 ? 24 : 32,
                     NVVM::SetMaxRegisterAction::decrease);
        producer();
        return {};
      },
      [&]() -> Values {
        setRegisters(consumers == 2 ? 240 : 160,
                     NVVM::SetMaxRegisterAction::increase);
        consumer();
        return {};
      });
  LLVM::ReturnOp::create(b, ValueRange());
}

void BlockFrame::inOneThread(int producerWarp,
                             llvm::function_ref<void()> body) {
  Value elected = NVVM::ElectSyncOp::create(b, b.getI1Type(), Value());
  b.ifThen(b.both(b.equal(warp, producerWarp), elected), body);
}

Value BlockFrame::getMatrixAddress(int offset) {
  Value base = b.bitAnd(b.shiftRight(sharedBase, 4), 0x3FFF);
  return b.add(base, offset >> 4);
}

//===----------------------------------------------------------------------===//
// Rings
//===----------------------------------------------------------------------===//

Ring::Ring(BlockFrame &frame, int offset, int bytes, int stages, int readers)
    : frame(frame), b(frame.b), offset(offset), bytes(bytes), stages(stages),
      full(frame.addBarriers(stages, 1)) {
  if (readers)
    empty = frame.addBarriers(stages, readers);
}

Value Ring::getAddress(Value stage) {
  return b.add(b.add(frame.sharedBase, offset), b.multiply(stage, bytes));
}
Matrix Ring::getMatrix(Value stage, int rows, Value firstRow) {
  Value address = frame.getMatrixAddress(offset);
  if (firstRow)
    address = b.add(address, b.shiftLeft(firstRow, 3));
  return {b.add(address, b.multiply(stage, bytes >> 4)), rows};
}
Value Ring::getFull(Value stage) { return b.add(full, b.shiftLeft(stage, 3)); }
Value Ring::getEmpty(Value stage) {
  return b.add(empty, b.shiftLeft(stage, 3));
}
void Ring::waitUntilFull(Position at) {
  b.waitForPhase(getFull(at.stage), at.parity);
}
void Ring::waitUntilEmpty(Position at) {
  b.waitForPhase(getEmpty(at.stage), b.bitXor(at.parity, 1));
}
Position Ring::advance(Position at) {
  return attention::advance(b, at, stages);
}

//===----------------------------------------------------------------------===//
// Consumers
//===----------------------------------------------------------------------===//

Consumer::Consumer(BlockFrame &frame, bool sharesRows) {
  AttentionBuilder &b = frame.b;
  index = b.subtract(frame.warpgroup, b.constant(1));
  rowGroup = sharesRows ? b.constant(0) : index;
  columnGroup = sharesRows ? index : b.constant(0);
  firstRow = b.shiftLeft(rowGroup, 6);
  thread = b.bitAnd(frame.thread, 127);
  warp = b.bitAnd(frame.warp, 3);
  isLead = b.equal(thread, int64_t(0));
  isWarpLead = b.equal(frame.lane, int64_t(0));
  Value warpRow = b.shiftLeft(warp, 4);
  row = b.add(b.add(firstRow, warpRow), b.shiftRight(frame.lane, 2));
  column = b.shiftLeft(b.bitAnd(frame.lane, 3), 1);
  // stmatrix: lane l gives the address of row l % 8 of the matrix l / 8, two
  // below each other, two beside; 16-byte places are exchanged by the row.
  Value low = b.bitAnd(frame.lane, 7);
  Value below = b.bitAnd(b.shiftRight(frame.lane, 3), 1);
  Value matrixRow = b.add(b.add(low, b.shiftLeft(below, 3)), warpRow);
  Value place = b.bitXor(b.shiftRight(frame.lane, 4), low);
  matrixOffset = b.add(b.shiftLeft(matrixRow, 7), b.shiftLeft(place, 4));
}

void attention::synchronizeGroup(BlockFrame &frame, const Consumer &self) {
  frame.b.barrier(frame.b.add(self.index, firstGroupBarrier), 128);
}
void attention::synchronizePair(BlockFrame &frame) {
  frame.b.barrier(frame.b.constant(pairBarrier), 256);
}
void attention::arriveOnce(BlockFrame &frame, const Consumer &self,
                           Value barrier) {
  frame.b.ifThen(self.isLead, [&] { frame.b.arrive(barrier); });
}
void attention::arriveOfWarp(BlockFrame &frame, const Consumer &self,
                             Value barrier) {
  frame.b.ifThen(self.isWarpLead, [&] { frame.b.arrive(barrier); });
}

void attention::stageRows(BlockFrame &frame, Value target, int chunkBytes,
                          Value offset, ArrayRef<Value> packed) {
  AttentionBuilder &b = frame.b;
  // 16 values are 64 columns, 4 of them 16 columns.
  for (size_t i = 0; i < packed.size(); i += 4) {
    Value chunk = b.add(target, int64_t(i) / 16 * chunkBytes);
    Value place = b.bitXor(offset, int64_t(i) % 16 * 8);
    b.storeMatrices(b.add(chunk, place), packed.slice(i, 4));
  }
}

void attention::copyRows(BlockFrame &frame, Value map, Value target, int rows,
                         int headDim, ValueRange coordinates, Value barrier) {
  AttentionBuilder &b = frame.b;
  for (int chunk = 0; chunk < headDim / 64; ++chunk) {
    Values all{b.constant(64 * chunk)};
    all.append(coordinates.begin(), coordinates.end());
    b.copyBox(map, b.add(target, chunk * rows * 128), all, barrier);
  }
}

RowStore::RowStore(BlockFrame &frame, const Consumer &self, int offset,
                   int stagedColumns)
    : frame(frame), self(self), stagedColumns(stagedColumns),
      buffer(
          frame.b.add(frame.b.add(frame.sharedBase, offset),
                      frame.b.multiply(self.index, 64 * stagedColumns * 2))) {}

void RowStore::store(Value map, ArrayRef<Value> sums, ValueRange coordinates) {
  AttentionBuilder &b = frame.b;
  Value firstColumn = b.multiply(self.columnGroup, 2 * sums.size());
  for (size_t column = 0; column < 2 * sums.size(); column += stagedColumns)
    storeStaged(map, sums.slice(column / 2, stagedColumns / 2),
                b.add(firstColumn, column), coordinates);
}

void RowStore::storeStaged(Value map, ArrayRef<Value> sums, Value firstColumn,
                           ValueRange coordinates) {
  AttentionBuilder &b = frame.b;
  // Before others write to the buffer it has been read.
  b.ifThen(self.isLead, [&] { b.waitForReads(0); });
  synchronizeGroup(frame, self);
  stageRows(frame, buffer, 64 * 128, self.matrixOffset, b.packSums(sums));
  b.fenceSharedStores();
  synchronizeGroup(frame, self);
  b.ifThen(self.isLead, [&] {
    for (size_t chunk = 0; chunk < sums.size() / 32; ++chunk) {
      Values all{b.add(firstColumn, 64 * chunk)};
      all.append(coordinates.begin(), coordinates.end());
      b.storeBox(map, b.add(buffer, chunk * 64 * 128), all);
    }
    b.commitCopies();
  });
}

void RowStore::finish() {
  frame.b.ifThen(self.isLead, [&] { frame.b.waitForWrites(0); });
}
