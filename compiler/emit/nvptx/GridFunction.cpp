//===- GridFunction.cpp - A generated kernel as a grid of threads ---------===//
#include "compiler/emit/nvptx/GridFunction.h"
#include "compiler/emit/loops/ScalarOps.h"
#include "dialects/plan/KernelModel.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::emit;
using IP = arith::CmpIPredicate;

//===----------------------------------------------------------------------===//
// The grid
//===----------------------------------------------------------------------===//

void GridFunction::setGrid(int64_t newBlocks, int64_t newThreads) {
  blocks = newBlocks;
  threads = newThreads;
  if (emitter.isPlanning())
    return;
  ScalarBuilder &b = emitter.scalars();
  Type i32 = b.builder.getI32Type();
  auto below = [&](int64_t size) {
    return LLVM::ConstantRangeAttr::get(b.builder.getContext(), APInt(32, 0),
                                        APInt(32, uint64_t(size)));
  };
  thread = emitter.toNumber(b.create<NVVM::ThreadIdXOp>(i32, below(threads)));
  block = emitter.toNumber(b.create<NVVM::BlockIdXOp>(i32, below(blocks)));
}

KernelShape GridFunction::forEachItem(int64_t count,
                                      llvm::function_ref<void(Value)> body) {
  // A small kernel needs no more than a warp.
  int64_t size =
      std::min<int64_t>(kBlockThreads, llvm::alignTo(count, kWarpSize));
  setGrid(llvm::divideCeil(count, size), size);
  Value item = addProduct(thread, block, size);
  if (count % size == 0)
    body(item);
  else
    emitter.branch(less(item, emitter.number(count)), [&] { body(item); });
  KernelShape shape;
  shape.workItems = count;
  shape.threads = shape.itemsPerBlock = size;
  return shape;
}

KernelShape GridFunction::getBlockShape() const {
  KernelShape shape;
  shape.workItems = blocks;
  shape.threads = threads;
  shape.sharedBytes = dynamicBytes;
  return shape;
}

Value GridFunction::addProduct(Value value, Value a, int64_t b) {
  if (emitter.isPlanning())
    return {};
  ScalarBuilder &s = emitter.scalars();
  auto noWrap = arith::IntegerOverflowFlags::nsw;
  Value product = s.create<arith::MulIOp>(a, emitter.number(b), noWrap);
  return s.create<arith::AddIOp>(value, product, noWrap);
}

Value GridFunction::divide(Value a, int64_t b) {
  if (emitter.isPlanning())
    return {};
  return emitter.scalars().create<arith::DivUIOp>(a, emitter.number(b));
}

Value GridFunction::remainder(Value a, int64_t b) {
  if (emitter.isPlanning())
    return {};
  return emitter.scalars().create<arith::RemUIOp>(a, emitter.number(b));
}

Value GridFunction::less(Value a, Value b) {
  if (emitter.isPlanning())
    return {};
  return emitter.scalars().compare(IP::slt, a, b);
}

//===----------------------------------------------------------------------===//
// Between threads
//===----------------------------------------------------------------------===//

void GridFunction::barrier() {
  if (emitter.isPlanning())
    return;
  ScalarBuilder &b = emitter.scalars();
  NVVM::BarrierOp::create(b.builder, b.loc);
}

void GridFunction::syncWarp() {
  if (emitter.isPlanning())
    return;
  ScalarBuilder &b = emitter.scalars();
  NVVM::SyncWarpOp::create(b.builder, b.loc,
                           b.integer(b.builder.getI32Type(), -1));
}

/// The hardware exchanges 32 bits; wider values go in two pieces, narrower ones
/// extended.
Value GridFunction::shuffle(Value value, int64_t offset, int64_t clamp,
                            int kind) {
  if (emitter.isPlanning())
    return {};
  ScalarBuilder &b = emitter.scalars();
  Type type = value.getType(), i32 = b.builder.getI32Type(),
       i64 = b.builder.getI64Type();
  if (type.isF64())
    return b.fromBits(shuffle(b.bits(value), offset, clamp, kind), type);
  if (type.isInteger(64)) {
    Value low = b.create<arith::TruncIOp>(i32, value),
          high = b.create<arith::TruncIOp>(
              i32, b.create<arith::ShRUIOp>(value, b.i64(32)));
    low = b.create<arith::ExtUIOp>(i64, shuffle(low, offset, clamp, kind));
    high = b.create<arith::ExtUIOp>(i64, shuffle(high, offset, clamp, kind));
    return b.either(low, b.shiftLeft(high, 32));
  }
  if (type.isInteger() && !type.isInteger(32)) {
    Value wide = b.create<arith::ExtUIOp>(i32, value);
    return b.create<arith::TruncIOp>(type, shuffle(wide, offset, clamp, kind));
  }
  return b.create<NVVM::ShflOp>(type, b.integer(i32, -1), value,
                                b.integer(i32, offset), b.integer(i32, clamp),
                                static_cast<NVVM::ShflKind>(kind), UnitAttr());
}

Value GridFunction::shuffleXor(Value value, int64_t mask) {
  return shuffle(value, mask, kWarpSize - 1, int(NVVM::ShflKind::bfly));
}

Value GridFunction::shuffleUp(Value value, int64_t delta) {
  return shuffle(value, delta, 0, int(NVVM::ShflKind::up));
}

Value GridFunction::broadcastLane(Value value, int64_t lane) {
  return shuffle(value, lane, kWarpSize - 1, int(NVVM::ShflKind::idx));
}

Value GridFunction::ballot(Value condition) {
  if (emitter.isPlanning())
    return {};
  ScalarBuilder &b = emitter.scalars();
  Type i32 = b.builder.getI32Type();
  return b.create<NVVM::VoteSyncOp>(i32, b.integer(i32, -1), condition,
                                    NVVM::VoteSyncKind::ballot);
}

GridFunction::Values GridFunction::reduceThreads(Values values, int64_t size,
                                                 Combine combine) {
  if (emitter.isPlanning())
    return values;
  assert(llvm::isPowerOf2_64(size) && (size <= kWarpSize || size == threads) &&
         "expected part of a warp or a whole block");
  auto reduceLanes = [&](int64_t lanes) {
    for (int64_t mask = lanes / 2; mask > 0; mask /= 2) {
      Values others;
      for (Value value : values)
        others.push_back(shuffleXor(value, mask));
      values = combine(values, others);
    }
  };
  reduceLanes(std::min(size, kWarpSize));
  if (size <= kWarpSize)
    return values;
  // One value per warp through shared memory, of which every warp then computes
  // the whole.
  int64_t warps = size / kWarpSize;
  Digit warp = emitter.makeDigit(divide(thread, kWarpSize), warps),
        source = emitter.makeDigit(remainder(thread, warps), warps);
  Value isFirst = emitter.scalars().compare(
      IP::eq, remainder(thread, kWarpSize), emitter.number(0));
  llvm::SmallVector<Buffer> partials;
  for (Value value : values)
    partials.push_back(sharedBuffer(value.getType(), warps));
  emitter.branch(isFirst, [&] {
    for (auto [value, partial] : llvm::zip(values, partials))
      emitter.store(partial, value, {warp});
  });
  barrier();
  for (auto [value, partial] : llvm::zip(values, partials))
    value = emitter.load(partial, {source});
  reduceLanes(warps);
  return values;
}

/// A pointer to memory of the block, declared in front of the function unless
/// it is there.
Value GridFunction::addSharedGlobal(llvm::StringRef suffix, Type type,
                                    bool isDynamic) {
  ScalarBuilder &s = emitter.scalars();
  OpBuilder &b = s.builder;
  constexpr unsigned kShared = 3;
  Operation *function = b.getInsertionBlock()->getParentOp();
  if (!isa<LLVM::LLVMFuncOp>(function))
    function = function->getParentOfType<LLVM::LLVMFuncOp>();
  auto name =
      b.getStringAttr(cast<LLVM::LLVMFuncOp>(function).getSymName() + suffix);
  if (!SymbolTable::lookupNearestSymbolFrom(function, name)) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(function);
    LLVM::GlobalOp::create(
        b, s.loc, type, /*isConstant=*/false,
        isDynamic ? LLVM::Linkage::External : LLVM::Linkage::Internal, name,
        Attribute(), /*alignment=*/kVectorBytes, kShared);
  }
  return s.create<LLVM::AddressOfOp>(
      LLVM::LLVMPointerType::get(b.getContext(), kShared), name);
}

Buffer GridFunction::sharedBuffer(Type element, int64_t count) {
  if (emitter.isPlanning())
    return {{}, element};
  std::string name = ".shared" + std::to_string(sharedBuffers++);
  Type type = LLVM::LLVMArrayType::get(getStorageType(element), count);
  return {addSharedGlobal(name, type, /*isDynamic=*/false), element};
}

Buffer GridFunction::dynamicSharedBuffer(Type element, int64_t count) {
  Type storage = getStorageType(element);
  int64_t offset = dynamicBytes;
  dynamicBytes +=
      llvm::alignTo(count * storage.getIntOrFloatBitWidth() / 8, kVectorBytes);
  if (emitter.isPlanning())
    return {{}, element};
  ScalarBuilder &s = emitter.scalars();
  Type byte = s.builder.getI8Type();
  Value begin = addSharedGlobal("$dynamic", LLVM::LLVMArrayType::get(byte, 0),
                                /*isDynamic=*/true);
  Value pointer =
      s.create<LLVM::GEPOp>(begin.getType(), byte, begin,
                            llvm::ArrayRef<LLVM::GEPArg>{int32_t(offset)});
  return {pointer, element};
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

ScalarModel emit::getScalarModel(plan::KernelOp kernel) {
  constexpr int64_t kMost = int64_t(1) << 30;
  bool small = true;
  auto look = [&](Type type) {
    small &= cast<RankedTensorType>(type).getNumElements() < kMost;
  };
  for (BlockArgument argument : kernel.getBlock().getArguments())
    look(argument.getType());
  for (Operation &op : kernel.getBlock())
    for (Type type : op.getResultTypes())
      look(type);
  ScalarModel model;
  model.indexWidth = small ? IndexWidth::I32 : IndexWidth::I64;
  model.hardware.approximatesF32 = model.hardware.roundsToBF16 = true;
  model.hardware.flushingExp2 = "llvm.nvvm.ex2.approx.ftz";
  return model;
}

void emit::markAsKernel(LLVM::LLVMFuncOp function, int64_t threads,
                        int64_t residentBlocks) {
  OpBuilder b(function);
  function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(),
                    b.getUnitAttr());
  function->setAttr(NVVM::NVVMDialect::getReqntidAttrName(),
                    b.getDenseI32ArrayAttr({int32_t(threads)}));
  if (residentBlocks)
    function->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                      b.getI32IntegerAttr(int32_t(residentBlocks)));
}

/// What LLVM may assume of the pointers: how they are aligned, and which
/// buffers no other overlaps while the kernel runs.
static void describePointers(LLVM::LLVMFuncOp function,
                             const GeneratedKernel &generated) {
  plan::KernelOp kernel = generated.kernel;
  OpBuilder b(function);
  unsigned arguments = kernel.getArgumentTypes().size(),
           results = kernel.getResultTypes().size();
  llvm::SmallVector<bool> shared(arguments + results, false);
  for (unsigned i = 0; i < arguments; ++i)
    for (unsigned k = 0; k < results; ++k)
      if (plan::canWriteOver(kernel, i, k))
        shared[i] = shared[arguments + k] = true;
  for (unsigned i = 0; i < arguments + results; ++i) {
    if (i < generated.alignments.size())
      function.setArgAttr(i, LLVM::LLVMDialect::getAlignAttrName(),
                          b.getI64IntegerAttr(generated.alignments[i]));
    if (shared[i])
      continue;
    function.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(),
                        b.getUnitAttr());
    if (i < arguments)
      function.setArgAttr(i, LLVM::LLVMDialect::getReadonlyAttrName(),
                          b.getUnitAttr());
  }
}

FailureOr<KernelShape> emit::buildGridFunction(const GeneratedKernel &generated,
                                               ModuleOp module,
                                               EmitThreads emitThreads) {
  plan::KernelOp kernel = generated.kernel;
  if (failed(checkOperations(kernel)))
    return failure();
  LoopShapes shapes;
  ScalarModel model = getScalarModel(kernel);
  if (failed(planLoops(kernel, shapes, model, [&](KernelFunction function) {
        GridFunction grid(function);
        return LogicalResult(emitThreads(grid));
      })))
    return failure();

  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  Location loc = kernel.getLoc();
  constexpr unsigned kGlobal = 1;
  Type pointer = LLVM::LLVMPointerType::get(b.getContext(), kGlobal);
  llvm::SmallVector<Type> pointers(kernel.getArgumentTypes().size() +
                                       kernel.getResultTypes().size(),
                                   pointer);
  auto function = LLVM::LLVMFuncOp::create(
      b, loc, generated.symbol,
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()),
                                  pointers));
  describePointers(function, generated);
  Block *entry = function.addEntryBlock(b);
  b.setInsertionPointToEnd(entry);
  // Everything is inserted before the return.
  b.setInsertionPoint(LLVM::ReturnOp::create(b, loc, ValueRange()));
  ElementEmitter emitter(&b, loc, shapes, model);
  GridFunction grid({kernel, emitter, {}});
  unsigned next = 0;
  for (BlockArgument argument : kernel.getBlock().getArguments())
    emitter.bind(argument, {entry->getArgument(next++),
                            getElementTypeOrSelf(argument.getType())});
  for (Type type : kernel.getResultTypes())
    grid.results.push_back(
        {entry->getArgument(next++), getElementTypeOrSelf(type)});
  FailureOr<KernelShape> shape = emitThreads(grid);
  if (succeeded(shape))
    markAsKernel(function, shape->threads, grid.residentBlocks);
  return shape;
}

FailureOr<KernelShape> emit::emitGridKernel(const GeneratedKernel &generated,
                                            ModuleOp module) {
  plan::KernelOp kernel = generated.kernel;
  switch (kernel.getKind()) {
  case plan::KernelKind::Loop:
    return buildGridFunction(generated, module, emitLoopThreads);
  case plan::KernelKind::Update:
    return emitUpdateGrid(generated, module);
  case plan::KernelKind::Scatter:
    return buildGridFunction(generated, module, emitScatterThreads);
  case plan::KernelKind::Scan:
    return buildGridFunction(generated, module, emitScanThreads);
  case plan::KernelKind::Window:
    return buildGridFunction(generated, module, emitWindowThreads);
  case plan::KernelKind::Sort:
    return buildGridFunction(generated, module, emitSortThreads);
  case plan::KernelKind::Convolution:
  case plan::KernelKind::ConvolutionInputGradient:
  case plan::KernelKind::ConvolutionFilterGradient:
    return buildGridFunction(generated, module, emitConvolutionThreads);
  default:
    return kernel.emitOpError("has no generated GPU code for its kind");
  }
}
