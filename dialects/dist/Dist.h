//===- Dist.h - The dist dialect --------------------------------*- C++ -*-===//
#ifndef LOCKSTEP_DIALECTS_DIST_DIST_H
#define LOCKSTEP_DIALECTS_DIST_DIST_H

#include "dialects/train/Train.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/dist/DistDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/dist/DistAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/dist/DistTypes.h.inc"

#include "dialects/dist/DistInterfaces.h.inc"

#define GET_OP_CLASSES
#include "dialects/dist/DistOps.h.inc"

#endif
