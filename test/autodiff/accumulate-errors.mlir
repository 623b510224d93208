// RUN: lockstep-opt %s --split-input-file --verify-diagnostics --lockstep-autodiff-build-step="loss=output:0 accumulation-steps=2"

// A maximum over the batch is no sum over micro batches.
// expected-error @below {{gradient accumulation cannot be used: result 'loss' needs the whole batch; compile with --gradient-accumulation-steps 1}}
func.func @forward(%w: tensor<3xf32> {train.role = #train.role<parameter>, train.name = "w"},
                   %x: tensor<8x3xf32> {train.role = #train.role<input>, train.name = "x"})
    -> (tensor<f32> {train.role = #train.role<output>, train.name = "output:0"}) {
  %0 = train.dot_general %x, %w batch [] x [] contract [1] x [0] : tensor<8x3xf32>, tensor<3xf32>
  %1 = train.reduce max %0 dims [0] : tensor<8xf32>
  return %1 : tensor<f32>
}

// -----

// A norm of a sum is not a sum of norms.
func.func @forward(%w: tensor<3xf32> {train.role = #train.role<parameter>, train.name = "w"},
                   %x: tensor<8x3xf32> {train.role = #train.role<input>, train.name = "x"})
    -> (tensor<f32> {train.role = #train.role<output>, train.name = "output:0"}) {
  %0 = train.dot_general %x, %w batch [] x [] contract [1] x [0] : tensor<8x3xf32>, tensor<3xf32>
  %1 = train.multiply %0, %0 : tensor<8xf32>
  %2 = train.reduce sum %1 dims [0] : tensor<8xf32>
  // expected-error @below {{gradient accumulation cannot be used}}
  %3 = train.sqrt %2 : tensor<f32>
  return %3 : tensor<f32>
}
