//===- DistAttrs.cpp - Text form and checks of axes and shardings ---------===//
#include "dialects/dist/Dist.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace lockstep::dist;
using lockstep::train::ReduceKind;

#define GET_ATTRDEF_CLASSES
#include "dialects/dist/DistAttrs.cpp.inc"

void DistDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/dist/DistAttrs.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Axes: "data" or "data":(2)4
//===----------------------------------------------------------------------===//

static void printAxis(AsmPrinter &printer, AxisAttr axis) {
  printer.printString(axis.getName());
  if (!axis.isWhole())
    printer << ":(" << axis.getPreSize() << ")" << axis.getSize();
}

static FailureOr<AxisAttr> parseAxis(AsmParser &parser) {
  std::string name;
  int64_t preSize = 0, size = 0;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseString(&name))
    return failure();
  if (succeeded(parser.parseOptionalColon())) {
    if (parser.parseLParen() || parser.parseInteger(preSize) ||
        parser.parseRParen() || parser.parseInteger(size))
      return failure();
    if (preSize < 1 || size < 2) {
      parser.emitError(
          loc, "expected a sub-axis (p)s with p >= 1 and s >= 2, but got (")
          << preSize << ")" << size;
      return failure();
    }
  }
  return AxisAttr::get(parser.getContext(), name, preSize, size);
}

static void printAxes(AsmPrinter &printer, AxesAttr axes) {
  printer << '[';
  llvm::interleaveComma(axes, printer,
                        [&](AxisAttr axis) { printAxis(printer, axis); });
  printer << ']';
}

static FailureOr<AxesAttr> parseAxes(AsmParser &parser) {
  SmallVector<AxisAttr> axes;
  auto parseOne = [&]() -> ParseResult {
    FailureOr<AxisAttr> axis = parseAxis(parser);
    if (failed(axis))
      return failure();
    axes.push_back(*axis);
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne))
    return failure();
  return AxesAttr::get(parser.getContext(), ArrayRef<AxisAttr>(axes));
}

void AxisAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printAxis(printer, *this);
  printer << '>';
}

Attribute AxisAttr::parse(AsmParser &parser, Type) {
  if (parser.parseLess())
    return {};
  FailureOr<AxisAttr> axis = parseAxis(parser);
  return failed(axis) || parser.parseGreater() ? AxisAttr() : *axis;
}

AxesAttr AxesAttr::get(MLIRContext *context, ArrayRef<StringRef> names) {
  SmallVector<AxisAttr> axes;
  for (StringRef name : names)
    axes.push_back(AxisAttr::get(context, name));
  return get(context, ArrayRef<AxisAttr>(axes));
}

void AxesAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printAxes(printer, *this);
  printer << '>';
}

Attribute AxesAttr::parse(AsmParser &parser, Type) {
  if (parser.parseLess())
    return {};
  FailureOr<AxesAttr> axes = parseAxes(parser);
  return failed(axes) || parser.parseGreater() ? AxesAttr() : *axes;
}

//===----------------------------------------------------------------------===//
// Shardings
//===----------------------------------------------------------------------===//

void ShardingAttr::print(AsmPrinter &printer) const {
  printer << "<[";
  llvm::interleaveComma(getDims(), printer,
                        [&](AxesAttr axes) { printAxes(printer, axes); });
  printer << ']';
  if (isPartial()) {
    printer << ", partial<" << stringifyReduceKind(getKind()) << ", ";
    printAxes(printer, getPartial());
    printer << '>';
  }
  if (isVarying()) {
    printer << ", varying<";
    printAxes(printer, getVarying());
    printer << '>';
  }
  printer << '>';
}

/// Parses `partial<kind, axes>` or `varying<axes>`.
static ParseResult parseClause(AsmParser &parser, ReduceKind &kind,
                               AxesAttr &partial, AxesAttr &varying) {
  StringRef word, kindWord;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&word))
    return failure();
  if (word != "partial" && word != "varying")
    return parser.emitError(loc, "expected 'partial' or 'varying', but got '")
           << word << "'";
  if (parser.parseLess())
    return failure();
  if (word == "partial") {
    loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&kindWord) || parser.parseComma())
      return failure();
    std::optional<ReduceKind> parsed =
        lockstep::train::symbolizeReduceKind(kindWord);
    if (!parsed)
      return parser.emitError(loc, "expected a reduction kind, but got '")
             << kindWord << "'";
    kind = *parsed;
  }
  FailureOr<AxesAttr> axes = parseAxes(parser);
  if (failed(axes))
    return failure();
  (word == "partial" ? partial : varying) = *axes;
  return parser.parseGreater();
}

Attribute ShardingAttr::parse(AsmParser &parser, Type) {
  SmallVector<AxesAttr> dims;
  auto parseDim = [&]() -> ParseResult {
    FailureOr<AxesAttr> axes = parseAxes(parser);
    if (failed(axes))
      return failure();
    dims.push_back(*axes);
    return success();
  };
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseDim))
    return {};
  ReduceKind kind = ReduceKind::Sum;
  AxesAttr none = AxesAttr::get(parser.getContext(), ArrayRef<AxisAttr>());
  AxesAttr partial = none, varying = none;
  while (succeeded(parser.parseOptionalComma()))
    if (parseClause(parser, kind, partial, varying))
      return {};
  if (parser.parseGreater())
    return {};
  return getChecked([&] { return parser.emitError(loc); }, parser.getContext(),
                    dims, kind, partial, varying);
}

/// The whole axis overlaps every part of it; sub-axes (p)s cover [p, p s).
bool AxisAttr::overlaps(AxisAttr other) const {
  if (getName() != other.getName())
    return false;
  if (isWhole() || other.isWhole())
    return true;
  return getPreSize() < other.getPreSize() * other.getSize() &&
         other.getPreSize() < getPreSize() * getSize();
}

LogicalResult ShardingAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   ArrayRef<AxesAttr> dims, ReduceKind,
                                   AxesAttr partial, AxesAttr varying) {
  SmallVector<AxisAttr> seen;
  SmallVector<AxesAttr> lists(dims);
  lists.push_back(partial);
  lists.push_back(varying);
  for (AxesAttr list : lists)
    for (AxisAttr axis : list) {
      for (AxisAttr other : seen)
        if (axis.overlaps(other))
          return emitError() << "(C2) expected each axis once, but got \""
                             << axis.getName() << "\" twice";
      seen.push_back(axis);
    }
  return success();
}

LogicalResult ShardingAttr::verifyEncoding(
    ArrayRef<int64_t> shape, Type,
    function_ref<InFlightDiagnostic()> emitError) const {
  if (getDims().size() != shape.size())
    return emitError() << "(C1) expected a sharding of " << shape.size()
                       << " dimensions, but got " << getDims().size();
  return success();
}

ShardingAttr ShardingAttr::getReplicated(MLIRContext *context, int64_t rank) {
  AxesAttr none = AxesAttr::get(context, ArrayRef<AxisAttr>());
  return get(context, SmallVector<AxesAttr>(rank, none), ReduceKind::Sum, none,
             none);
}

bool ShardingAttr::isDivided() const {
  return llvm::any_of(getDims(), [](AxesAttr axes) { return !axes.empty(); });
}

bool ShardingAttr::isReplicated() const {
  return !isDivided() && !isPartial() && !isVarying();
}

// Used by the operations' text form (DistOps.cpp).
namespace lockstep::dist::detail {
ParseResult parseAxisList(AsmParser &parser, AxesAttr &axes) {
  FailureOr<AxesAttr> parsed = parseAxes(parser);
  if (failed(parsed))
    return failure();
  axes = *parsed;
  return success();
}
void printAxisList(AsmPrinter &printer, AxesAttr axes) {
  printAxes(printer, axes);
}
} // namespace lockstep::dist::detail
