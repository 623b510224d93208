//===- Train.h - The train dialect ------------------------------*- C++ -*-===//
#ifndef LOCKSTEP_DIALECTS_TRAIN_TRAIN_H
#define LOCKSTEP_DIALECTS_TRAIN_TRAIN_H

#include "dialects/train/ShardingRule.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace lockstep {
class HostTensor;
namespace train {

/// Each element of the results depends on the same element of the operands
/// alone.
template <typename ConcreteType>
class Pointwise : public mlir::OpTrait::TraitBase<ConcreteType, Pointwise> {};

} // namespace train
} // namespace lockstep

#include "dialects/train/TrainEnums.h.inc"

#include "dialects/train/TrainDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/train/TrainAttrs.h.inc"

#include "dialects/train/TrainInterfaces.h.inc"

#define GET_OP_CLASSES
#include "dialects/train/TrainOps.h.inc"

namespace lockstep::train {
// The generated definitions come in shards, one file each (TrainOpDefs*.cpp).
void registerTrainDialectOperations(TrainDialect *dialect);
void registerTrainDialectOperations0(TrainDialect *dialect);
void registerTrainDialectOperations1(TrainDialect *dialect);
void registerTrainDialectOperations2(TrainDialect *dialect);
void registerTrainDialectOperations3(TrainDialect *dialect);
} // namespace lockstep::train

#endif
