//===- MmaKernel.cpp - GEMM kernels by mma.sync ---------------------------===//
#include "compiler/emit/nvptx/gemm/mma/MmaKernel.h"
#include "compiler/emit/nvptx/gemm/mma/MmaParts.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::gemm;

// Two warps along M, four along N: 64 by 32 each, of products of 16 by 8.
static constexpr int warpRows = 64, warpColumns = 32;
static constexpr int productsM = warpRows / 16, productsN = warpColumns / 8;

namespace {
struct MmaArguments {
  Value a, b, d, side, bias;
  Value m, n, k;
  Value leadingA, leadingB, leadingD;
  Value strideA, strideB, strideD;
};

class MmaKernel {
public:
  MmaKernel(KernelBuilder &b, const MmaConfig &config,
            const MmaArguments &arguments, Value sharedBase)
      : b(b), config(config), arguments(arguments), sharedBase(sharedBase) {}
  void emit();

private:
  void identify();
  Value getMatrix(Value pointer, Value stride, Type element);
  void copyStage(OperandTiles &a, OperandTiles &bTiles, Value k, Value stage);
  SmallVector<Value> runMainLoop(OperandTiles &a, OperandTiles &bTiles);
  void multiplyStage(OperandTiles &a, OperandTiles &bTiles, Value stage,
                     SmallVectorImpl<Value> &sums);
  void multiply(ArrayRef<Value> fragmentA, ArrayRef<Value> fragmentB,
                MutableArrayRef<Value> sums);
  void store(ArrayRef<Value> sums);
  Value getStage(Value index);

  KernelBuilder &b;
  const MmaConfig &config;
  MmaArguments arguments;
  Value sharedBase;
  Value thread, lane, warpM, warpN;
  Value tileRow, tileColumn, batch;
};
} // namespace

void MmaKernel::identify() {
  Type i32 = b.getI32Type();
  thread = NVVM::ThreadIdXOp::create(b, i32);
  lane = b.bitAnd(thread, 31);
  Value warp = b.shiftRight(thread, 5);
  warpM = b.bitAnd(warp, 1);
  warpN = b.shiftRight(warp, 1);
  tileRow = b.multiply(NVVM::BlockIdXOp::create(b, i32), mmaTile);
  tileColumn = b.multiply(NVVM::BlockIdYOp::create(b, i32), mmaTile);
  batch = NVVM::BlockIdZOp::create(b, i32);
}

/// The block's matrix of a batch.
Value MmaKernel::getMatrix(Value pointer, Value stride, Type element) {
  Value wide = LLVM::ZExtOp::create(b, b.getI64Type(), batch);
  return b.element(pointer, LLVM::MulOp::create(b, wide, stride), element);
}

Value MmaKernel::getStage(Value index) {
  return b.add(sharedBase, b.multiply(index, 2 * mmaOperandBytes));
}

void MmaKernel::copyStage(OperandTiles &a, OperandTiles &bTiles, Value k,
                          Value stage) {
  a.copy(k, stage);
  bTiles.copy(k, b.add(stage, mmaOperandBytes));
  NVVM::CpAsyncCommitGroupOp::create(b);
}

void MmaKernel::multiply(ArrayRef<Value> fragmentA, ArrayRef<Value> fragmentB,
                         MutableArrayRef<Value> sums) {
  Type f32 = b.getF32Type();
  auto four =
      LLVM::LLVMStructType::getLiteral(b.getContext(), {f32, f32, f32, f32});
  std::array<NVVM::MMATypes, 2> types{NVVM::MMATypes::bf16,
                                      NVVM::MMATypes::bf16};
  std::array<NVVM::MMALayout, 2> layouts{NVVM::MMALayout::row,
                                         NVVM::MMALayout::col};
  Value product = NVVM::MmaOp::create(
      b, four, fragmentA, fragmentB, sums, ArrayRef<int64_t>{16, 8, 16},
      /*b1Op=*/std::nullopt, /*intOverflow=*/std::nullopt, types, layouts);
  for (int i = 0; i < 4; ++i)
    sums[i] = b.extractField(product, i);
}

void MmaKernel::multiplyStage(OperandTiles &a, OperandTiles &bTiles,
                              Value stage, SmallVectorImpl<Value> &sums) {
  Value stageB = b.add(stage, mmaOperandBytes);
  Value rowA = b.multiply(warpM, warpRows),
        rowB = b.multiply(warpN, warpColumns);
  for (int k = 0; k < mmaTileK; k += 16) {
    SmallVector<SmallVector<Value>> columns;
    for (int n = 0; n < productsN; n += 2)
      columns.push_back(
          bTiles.loadFragment(stageB, b.add(rowB, 8 * n), k, /*isA=*/false));
    for (int m = 0; m < productsM; ++m) {
      SmallVector<Value> rows =
          a.loadFragment(stage, b.add(rowA, 16 * m), k, /*isA=*/true);
      for (int n = 0; n < productsN; ++n)
        multiply(
            rows, ArrayRef<Value>(columns[n / 2]).slice(n % 2 * 2, 2),
            MutableArrayRef<Value>(sums).slice(4 * (m * productsN + n), 4));
    }
  }
}

/// A ring of stages: while one is multiplied, the next ones are copied.
SmallVector<Value> MmaKernel::runMainLoop(OperandTiles &a,
                                          OperandTiles &bTiles) {
  for (int stage = 0; stage + 1 < mmaStages; ++stage)
    copyStage(a, bTiles, b.constant(stage * mmaTileK),
              getStage(b.constant(stage)));
  Value blocks = b.divide(b.add(arguments.k, mmaTileK - 1), mmaTileK);
  Value zero = b.constant(0);
  SmallVector<Value> initial(4 * productsM * productsN, b.constantF32(0));
  size_t count = initial.size();
  initial.append({zero, b.constant(mmaStages - 1)});
  auto next = [&](Value stage) {
    Value after = b.add(stage, 1);
    return b.select(b.equal(after, mmaStages), zero, after);
  };
  SmallVector<Value> results = b.loop(
      zero, blocks, b.constant(1), initial,
      [&](Value block, ValueRange carried) -> KernelBuilder::Values {
        // One group is committed for each block, also past the last one.
        NVVM::CpAsyncWaitGroupOp::create(b, mmaStages - 2);
        NVVM::BarrierOp::create(b);
        Value reads = carried[count], writes = carried[count + 1];
        Value ahead = b.add(block, mmaStages - 1);
        copyStage(a, bTiles, b.multiply(ahead, mmaTileK), getStage(writes));
        SmallVector<Value> sums(carried.take_front(count));
        multiplyStage(a, bTiles, getStage(reads), sums);
        sums.append({next(reads), next(writes)});
        return sums;
      });
  results.resize(count);
  return results;
}

void MmaKernel::store(ArrayRef<Value> sums) {
  bool isFloat32 = config.output != Output::BFloat16;
  Type i16 = b.getI16Type();
  MmaOutput output;
  output.d = getMatrix(arguments.d, arguments.strideD,
                       isFloat32 ? Type(b.getF32Type()) : Type(i16));
  if (config.side != Side::None)
    output.side = getMatrix(arguments.side, arguments.strideD, i16);
  output.bias = arguments.bias;
  output.leading = arguments.leadingD;
  output.rows = arguments.m;
  output.columns = arguments.n;
  output.firstRow = b.add(tileRow, b.multiply(warpM, warpRows));
  output.firstColumn = b.add(tileColumn, b.multiply(warpN, warpColumns));
  output.lane = lane;
  for (int m = 0; m < productsM; ++m)
    for (int n = 0; n < productsN; ++n)
      storeProduct(b, config, output, 16 * m, 8 * n,
                   sums.slice(4 * (m * productsN + n), 4));
}

void MmaKernel::emit() {
  identify();
  Type i16 = b.getI16Type();
  OperandTiles a(b,
                 {getMatrix(arguments.a, arguments.strideA, i16),
                  arguments.leadingA, arguments.m, arguments.k, tileRow,
                  config.a},
                 thread);
  OperandTiles bTiles(b,
                      {getMatrix(arguments.b, arguments.strideB, i16),
                       arguments.leadingB, arguments.n, arguments.k, tileColumn,
                       config.b},
                      thread);
  store(runMainLoop(a, bTiles));
  LLVM::ReturnOp::create(b, ValueRange());
}

static LLVM::LLVMFuncOp createFunction(KernelBuilder &b,
                                       llvm::StringRef symbol) {
  SmallVector<Type> types(5, b.globalPointer());
  types.append(3, b.getI32Type());
  types.append(6, b.getI64Type());
  auto function = LLVM::LLVMFuncOp::create(
      b, symbol,
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()),
                                  types));
  function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(),
                    b.getUnitAttr());
  function->setAttr(NVVM::NVVMDialect::getReqntidAttrName(),
                    b.getDenseI32ArrayAttr({mmaThreads}));
  return function;
}

LogicalResult gemm::buildMmaKernel(ModuleOp module, const MmaConfig &config,
                                   llvm::StringRef symbol) {
  std::string error = checkConfig(config);
  if (!error.empty())
    return module.emitError("GEMM kernel: ") << error;
  KernelBuilder b(module.getLoc(), module.getContext());
  b.setInsertionPointToEnd(module.getBody());
  std::string memory = KernelBuilder::declareSharedMemory(module, symbol, 128);
  Block *entry = createFunction(b, symbol).addEntryBlock(b);
  b.setInsertionPointToStart(entry);
  MmaArguments arguments;
  unsigned index = 0;
  for (Value *value :
       {&arguments.a, &arguments.b, &arguments.d, &arguments.side,
        &arguments.bias, &arguments.m, &arguments.n, &arguments.k,
        &arguments.leadingA, &arguments.leadingB, &arguments.leadingD,
        &arguments.strideA, &arguments.strideB, &arguments.strideD})
    *value = entry->getArgument(index++);
  MmaKernel(b, config, arguments, b.getSharedAddress(memory)).emit();
  return success();
}
