// RUN: lockstep-opt %s --split-input-file --verify-diagnostics --lockstep-autodiff-build-step="loss=cross_entropy"

// expected-error @below {{cross_entropy needs floating-point logits with the class dimension -1, but the graph's first output is 'tensor<8x4xi64>'}}
func.func @forward(%x: tensor<8x4xi64> {train.role = #train.role<input>, train.name = "x"})
    -> (tensor<8x4xi64> {train.role = #train.role<output>, train.name = "output:0"}) {
  return %x : tensor<8x4xi64>
}

// -----

// expected-error @below {{the loss is output 0, but the graph has 0 outputs}}
func.func @forward(%x: tensor<8x4xf32> {train.role = #train.role<input>, train.name = "x"}) {
  return
}

// -----

// expected-error @below {{expected argument 0 of @forward to be a tensor with `train.role`}}
func.func @forward(%x: tensor<8x4xf32>) {
  return
}

// -----

// expected-error @below {{the loss depends on no trainable parameter}}
func.func @forward(%x: tensor<8x4xf32> {train.role = #train.role<input>, train.name = "x"})
    -> (tensor<8x4xf32> {train.role = #train.role<output>, train.name = "output:0"}) {
  return %x : tensor<8x4xf32>
}
