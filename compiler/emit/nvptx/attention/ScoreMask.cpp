//===- ScoreMask.cpp - Scores that a row does not see ---------------------===//
//
// Most blocks are seen whole: one branch, the same for the warpgroup, decides
// whether the comparisons run. It may be taken while other products fly.
//
//===----------------------------------------------------------------------===//
#include "compiler/emit/nvptx/attention/ScoreMask.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::attention;

/// Sum i of a warpgroup's product: its column in the thread's view (of each 8,
/// the first of the thread's two is 0) and which of the thread's two rows.
static int getColumn(int i) { return 8 * (i / 4) + i % 2; }
static int getRowHalf(int i) { return i / 2 % 2; }

/// Scores, minus infinity where `isHidden(i)` says so, if any can be.
static Values replaceHidden(AttentionBuilder &b, ArrayRef<Value> scores,
                            Value needed, llvm::function_ref<void()> prepare,
                            llvm::function_ref<Value(int)> isHidden) {
  SmallVector<Type> types(scores.size(), b.getF32Type());
  return b.ifThenElse(
      needed, types,
      [&] {
        prepare();
        Value hidden = b.constantF32(-INFINITY);
        Values masked;
        for (size_t i = 0; i < scores.size(); ++i)
          masked.push_back(b.select(isHidden(i), hidden, scores[i]));
        return masked;
      },
      [&] { return Values(scores); });
}

static Value either(AttentionBuilder &b, Value x, Value y) {
  return b.createOrFold<arith::OrIOp>(x, y);
}

Values attention::maskKeys(BlockFrame &frame, const Consumer &self,
                           const MaskArguments &arguments,
                           ArrayRef<Value> scores, Value firstQuery,
                           Value firstKey) {
  AttentionBuilder &b = frame.b;
  bool causal = arguments.mask != Mask::Full;
  bool window = arguments.mask == Mask::CausalWindow;
  Value firstRow = b.add(firstQuery, self.firstRow);
  Value seenByAll = arguments.keys;
  if (causal)
    seenByAll = b.minimum(firstRow, seenByAll);
  Value needed = b.greaterThan(b.add(firstKey, arguments.keyBlock), seenByAll);
  if (window)
    needed = either(b, needed,
                    b.lessThan(firstKey, b.subtract(b.add(firstRow, 64),
                                                    arguments.window)));
  // Relative to the thread's first column: the last key seen and, with a
  // window, the first one.
  Value last[2], first[2];
  auto prepare = [&] {
    Value column = b.add(firstKey, self.column);
    Value lastKey = b.subtract(arguments.keys, b.constant(1));
    for (int half = 0; half < 2; ++half) {
      Value row = b.add(b.add(firstQuery, self.row), 8 * half);
      Value key = causal ? b.minimum(row, lastKey) : lastKey;
      last[half] = b.subtract(key, column);
      if (window)
        first[half] =
            b.subtract(b.add(b.subtract(row, arguments.window), 1), column);
    }
  };
  return replaceHidden(b, scores, needed, prepare, [&](int i) {
    Value column = b.constant(getColumn(i));
    Value hidden = b.greaterThan(column, last[getRowHalf(i)]);
    if (window)
      hidden = either(b, hidden, b.lessThan(column, first[getRowHalf(i)]));
    return hidden;
  });
}

Values attention::maskQueries(BlockFrame &frame, const Consumer &self,
                              const MaskArguments &arguments,
                              ArrayRef<Value> scores, Value firstQuery,
                              Value firstKey) {
  AttentionBuilder &b = frame.b;
  bool causal = arguments.mask != Mask::Full;
  bool window = arguments.mask == Mask::CausalWindow;
  int queries = 2 * scores.size(); // 64 rows over 128 threads
  Value endKey = b.add(firstKey, arguments.keyBlock);
  Value needed = b.greaterThan(endKey, arguments.keys);
  if (causal)
    needed = either(b, needed, b.lessThan(firstQuery, endKey));
  if (window)
    needed = either(b, needed,
                    b.greaterThan(b.add(firstQuery, queries),
                                  b.add(firstKey, arguments.window)));
  // A row past the last key is hidden from every query. Relative to the
  // thread's first column: the first query that sees the row, and the first one
  // after those that do.
  Value first[2], end[2], isOutside[2];
  auto prepare = [&] {
    Value column = b.add(firstQuery, self.column);
    for (int half = 0; half < 2; ++half) {
      Value row = b.add(b.add(firstKey, self.row), 8 * half);
      isOutside[half] = b.lessOrEqual(arguments.keys, row);
      if (causal)
        first[half] = b.select(isOutside[half], b.constant(1 << 20),
                               b.subtract(row, column));
      if (window)
        end[half] = b.subtract(b.add(row, arguments.window), column);
    }
  };
  return replaceHidden(b, scores, needed, prepare, [&](int i) {
    int half = getRowHalf(i);
    if (!causal)
      return isOutside[half];
    Value column = b.constant(getColumn(i));
    Value hidden = b.lessThan(column, first[half]);
    if (window)
      hidden = either(b, hidden, b.lessOrEqual(end[half], column));
    return hidden;
  });
}
