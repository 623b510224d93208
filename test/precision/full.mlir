// RUN: lockstep-opt %s --lockstep-precision-pipeline --split-input-file --verify-diagnostics

func.func @single(%a: tensor<4xf32>, %i: tensor<4xi64>) -> tensor<4xf32> {
  %0 = train.convert %i : tensor<4xi64> -> tensor<4xf32>
  %1 = train.add %a, %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// expected-error @+1 {{computes in 'bf16', but --precision f32 needs float32 throughout}}
func.func @half_argument(%a: tensor<4xbf16>) {
  return
}

// -----

func.func @half_inside(%a: tensor<4xf32>) {
  // expected-error @+1 {{computes in 'f16', but --precision f32 needs float32 throughout}}
  %0 = train.convert %a : tensor<4xf32> -> tensor<4xf16>
  return
}
