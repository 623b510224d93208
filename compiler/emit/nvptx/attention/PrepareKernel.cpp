//===- PrepareKernel.cpp - What backward reads of each query --------------===//
//
// One pass over out and dout: the sum over each row of their products, minus
// lse in base 2, and zeros where dq will be added up. Bound by memory.
//
//===----------------------------------------------------------------------===//
#include "compiler/emit/nvptx/attention/AttentionKernels.h"
#include "compiler/emit/nvptx/attention/RowTensors.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::attention;

namespace {
/// The kernel's arguments, in order.
struct PrepareArguments {
  RowTensor output, outputGradient;
  Value lse, logSum, rowSum, querySums;
  Value rows, queries, paddedRows, queryHeads, headDim;
};
} // namespace

/// Eight of a row's sums of dq.
static void clearSums(AttentionBuilder &b, Value querySums, Value row,
                      Value column, int headDim) {
  Value index = LLVM::MulOp::create(b, b.extend(row), b.constant64(headDim));
  index = LLVM::AddOp::create(b, index, b.extend(column));
  Value pointer = b.element(querySums, index, b.getF32Type());
  auto four = VectorType::get(4, b.getI32Type());
  Value zeros = LLVM::ZeroOp::create(b, four);
  b.store(zeros, pointer, 16);
  b.store(zeros, b.element(pointer, 4, b.getF32Type()), 16);
}

static void emitRow(AttentionBuilder &b, const PrepareArguments &a, Value row,
                    Value part, int headDim) {
  Value head = b.divideUnsigned(row, a.paddedRows);
  Value query = b.subtract(row, b.multiply(head, a.paddedRows));
  Value batch = b.divideUnsigned(head, a.queryHeads);
  Value headOfBatch = b.subtract(head, b.multiply(batch, a.queryHeads));
  Value column = b.shiftLeft(part, 3);
  Value inAll = b.lessThan(row, a.rows);
  b.ifThen(inAll, [&] { clearSums(b, a.querySums, row, column, headDim); });
  Value isQuery = b.both(inAll, b.lessThan(query, a.queries));
  Value reads = b.both(isQuery, b.lessThan(column, a.headDim));
  Value zero = b.constantF32(0);
  Value sum = b.ifThenElse(
      reads, b.getF32Type(),
      [&]() -> Values {
        auto at = [&](const RowTensor &tensor) {
          return b.element(getRowPointer(b, tensor, query, headOfBatch, batch),
                           column, b.getI16Type());
        };
        return {addProducts(b, zero, at(a.output), at(a.outputGradient))};
      },
      [&]() -> Values { return {zero}; })[0];
  for (int bits = headDim / 16; bits; bits /= 2)
    sum = b.addF32(sum, b.exchange(sum, bits));
  b.ifThen(b.both(inAll, b.equal(part, int64_t(0))), [&] {
    Value logSum = b.ifThenElse(
        isQuery, b.getF32Type(),
        [&]() -> Values {
          Value index = b.add(b.multiply(head, a.queries), query);
          return {loadLogSum(b, a.lse, index)};
        },
        [&]() -> Values { return {b.constantF32(-INFINITY)}; })[0];
    storeVectors(b, a.logSum, a.rowSum, row, logSum, sum);
  });
}

LogicalResult attention::buildPrepareKernel(ModuleOp module,
                                            const BackwardConfig &config,
                                            llvm::StringRef symbol) {
  std::string error = checkConfig(config);
  if (!error.empty())
    return module.emitError("attention kernel: ") << error;
  if (config.queryGradient == QueryGradient::None)
    return module.emitError("attention kernel: expected sums of dq to prepare, "
                            "but got a backward without them");
  AttentionBuilder b(module.getLoc(), module.getContext());
  PrepareArguments a;
  createKernel(b, module, symbol,
               {{ArgumentKind::ReadOnly, &a.output.data},
                {ArgumentKind::ReadOnly, &a.outputGradient.data},
                {ArgumentKind::Memory, &a.lse},
                {ArgumentKind::Memory, &a.logSum},
                {ArgumentKind::Memory, &a.rowSum},
                {ArgumentKind::Memory, &a.querySums},
                {ArgumentKind::Number, &a.rows},
                {ArgumentKind::Number, &a.queries},
                {ArgumentKind::Number, &a.paddedRows},
                {ArgumentKind::Number, &a.queryHeads},
                {ArgumentKind::Number, &a.headDim},
                {ArgumentKind::Wide, &a.output.rowStride},
                {ArgumentKind::Wide, &a.output.headStride},
                {ArgumentKind::Wide, &a.output.batchStride},
                {ArgumentKind::Wide, &a.outputGradient.rowStride},
                {ArgumentKind::Wide, &a.outputGradient.headStride},
                {ArgumentKind::Wide, &a.outputGradient.batchStride}},
               prepareThreads);
  Type i32 = b.getI32Type();
  Value thread = NVVM::ThreadIdXOp::create(b, i32);
  Value block = NVVM::BlockIdXOp::create(b, i32);
  int lanesOfRow = config.headDim / 8;
  Value row = b.add(b.multiply(block, getPrepareRows(config.headDim)),
                    b.divide(thread, lanesOfRow));
  emitRow(b, a, row, b.bitAnd(thread, lanesOfRow - 1), config.headDim);
  LLVM::ReturnOp::create(b, ValueRange());
  return success();
}
