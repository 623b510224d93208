// RUN: lockstep-opt %s --lockstep-partition-data-parallel=ranks=3 -split-input-file -verify-diagnostics

// expected-error @+1 {{input 'x': batch 8 is not divisible by 3 ranks; choose a batch size that is, or pass --whole x if dimension 0 is not the batch}}
func.func @step(%x: tensor<8x4xf32> {train.role = #train.role<input>, train.name = "x"}) {
  return
}

// -----

// expected-error @+1 {{input 's' has no dimension to divide over 3 ranks; pass --whole s if every rank needs it}}
func.func @step(%x: tensor<f32> {train.role = #train.role<input>, train.name = "s"}) {
  return
}

// -----

// expected-error @+1 {{input 'x': batch 9 is not divisible by 6 (3 ranks times 2 accumulation steps); choose a batch size that is, or pass --whole x if dimension 0 is not the batch}}
func.func @step(%x: tensor<9xf32> {train.role = #train.role<input>, train.name = "x"}) -> tensor<f32> {
  %y = train.slice %x [0] to [8] step [1] : tensor<9xf32>
  %0 = train.accumulate 2 batch(%y) carried() : (tensor<8xf32>) -> tensor<f32> {
  ^bb0(%a: tensor<4xf32>, %k: tensor<i64>):
    %s = train.reduce sum %a dims [0] : tensor<4xf32>
    train.yield %s : tensor<f32>
  }
  return %0 : tensor<f32>
}
