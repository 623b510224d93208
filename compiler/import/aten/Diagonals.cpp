// Matrices made of their diagonals, and diagonals as new tensors.
#include "compiler/import/aten/Lowering.h"

using namespace mlir;
using namespace lockstep::train;

namespace lockstep::aten {

/// [..., n] on the diagonal of [..., n + |offset|, n + |offset|].
static Value embedDiagonal(Emitter &t, Value x, int64_t offset) {
  int64_t last = rankOf(x) - 1, size = shapeOf(x)[last] + std::abs(offset);
  Shape square(shapeOf(x));
  square[last] = size;
  square.push_back(size);
  // Row i has element i below the diagonal's start, else i - |offset|.
  Value rows = t.unsqueeze(t.padDim(x, last, std::max<int64_t>(0, -offset),
                                    std::max<int64_t>(0, offset), 0),
                           last + 1);
  Value i = t.iota(square, t.i64(), last),
        j = t.iota(square, t.i64(), last + 1);
  Value here =
      t.compare(CompareDirection::EQ, t.add(i, static_cast<double>(offset)), j);
  return rows ? t.select(here, t.broadcastTo(rows, square),
                         t.constant(square, elementOf(x), 0))
              : rows;
}

static void lowerDiagEmbed(OpCall &op) {
  Value x = op.tensor("self");
  if (op.bad() || rankOf(x) == 0)
    return void(op.t.fail("expected a vector"));
  int64_t offset = op.integer("offset", 0), rank = rankOf(x) + 1,
          dim1 = op.dim("dim1", rank, -2), dim2 = op.dim("dim2", rank, -1);
  if (op.bad() || dim1 == dim2)
    return void(op.t.fail("expected two dimensions"));
  Value square = embedDiagonal(op.t, x, offset);
  Shape permutation;
  for (int64_t i = 0, next = 0; i < rank; ++i)
    permutation.push_back(i == dim1 ? rank - 2 : i == dim2 ? rank - 1 : next++);
  op.result(square ? op.t.transpose(square, permutation) : square);
}

/// diag: the matrix of a vector, the diagonal of a matrix. diagflat takes any
/// tensor as a vector.
static void lowerDiag(OpCall &op) {
  Value x = op.tensor("self");
  int64_t offset =
      op.base == "diag" ? op.integer("diagonal", 0) : op.integer("offset", 0);
  if (op.bad())
    return;
  if (op.base == "diagflat")
    x = op.t.reshape(x, {countOf(shapeOf(x))});
  if (rankOf(x) == 1)
    return op.result(embedDiagonal(op.t, x, offset));
  if (rankOf(x) != 2)
    return void(op.t.fail("expected a vector or a matrix"));
  int64_t columns = shapeOf(x)[1], length = op.resultShape()[0];
  int64_t start = length == 0 ? 0 : offset >= 0 ? offset : -offset * columns;
  int64_t limit = length == 0 ? 0 : start + (length - 1) * (columns + 1) + 1;
  op.result(op.t.sliceDim(op.t.reshape(x, {countOf(shapeOf(x))}), 0, start,
                          limit, columns + 1));
}

void addDiagonals(OperatorTable &table) {
  table.add("diag_embed", lowerDiagEmbed);
  table.add({"diag", "diagflat"}, lowerDiag);
}

} // namespace lockstep::aten
