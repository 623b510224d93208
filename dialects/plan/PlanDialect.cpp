//===- PlanDialect.cpp - Registration of the plan dialect -----------------===//
#include "dialects/plan/Plan.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::plan;

#include "dialects/plan/PlanDialect.cpp.inc"
#include "dialects/plan/PlanEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/plan/PlanAttrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/plan/PlanTypes.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/plan/PlanOps.cpp.inc"

void PlanDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/plan/PlanAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/plan/PlanTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/plan/PlanOps.cpp.inc"
      >();
}

int64_t plan::getTensorBytes(RankedTensorType type) {
  return type.getNumElements() * ((type.getElementTypeBitWidth() + 7) / 8);
}

int64_t BufferType::getBytes() const { return getTensorBytes(getTensor()); }

LogicalResult
BufferType::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                   RankedTensorType tensor) {
  if (!tensor.hasStaticShape() || tensor.getEncoding())
    return emitError() << "expected a static shape without encoding, but got "
                       << tensor;
  if (!tensor.getElementType().isIntOrFloat())
    return emitError() << "expected integers or floats, but got " << tensor;
  return success();
}
