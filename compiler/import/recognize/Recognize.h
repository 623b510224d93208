// Finds the operations of `train` in what an export spells out: attention, RMS
// and layer norm, losses; removes what does nothing; folds constants, masks by
// rule.
#ifndef LOCKSTEP_COMPILER_IMPORT_RECOGNIZE_RECOGNIZE_H
#define LOCKSTEP_COMPILER_IMPORT_RECOGNIZE_RECOGNIZE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/PatternMatch.h"

namespace lockstep::recognize {

void recognizeOperations(mlir::func::FuncOp function);

// The patterns, one function per file.
void addSimplifications(mlir::RewritePatternSet &patterns);
void addLossPatterns(mlir::RewritePatternSet &patterns);
void addNormPatterns(mlir::RewritePatternSet &patterns);
void addAttentionPatterns(mlir::RewritePatternSet &patterns);
void addMaskPatterns(mlir::RewritePatternSet &patterns);

} // namespace lockstep::recognize

#endif // LOCKSTEP_COMPILER_IMPORT_RECOGNIZE_RECOGNIZE_H
