//===- Plan.h - The plan dialect --------------------------------*- C++ -*-===//
#ifndef LOCKSTEP_DIALECTS_PLAN_PLAN_H
#define LOCKSTEP_DIALECTS_PLAN_PLAN_H

#include "dialects/train/Train.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/CallInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

#include "dialects/plan/PlanEnums.h.inc"

#include "dialects/plan/PlanDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/plan/PlanAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/plan/PlanTypes.h.inc"

#define GET_OP_CLASSES
#include "dialects/plan/PlanOps.h.inc"

namespace lockstep::plan {

/// Unit attribute of calls that compute a value of the forward pass again:
/// they run behind what else their readers wait for.
inline constexpr llvm::StringLiteral kRecomputedAttr = "plan.recomputed";
/// Of functions and programs: what is computed again to fit the memory limit
/// (schedule/Summary.h).
inline constexpr llvm::StringLiteral kRecomputeAttr = "plan.recompute";

/// Bytes of a tensor as a contiguous buffer; i1 takes one byte per element.
int64_t getTensorBytes(mlir::RankedTensorType type);

/// Verifies that tensors of types `given` may stand for a kernel's `formal`
/// ones; `elements` is what tensor<1xT> of an update kernel stands for, -1
/// until it is known. `what` names them in the error.
mlir::LogicalResult verifyKernelTypes(mlir::Operation *op, KernelOp kernel,
                                      mlir::TypeRange formal,
                                      mlir::TypeRange given, int64_t &elements,
                                      llvm::StringRef what);

} // namespace lockstep::plan

#endif
