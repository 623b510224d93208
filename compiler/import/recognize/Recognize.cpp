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

/// Every rewrite leaves a program that computes the same, so patterns that
/// would go on for ever are stopped, and what they left is taken.
static constexpr int64_t kMaxIterations = 64, kMaxRewritesPerOp = 64;

static void apply(func::FuncOp function,
                  llvm::function_ref<void(RewritePatternSet &)> add) {
  RewritePatternSet patterns(function.getContext());
  for (RegisteredOperationName name :
       function.getContext()->getRegisteredOperations())
    if (name.getDialectNamespace() ==
        train::TrainDialect::getDialectNamespace())
      name.getCanonicalizationPatterns(patterns, function.getContext());
  add(patterns);
  int64_t operations = 0;
  function.walk([&](Operation *) { ++operations; });
  GreedyRewriteConfig config;
  config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled)
      .setUseTopDownTraversal(true)
      .setMaxIterations(kMaxIterations)
      .setMaxNumRewrites(kMaxRewritesPerOp * operations);
  if (failed(applyPatternsGreedily(function, std::move(patterns), config)))
    emitWarning(function.getLoc())
        << "recognition was stopped before its end; the program is right, but "
           "operations may be left spelled out";
}

void recognizeOperations(func::FuncOp function) {
  // Duplicates go first: patterns compare values.
  removeCommonExpressions(function);
  apply(function, addSimplifications);
  removeCommonExpressions(function);
  // Norms before attention: query-key norms are inside of it. Masks last, when
  // it is known whose masks they are.
  for (auto add : {addLossPatterns, addNormPatterns, addAttentionPatterns,
                   addMaskPatterns})
    apply(function, add);
  function.walk(
      [](train::AttentionOp op) { op->removeAttr("train.mask_seen"); });
  removeCommonExpressions(function);
}

} // namespace lockstep::recognize
