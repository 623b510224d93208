//===- KernelOps.cpp - Kernels on values: syntax and verification ---------===//
#include "dialects/plan/KernelModel.h"
#include "dialects/plan/Plan.h"
#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/FunctionImplementation.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::plan;

//===----------------------------------------------------------------------===//
// KernelOp
//===----------------------------------------------------------------------===//

void KernelOp::build(OpBuilder &builder, OperationState &state, KernelKind kind,
                     llvm::StringRef name, FunctionType type) {
  auto &properties = state.getOrAddProperties<Properties>();
  properties.kind = KernelKindAttr::get(builder.getContext(), kind);
  properties.sym_name = builder.getStringAttr(name);
  properties.function_type = TypeAttr::get(type);
  Block &block = state.addRegion()->emplaceBlock();
  for (Type input : type.getInputs())
    block.addArgument(input, state.location);
}

/// `kind @name(%arg: type, ...) -> (type, ...) cost flops, bytes attributes
/// {...} { ... }`
ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  OpBuilder builder(parser.getContext());
  auto &properties = result.getOrAddProperties<Properties>();
  llvm::SMLoc loc = parser.getCurrentLocation();
  llvm::StringRef keyword;
  if (parser.parseKeyword(&keyword))
    return failure();
  auto kind = symbolizeKernelKind(keyword);
  if (!kind)
    return parser.emitError(loc, "expected a kernel kind, but got '")
           << keyword << "'";
  properties.kind = KernelKindAttr::get(parser.getContext(), *kind);
  if (parser.parseSymbolName(properties.sym_name))
    return failure();
  llvm::SmallVector<OpAsmParser::Argument> arguments;
  llvm::SmallVector<Type> resultTypes;
  llvm::SmallVector<DictionaryAttr> resultAttrs;
  bool isVariadic = false;
  if (function_interface_impl::parseFunctionSignatureWithArguments(
          parser, /*allowVariadic=*/false, arguments, isVariadic, resultTypes,
          resultAttrs))
    return failure();
  llvm::SmallVector<Type> argumentTypes;
  for (OpAsmParser::Argument &argument : arguments)
    argumentTypes.push_back(argument.type);
  properties.function_type =
      TypeAttr::get(builder.getFunctionType(argumentTypes, resultTypes));
  if (succeeded(parser.parseOptionalKeyword("cost"))) {
    int64_t flops, bytes;
    if (parser.parseInteger(flops) || parser.parseComma() ||
        parser.parseInteger(bytes))
      return failure();
    properties.flops = builder.getF64FloatAttr(static_cast<double>(flops));
    properties.bytes = builder.getF64FloatAttr(static_cast<double>(bytes));
  }
  if (parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  call_interface_impl::addArgAndResultAttrs(
      builder, result, arguments, resultAttrs, getArgAttrsAttrName(result.name),
      getResAttrsAttrName(result.name));
  return parser.parseRegion(*result.addRegion(), arguments);
}

void KernelOp::print(OpAsmPrinter &p) {
  p << ' ' << stringifyKernelKind(getKind()) << ' ';
  p.printSymbolName(getSymName());
  call_interface_impl::printFunctionSignature(
      p, getArgumentTypes(), getArgAttrsAttr(), /*isVariadic=*/false,
      getResultTypes(), getResAttrsAttr(), &getBody(),
      /*printEmptyResult=*/false);
  if (getFlopsAttr() || getBytesAttr())
    p << " cost " << static_cast<int64_t>(getFlops().convertToDouble()) << ", "
      << static_cast<int64_t>(getBytes().convertToDouble());
  p.printOptionalAttrDictWithKeyword(
      (*this)->getAttrs(),
      {getKindAttrName(), getSymNameAttrName(), getFunctionTypeAttrName(),
       getFlopsAttrName(), getBytesAttrName(), getArgAttrsAttrName(),
       getResAttrsAttrName()});
  p << ' ';
  p.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

Operation *KernelOp::getAnchor() {
  for (Operation &op : getBlock())
    if (auto kind = getAnchorKind(&op); kind && *kind == getKind())
      return &op;
  return nullptr;
}

LogicalResult KernelOp::verify() {
  for (Type type :
       llvm::concat<const Type>(getArgumentTypes(), getResultTypes())) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape() || tensor.getEncoding())
      return emitOpError(
                 "(C2) expected static tensors without encoding, but got ")
             << type;
    if (getKind() == KernelKind::Update && tensor.getRank() != 0 &&
        (tensor.getRank() != 1 || tensor.getDimSize(0) != 1))
      return emitOpError("(C5) expected rank 0 or tensor<1xT> in an update "
                         "kernel, but got ")
             << type;
  }
  return success();
}

LogicalResult KernelOp::verifyRegions() {
  Block &block = getBlock();
  int64_t anchors = 0;
  for (Operation &op : block) {
    if (!isa<train::TrainDialect>(op.getDialect()) && !isa<ReturnOp>(op))
      return op.emitOpError("(C3) expected only train operations in a kernel");
    if (auto kind = getAnchorKind(&op)) {
      if (*kind != getKind())
        return op.emitOpError("(C4) expected no anchor of another kind in a ")
               << stringifyKernelKind(getKind()) << " kernel";
      ++anchors;
    }
  }
  bool needsAnchor =
      getKind() != KernelKind::Loop && getKind() != KernelKind::Update;
  if (anchors != needsAnchor)
    return emitOpError("(C4) expected ") << static_cast<int64_t>(needsAnchor)
                                         << " anchor, but got " << anchors;
  return success();
}

LogicalResult ReturnOp::verify() {
  auto kernel = cast<KernelOp>((*this)->getParentOp());
  if (!llvm::equal(getOperandTypes(), kernel.getResultTypes()))
    return emitOpError("expected operands of the kernel's result types");
  return success();
}

//===----------------------------------------------------------------------===//
// CallOp, ViewOp, JoinOp
//===----------------------------------------------------------------------===//

/// Shared by calls and launches: `given` are tensor types for the kernel's
/// `formal` ones. `elements` is the number of elements that tensor<1xT> stands
/// for, -1 until it is known.
LogicalResult plan::verifyKernelTypes(Operation *op, KernelOp kernel,
                                      TypeRange formal, TypeRange given,
                                      int64_t &elements, llvm::StringRef what) {
  if (formal.size() != given.size())
    return op->emitOpError("(C1) expected ")
           << formal.size() << ' ' << what << "s for @" << kernel.getSymName()
           << ", but got " << given.size();
  for (auto [index, pair] : llvm::enumerate(llvm::zip_equal(formal, given))) {
    auto want = cast<RankedTensorType>(std::get<0>(pair)),
         have = cast<RankedTensorType>(std::get<1>(pair));
    bool matches = want == have;
    if (kernel.getKind() == KernelKind::Update && want.getRank() == 1 &&
        want.getElementType() == have.getElementType()) {
      if (elements < 0)
        elements = have.getNumElements();
      matches = have.getNumElements() == elements;
    }
    if (!matches)
      return op->emitOpError("(C1) expected ")
             << want << " for " << what << ' ' << index << " of @"
             << kernel.getSymName() << ", but got " << have;
  }
  return success();
}

LogicalResult CallOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  auto kernel =
      symbolTable.lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError("(C1) expected a plan.kernel, but '")
           << getKernel() << "' is none";
  int64_t elements = -1;
  if (failed(verifyKernelTypes(*this, kernel, kernel.getArgumentTypes(),
                               getOperandTypes(), elements, "operand")))
    return failure();
  return verifyKernelTypes(*this, kernel, kernel.getResultTypes(),
                           getResultTypes(), elements, "result");
}

LogicalResult ViewOp::verify() {
  auto from = cast<RankedTensorType>(getOperand().getType()),
       to = cast<RankedTensorType>(getType());
  if (from.getElementType() != to.getElementType())
    return emitOpError("(C2) expected element type ")
           << from.getElementType() << ", but got " << to.getElementType();
  int64_t offset = static_cast<int64_t>(getOffset());
  if (offset < 0 || offset + to.getNumElements() > from.getNumElements())
    return emitOpError("(C1) expected elements within ")
           << from.getNumElements() << ", but got " << offset << " to "
           << offset + to.getNumElements();
  return success();
}

OpFoldResult ViewOp::fold(FoldAdaptor) {
  if (getOperand().getType() == getType())
    return getOperand();
  if (auto inner = getOperand().getDefiningOp<ViewOp>()) {
    setOffset(getOffset() + inner.getOffset());
    getOperandMutable().assign(inner.getOperand());
    return getResult();
  }
  return {};
}

LogicalResult JoinOp::verify() {
  auto type = cast<RankedTensorType>(getType());
  int64_t elements = 0;
  for (Type input : getOperandTypes()) {
    elements += cast<RankedTensorType>(input).getNumElements();
    if (cast<RankedTensorType>(input).getElementType() != type.getElementType())
      return emitOpError("(C1) expected element type ")
             << type.getElementType() << ", but got " << input;
  }
  if (type.getRank() != 1 || type.getNumElements() != elements)
    return emitOpError("(C1) expected a result of rank 1 with ")
           << elements << " elements, but got " << type;
  return success();
}
