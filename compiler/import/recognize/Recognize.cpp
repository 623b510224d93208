#include "compiler/import/recognize/Recognize.h"

#include "dialects/train/Train.h"
#include "mlir/IR/Dominance.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace lockstep::recognize {

static void removeCommonExpressions(func::FuncOp function) {
  IRRewriter rewriter(function.getContext());
  DominanceInfo dominance(function);
  eliminateCommonSubExpressions(rewriter, dominance, function);
}

static LogicalResult apply(func::FuncOp function,
                           llvm::function_ref<void(RewritePatternSet &)> add) {
  RewritePatternSet patterns(function.getContext());
  for (RegisteredOperationName name :
       function.getContext()->getRegisteredOperations())
    if (name.getDialectNamespace() ==
        train::TrainDialect::getDialectNamespace())
      name.getCanonicalizationPatterns(patterns, function.getContext());
  add(patterns);
  GreedyRewriteConfig config;
  config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled)
      .setUseTopDownTraversal(true)
      .setMaxIterations(GreedyRewriteConfig::kNoLimit);
  return applyPatternsGreedily(function, std::move(patterns), config);
}

LogicalResult recognizeOperations(func::FuncOp function) {
  // Duplicates go first: patterns compare values.
  removeCommonExpressions(function);
  if (failed(apply(function, addSimplifications)))
    return failure();
  removeCommonExpressions(function);
  // Norms before attention: query-key norms are inside of it. Masks last, when
  // it is known whose masks they are.
  for (auto add : {addLossPatterns, addNormPatterns, addAttentionPatterns,
                   addMaskPatterns})
    if (failed(apply(function, add)))
      return failure();
  function.walk(
      [](train::AttentionOp op) { op->removeAttr("train.mask_seen"); });
  removeCommonExpressions(function);
  return success();
}

} // namespace lockstep::recognize
