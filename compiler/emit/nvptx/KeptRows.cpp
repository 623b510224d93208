//===- KeptRows.cpp - Rows in shared memory -------------------------------===//
#include "compiler/emit/nvptx/KeptRows.h"
#include "compiler/emit/loops/ScalarOps.h"
#include "compiler/emit/nvptx/LoopGrid.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::emit;

/// Whether the kernel reads elements of the argument where it visits them.
static bool isReadInOrder(BlockArgument argument) {
  return llvm::any_of(argument.getUsers(), [](Operation *user) {
    return user->hasTrait<train::Pointwise>() ||
           isa<train::ReshapeOp, train::ReduceOp>(user);
  });
}

bool KeptRows::tryKeep(const LoopAnalysis &domain, int64_t vectors,
                       int64_t newLanes) {
  lanes = newLanes;
  size_t passes = domain.stages.size() + !domain.getLateResults().empty();
  int64_t bytes = 0;
  llvm::SmallVector<BlockArgument> arguments;
  for (BlockArgument argument : grid.kernel.getBlock().getArguments()) {
    if (getNumElements(argument) != domain.domainSize ||
        !isReadInOrder(argument))
      continue;
    Type storage = getStorageType(getElementTypeOrSelf(argument.getType()));
    bytes += vectors * lanes * storage.getIntOrFloatBitWidth() / 8;
    arguments.push_back(argument);
  }
  if (passes < 2 || arguments.empty() || bytes > kHalfSharedBytes)
    return false;
  for (BlockArgument argument : arguments)
    rows.push_back({argument, grid.dynamicSharedBuffer(
                                  getElementTypeOrSelf(argument.getType()),
                                  vectors * lanes)});
  grid.residentBlocks = 2;
  return true;
}

void KeptRows::load(llvm::ArrayRef<Digit> vectors,
                    llvm::ArrayRef<Index> indices) {
  for (auto &[argument, buffer] : rows) {
    GridFunction::Values elements =
        isLoaded ? loadKept(buffer, vectors)
                 : loadAndKeep(argument, buffer, vectors, indices);
    for (auto [index, element] : llvm::zip_equal(indices, elements))
      e.remember(argument, index, element);
  }
}

GridFunction::Values KeptRows::loadAndKeep(Value argument, const Buffer &buffer,
                                           llvm::ArrayRef<Digit> vectors,
                                           llvm::ArrayRef<Index> indices) {
  // All loads come before the stores, so that they overlap.
  GridFunction::Values elements;
  for (const Index &index : indices)
    elements.push_back(e.loadStored(e.bufferOf(argument), index));
  for (auto [i, element] : llvm::enumerate(elements)) {
    e.storeStored(buffer, element,
                  getLaneIndex(e, vectors[i / lanes], i % lanes, lanes));
    if (!e.isPlanning())
      element = fromStorage(e.scalars(), element, buffer.element);
  }
  return elements;
}

/// The numbers of which a word has the bits of bf16: one operation each.
static std::pair<Value, Value> splitPair(ScalarBuilder &b, Value word) {
  Type f32 = b.builder.getF32Type();
  Value mask = b.integer(word.getType(), 0xFFFF0000);
  return {b.fromBits(b.shiftLeft(word, 16), f32),
          b.fromBits(b.create<arith::AndIOp>(word, mask), f32)};
}

GridFunction::Values KeptRows::loadKept(const Buffer &buffer,
                                        llvm::ArrayRef<Digit> vectors) {
  GridFunction::Values elements;
  bool hasPairs = buffer.element.isBF16() && lanes % 2 == 0;
  Type word = IntegerType::get(grid.kernel.getContext(), 32);
  for (Digit vector : vectors)
    for (int64_t k = 0; k < lanes; ++k) {
      if (!hasPairs) {
        elements.push_back(e.load(buffer, getLaneIndex(e, vector, k, lanes)));
      } else if (k % 2 == 0) {
        Value pair = e.load({buffer.pointer, word},
                            getLaneIndex(e, vector, k / 2, lanes / 2));
        elements.append(2, Value());
        if (!e.isPlanning())
          std::tie(elements.end()[-2], elements.end()[-1]) =
              splitPair(e.scalars(), pair);
      }
    }
  return elements;
}
