//===- ConvertKernel.cpp - dq from sums in the order of registers ---------===//
//
// A block takes 64 rows by 64 columns, what one warpgroup of the backward
// kernel added up: each thread reads the sums that its peer there held, 16
// bytes at a time, and the rows leave through shared memory.
//
//===----------------------------------------------------------------------===//
#include "compiler/emit/nvptx/attention/AttentionKernels.h"
#include "compiler/emit/nvptx/attention/BlockFrame.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::attention;

namespace {
/// The kernel's arguments, in order.
struct ConvertArguments {
  Value queryGradient, querySums, tiles, queryHeads, scale;
};
} // namespace

/// The piece's sums of this thread, scaled.
static Values loadSums(BlockFrame &frame, const Consumer &self,
                       const ConvertArguments &arguments, Value piece) {
  AttentionBuilder &b = frame.b;
  Value bytes = LLVM::MulOp::create(b, b.extend(piece), b.constant64(16384));
  Value ofLane = b.add(b.shiftLeft(self.warp, 12), b.shiftLeft(frame.lane, 4));
  bytes = LLVM::AddOp::create(b, bytes, b.extend(ofLane));
  Value pointer = b.element(arguments.querySums, bytes, b.getI8Type());
  auto four = VectorType::get(4, b.getF32Type());
  Values sums;
  for (int i = 0; i < 8; ++i) {
    Value vector = b.load(b.element(pointer, 512 * i, b.getI8Type()), four, 16);
    for (int j = 0; j < 4; ++j)
      sums.push_back(
          b.multiplyF32(b.extractElement(vector, j), arguments.scale));
  }
  return sums;
}

static void emitPiece(BlockFrame &frame, const BackwardConfig &config,
                      const ConvertArguments &arguments) {
  AttentionBuilder &b = frame.b;
  Consumer self(frame);
  Value piece = NVVM::BlockIdXOp::create(b, b.getI32Type());
  Value half = b.bitAnd(piece, 1), tile = b.shiftRight(piece, 1);
  Value head = b.divideUnsigned(tile, arguments.tiles);
  Value tileOfHead = b.subtract(tile, b.multiply(head, arguments.tiles));
  Value batch = b.divideUnsigned(head, arguments.queryHeads);
  Value headOfBatch = b.subtract(head, b.multiply(batch, arguments.queryHeads));
  Values sums = loadSums(frame, self, arguments, piece);
  stageRows(frame, frame.sharedBase, /*chunkBytes=*/0, self.matrixOffset,
            b.packSums(sums));
  b.fenceSharedStores();
  NVVM::BarrierOp::create(b);
  // The halves of a tile are rows or columns (DeferredSteps.cpp).
  int rows = getQueryRows(config);
  Value row = b.multiply(tileOfHead, rows), column = b.constant(0);
  if (rows == 128)
    row = b.add(row, b.shiftLeft(half, 6));
  else
    column = b.shiftLeft(half, 6);
  b.ifThen(self.isLead, [&] {
    b.storeBox(arguments.queryGradient, frame.sharedBase,
               {column, row, headOfBatch, batch});
    b.commitCopies();
    b.waitForWrites(0);
  });
}

LogicalResult attention::buildConvertKernel(ModuleOp module,
                                            const BackwardConfig &config,
                                            llvm::StringRef symbol) {
  std::string error = checkConfig(config);
  if (!error.empty())
    return module.emitError("attention kernel: ") << error;
  if (config.queryGradient == QueryGradient::None)
    return module.emitError("attention kernel: expected sums of dq to convert, "
                            "but got a backward without them");
  AttentionBuilder b(module.getLoc(), module.getContext());
  ConvertArguments a;
  createKernel(b, module, symbol,
               {{ArgumentKind::Map, &a.queryGradient},
                {ArgumentKind::ReadOnly, &a.querySums},
                {ArgumentKind::Number, &a.tiles},
                {ArgumentKind::Number, &a.queryHeads},
                {ArgumentKind::Scalar, &a.scale}},
               convertThreads);
  BlockFrame frame(b, /*barrierOffset=*/0);
  emitPiece(frame, config, a);
  LLVM::ReturnOp::create(b, ValueRange());
  return success();
}
