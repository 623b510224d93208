//===- DistOps.cpp - Checks of meshes and collectives ---------------------===//
#include "dialects/dist/Dist.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace lockstep::dist;

namespace lockstep::dist::detail {
ParseResult parseAxisList(AsmParser &parser, AxesAttr &axes);
void printAxisList(AsmPrinter &printer, AxesAttr axes);
} // namespace lockstep::dist::detail

//===----------------------------------------------------------------------===//
// Text form
//===----------------------------------------------------------------------===//

static ParseResult parseAxisList(OpAsmParser &parser, AxesAttr &axes) {
  return lockstep::dist::detail::parseAxisList(parser, axes);
}
static void printAxisList(OpAsmPrinter &printer, Operation *, AxesAttr axes) {
  lockstep::dist::detail::printAxisList(printer, axes);
}

static ParseResult parseMeshAxes(OpAsmParser &parser, ArrayAttr &names,
                                 DenseI64ArrayAttr &sizes) {
  SmallVector<Attribute> nameAttrs;
  SmallVector<int64_t> sizeValues;
  auto parseOne = [&]() -> ParseResult {
    std::string name;
    int64_t size = 0;
    if (parser.parseString(&name) || parser.parseEqual() ||
        parser.parseInteger(size))
      return failure();
    nameAttrs.push_back(parser.getBuilder().getStringAttr(name));
    sizeValues.push_back(size);
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne))
    return failure();
  names = parser.getBuilder().getArrayAttr(nameAttrs);
  sizes = parser.getBuilder().getDenseI64ArrayAttr(sizeValues);
  return success();
}

static void printMeshAxes(OpAsmPrinter &printer, Operation *, ArrayAttr names,
                          DenseI64ArrayAttr sizes) {
  printer << '[';
  llvm::interleaveComma(
      llvm::zip(names.getAsRange<StringAttr>(), sizes.asArrayRef()), printer,
      [&](auto axis) {
        printer << std::get<0>(axis) << " = " << std::get<1>(axis);
      });
  printer << ']';
}

/// Results have the operands' types, written once.
static ParseResult parseSameTypes(OpAsmParser &parser,
                                  SmallVectorImpl<Type> &inputs,
                                  SmallVectorImpl<Type> &outputs) {
  if (parser.parseTypeList(inputs))
    return failure();
  outputs.assign(inputs.begin(), inputs.end());
  return success();
}

static void printSameTypes(OpAsmPrinter &printer, Operation *, TypeRange inputs,
                           TypeRange) {
  printer << inputs;
}

//===----------------------------------------------------------------------===//
// Mesh
//===----------------------------------------------------------------------===//

LogicalResult MeshOp::verify() {
  if (getAxisNames().size() != getAxisSizes().size())
    return emitOpError("expected as many axis names as sizes");
  llvm::StringSet<> seen;
  for (StringAttr name : getAxisNames().getAsRange<StringAttr>())
    if (name.empty() || !seen.insert(name.getValue()).second)
      return emitOpError("(C1) expected distinct axis names that are not "
                         "empty, but got ")
             << name;
  for (int64_t size : getAxisSizes())
    if (size < 1)
      return emitOpError("(C2) expected axis sizes of at least 1, but got ")
             << size;
  return success();
}

int64_t MeshOp::getNumRanks() {
  int64_t ranks = 1;
  for (int64_t size : getAxisSizes())
    ranks *= size;
  return ranks;
}

int64_t MeshOp::getAxisIndex(StringRef name) {
  for (auto [index, axis] :
       llvm::enumerate(getAxisNames().getAsRange<StringAttr>()))
    if (axis.getValue() == name)
      return index;
  return -1;
}

int64_t MeshOp::getSize(AxisAttr axis) {
  return axis.isWhole() ? getAxisSizes()[getAxisIndex(axis.getName())]
                        : axis.getSize();
}

int64_t MeshOp::getSize(AxesAttr axes) {
  int64_t size = 1;
  for (AxisAttr axis : axes)
    size *= getSize(axis);
  return size;
}

int64_t MeshOp::getCoordinate(int64_t rank, AxesAttr axes) {
  ArrayRef<int64_t> sizes = getAxisSizes();
  int64_t place = 0;
  for (AxisAttr axis : axes) {
    int64_t index = getAxisIndex(axis.getName()), stride = 1;
    for (int64_t size : sizes.drop_front(index + 1))
      stride *= size;
    int64_t coordinate = rank / stride % sizes[index];
    if (!axis.isWhole())
      coordinate = coordinate /
                   (sizes[index] / (axis.getPreSize() * axis.getSize())) %
                   axis.getSize();
    place = place * getSize(axis) + coordinate;
  }
  return place;
}

SmallVector<SmallVector<int64_t>> MeshOp::getGroups(AxesAttr axes) {
  // A group's key is what remains of a rank's number once its coordinates along
  // the axes are set to 0.
  ArrayRef<int64_t> sizes = getAxisSizes();
  auto getKey = [&](int64_t rank) {
    for (AxisAttr axis : axes) {
      int64_t index = getAxisIndex(axis.getName()), stride = 1;
      for (int64_t size : sizes.drop_front(index + 1))
        stride *= size;
      if (!axis.isWhole())
        stride *= sizes[index] / (axis.getPreSize() * axis.getSize());
      rank -= stride * (rank / stride % getSize(axis));
    }
    return rank;
  };
  int64_t count = getSize(axes);
  llvm::MapVector<int64_t, SmallVector<int64_t>> groups;
  for (int64_t rank = 0; rank < getNumRanks(); ++rank) {
    SmallVector<int64_t> &group = groups[getKey(rank)];
    group.resize(count);
    group[getCoordinate(rank, axes)] = rank;
  }
  SmallVector<SmallVector<int64_t>> result;
  for (auto &entry : groups)
    result.push_back(std::move(entry.second));
  return result;
}

//===----------------------------------------------------------------------===//
// Checks against the mesh
//===----------------------------------------------------------------------===//

/// (C3), and where a size must change by the number of ranks, that it does.
static FailureOr<MeshOp> lookUpMesh(Operation *op, FlatSymbolRefAttr name,
                                    AxesAttr axes,
                                    SymbolTableCollection &symbols) {
  auto mesh = symbols.lookupNearestSymbolFrom<MeshOp>(op, name);
  if (!mesh)
    return op->emitOpError("(C3) expected a mesh named '")
           << name.getValue() << "', but there is none";
  llvm::StringSet<> seen;
  for (AxisAttr axis : axes) {
    int64_t index = mesh.getAxisIndex(axis.getName());
    if (index < 0)
      return op->emitOpError("(C3) expected an axis of mesh '")
             << name.getValue() << "', but got \"" << axis.getName() << "\"";
    int64_t size = mesh.getAxisSizes()[index];
    if (!axis.isWhole() && size % (axis.getPreSize() * axis.getSize()) != 0)
      return op->emitOpError("(C3) expected a sub-axis (")
             << axis.getPreSize() << ")" << axis.getSize()
             << " that divides axis \"" << axis.getName() << "\" of size "
             << size;
    if (axis.isWhole() && !seen.insert(axis.getName()).second)
      return op->emitOpError("(C3) expected each axis once, but got \"")
             << axis.getName() << "\" twice";
  }
  return mesh;
}

/// `to` is `from` with dimension `dim` multiplied by `factor`.
static LogicalResult checkScaled(Operation *op, Type from, Type to, int64_t dim,
                                 int64_t factor) {
  auto small = cast<RankedTensorType>(from), large = cast<RankedTensorType>(to);
  if (dim < 0 || dim >= small.getRank())
    return op->emitOpError("(C2) expected a dimension below ")
           << small.getRank() << ", but got " << dim;
  SmallVector<int64_t> shape(small.getShape());
  shape[dim] *= factor;
  if (large.getShape() != ArrayRef(shape) ||
      large.getElementType() != small.getElementType())
    return op->emitOpError("(C2) expected ")
           << RankedTensorType::get(shape, small.getElementType()) << " for "
           << small << " over " << factor << " ranks, but got " << large;
  return success();
}

static LogicalResult checkBucket(Operation *op) {
  if (op->getNumOperands() == 0 || op->getNumOperands() != op->getNumResults())
    return op->emitOpError(
               "(C1) expected at least one input and as many results, but got ")
           << op->getNumOperands() << " and " << op->getNumResults();
  Type element = getElementTypeOrSelf(op->getOperand(0).getType());
  for (Type type : op->getOperandTypes())
    if (getElementTypeOrSelf(type) != element)
      return op->emitOpError("(C1) expected one element type, but got ")
             << element << " and " << getElementTypeOrSelf(type);
  return success();
}

LogicalResult AllReduceOp::verify() {
  if (failed(checkBucket(*this)))
    return failure();
  for (auto [input, output] :
       llvm::zip(getInputs().getTypes(), getOutputs().getTypes()))
    if (input != output)
      return emitOpError("(C2) expected a result of type ")
             << input << ", but got " << output;
  return success();
}

LogicalResult AllReduceOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return LogicalResult::success(
      succeeded(lookUpMesh(*this, getMeshAttr(), getAxesAttr(), symbols)));
}

LogicalResult AllGatherOp::verify() { return checkBucket(*this); }

LogicalResult AllGatherOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<MeshOp> mesh =
      lookUpMesh(*this, getMeshAttr(), getAxesAttr(), symbols);
  if (failed(mesh))
    return failure();
  for (auto [input, output] :
       llvm::zip(getInputs().getTypes(), getOutputs().getTypes()))
    if (failed(checkScaled(*this, input, output, getDim(),
                           mesh->getSize(getAxesAttr()))))
      return failure();
  return success();
}

LogicalResult ReduceScatterOp::verify() { return checkBucket(*this); }

LogicalResult
ReduceScatterOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<MeshOp> mesh =
      lookUpMesh(*this, getMeshAttr(), getAxesAttr(), symbols);
  if (failed(mesh))
    return failure();
  for (auto [input, output] :
       llvm::zip(getInputs().getTypes(), getOutputs().getTypes()))
    if (failed(checkScaled(*this, output, input, getDim(),
                           mesh->getSize(getAxesAttr()))))
      return failure();
  return success();
}

LogicalResult AllToAllOp::verify() {
  int64_t rank = cast<RankedTensorType>(getInput().getType()).getRank();
  for (int64_t dim : {getSplitDim(), getConcatDim()})
    if (dim < 0 || dim >= rank)
      return emitOpError("(C1) expected dimensions below ")
             << rank << ", but got " << dim;
  return success();
}

LogicalResult AllToAllOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<MeshOp> mesh =
      lookUpMesh(*this, getMeshAttr(), getAxesAttr(), symbols);
  if (failed(mesh))
    return failure();
  int64_t count = mesh->getSize(getAxesAttr());
  auto input = cast<RankedTensorType>(getInput().getType());
  SmallVector<int64_t> shape(input.getShape());
  if (shape[getSplitDim()] % count != 0)
    return emitOpError("(C1) expected dimension ")
           << getSplitDim() << " to be divisible by " << count
           << " ranks, but got " << shape[getSplitDim()];
  shape[getSplitDim()] /= count;
  shape[getConcatDim()] *= count;
  auto expected = RankedTensorType::get(shape, input.getElementType());
  if (getOutput().getType() != expected)
    return emitOpError("(C1) expected ")
           << expected << ", but got " << getOutput().getType();
  return success();
}

LogicalResult BroadcastOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<MeshOp> mesh =
      lookUpMesh(*this, getMeshAttr(), getAxesAttr(), symbols);
  if (failed(mesh))
    return failure();
  uint64_t count = mesh->getSize(getAxesAttr());
  if (getRoot() >= count)
    return emitOpError("(C1) expected a root below ")
           << count << ", but got " << getRoot();
  return success();
}

LogicalResult CollectivePermuteOp::verify() {
  if (getPairs().size() % 2 != 0)
    return emitOpError("(C1) expected an even number of places, but got ")
           << getPairs().size();
  for (int side : {0, 1}) {
    llvm::SmallSet<int64_t, 8> seen;
    for (size_t i = side; i < getPairs().size(); i += 2)
      if (!seen.insert(getPairs()[i]).second)
        return emitOpError("(C2) expected each place once as ")
               << (side == 0 ? "source" : "target") << ", but got "
               << getPairs()[i] << " twice";
  }
  return success();
}

LogicalResult
CollectivePermuteOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<MeshOp> mesh =
      lookUpMesh(*this, getMeshAttr(), getAxesAttr(), symbols);
  if (failed(mesh))
    return failure();
  int64_t count = mesh->getSize(getAxesAttr());
  for (int64_t place : getPairs())
    if (place < 0 || place >= count)
      return emitOpError("(C1) expected places below ")
             << count << ", but got " << place;
  return success();
}

LogicalResult CoordinateOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return LogicalResult::success(
      succeeded(lookUpMesh(*this, getMeshAttr(), getAxesAttr(), symbols)));
}

LogicalResult LocalSliceOp::verify() {
  int64_t rank = cast<RankedTensorType>(getInput().getType()).getRank();
  if (getDim() < 0 || static_cast<int64_t>(getDim()) >= rank)
    return emitOpError("(C1) expected a dimension below ")
           << rank << ", but got " << getDim();
  return success();
}

LogicalResult LocalSliceOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<MeshOp> mesh =
      lookUpMesh(*this, getMeshAttr(), getAxesAttr(), symbols);
  if (failed(mesh))
    return failure();
  return checkScaled(*this, getOutput().getType(), getInput().getType(),
                     getDim(), mesh->getSize(getAxesAttr()));
}

//===----------------------------------------------------------------------===//
// Start and wait
//===----------------------------------------------------------------------===//

LogicalResult StartOp::verify() {
  Block &block = getBody().front();
  if (!llvm::hasNItems(block, 2) || !isa<CollectiveOpInterface>(block.front()))
    return emitOpError("(C1) expected one collective and a yield in the body");
  if (!llvm::equal(block.front().getResults(), block.back().getOperands()))
    return emitOpError(
        "(C1) expected the collective's results to be yielded in order");
  if (!llvm::equal(block.back().getOperandTypes(),
                   getToken().getType().getTypes()))
    return emitOpError(
               "(C2) expected the token to list the yielded types, but got ")
           << getToken().getType();
  return success();
}

LogicalResult WaitOp::verify() {
  if (!llvm::equal(getOutputs().getTypes(), getToken().getType().getTypes()))
    return emitOpError("(C1) expected the types that the token lists, but got ")
           << getOutputs().getTypes();
  if (!getToken().hasOneUse())
    return emitOpError("(C2) expected the only wait for this token");
  return success();
}

#define GET_OP_CLASSES
#include "dialects/dist/DistOps.cpp.inc"
