#include "compiler/import/recognize/ConstantFold.h"

#include "compiler/reference/FoldConstants.h"
#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace lockstep::train;

namespace lockstep::recognize {

std::optional<HostTensor> evaluateConstant(Value value, int64_t maxElements) {
  if (!value)
    return std::nullopt;
  ScopedDiagnosticHandler quiet(value.getContext(), [](Diagnostic &) {});
  FailureOr<HostTensor> result = evaluateConstantExpression(value, maxElements);
  return succeeded(result) ? std::optional<HostTensor>(*result) : std::nullopt;
}

Value buildBand(aten::Emitter &emit, const HostTensor &table) {
  int64_t rank = table.getRank();
  Type type = table.getElementType();
  if (rank < 2 || !(type.isInteger(1) || type.isUnsignedInteger(8)))
    return {};
  int64_t rows = table.getDimSize(rank - 2),
          columns = table.getDimSize(rank - 1);
  if (rows < 8 || columns < 8)
    return {};
  // The first row and column give the only candidate; then every element must
  // agree.
  std::vector<int64_t> values = table.toInts();
  int64_t low = -rows, high = columns;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t k = 0; k < columns; ++k)
      if (!values[i * columns + k])
        (k > i ? high : low) =
            k > i ? std::min(high, k - i - 1) : std::max(low, k - i + 1);
  for (size_t flat = 0; flat < values.size(); ++flat) {
    int64_t k = flat % columns, i = flat / columns % rows;
    if ((values[flat] != 0) != (k - i >= low && k - i <= high) ||
        values[flat] > 1)
      return {};
  }
  Value difference = emit.sub(emit.iota({rows, columns}, emit.i64(), 1),
                              emit.iota({rows, columns}, emit.i64(), 0));
  Value inside;
  if (high < columns - 1)
    inside = emit.le(difference, static_cast<double>(high));
  if (low > 1 - rows) {
    Value lower = emit.ge(difference, static_cast<double>(low));
    inside = inside ? emit.logicalAnd(inside, lower) : lower;
  }
  if (!inside)
    inside = emit.constantInt({rows, columns}, emit.i1(), 1);
  return emit.convert(emit.broadcastTo(inside, table.getShape()), type);
}

} // namespace lockstep::recognize
