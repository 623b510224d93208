// RUN: lockstep-opt %s --lockstep-autodiff-pipeline="loss=mse labels=target" | FileCheck %s --check-prefix=MSE
// RUN: lockstep-opt %s --lockstep-autodiff-pipeline="labels=next-token class-dim=-1 label-smoothing=0.1" | FileCheck %s --check-prefix=TOKENS
// RUN: not lockstep-opt %s --lockstep-autodiff-pipeline="loss=output:0 labels=next-token" 2>&1 | FileCheck %s --check-prefix=REFUSED

// The mean is over all elements, and the targets come unmerged: the batch is 4, the output has 8 rows.
// MSE-LABEL: func.func @step
// MSE-SAME: tensor<4x2x4xf32> {train.name = "target", train.role = #train.role<label>}
// MSE: train.constant dense<3.200000e+01> : tensor<f32>
// MSE-LABEL: func.func @eval

// Labels have the tokens' shape, are the shifted token stream, and are merged as the logits are.
// TOKENS-LABEL: func.func @step
// TOKENS-SAME: [[L:%[a-z0-9]+]]: tensor<4x2xi64> {train.ignored_label = -100 : i64, train.label_rule = "next_token", train.name = "labels", train.role = #train.role<label>, train.vocabulary = 4 : i64}
// TOKENS: [[M:%.*]] = train.reshape [[L]] : tensor<4x2xi64> -> tensor<8xi64>
// TOKENS: train.cross_entropy {{%.*}}, [[M]] dim 1 ignore -100 smoothing 1.000000e-01
// TOKENS: train.label_count [[L]]

// REFUSED: expected output 0 to be a loss of one floating-point element, but got 'tensor<8x4xf32>'
func.func @forward(%w: tensor<6x4xf32> {train.role = #train.role<parameter>, train.name = "w"},
                   %ids: tensor<4x2xi64> {train.role = #train.role<input>, train.name = "ids"})
    -> (tensor<8x4xf32> {train.role = #train.role<output>, train.name = "output:0"}) {
  %0 = train.embedding %w, %ids : tensor<6x4xf32>, tensor<4x2xi64>
  %1 = train.reshape %0 : tensor<4x2x4xf32> -> tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}
