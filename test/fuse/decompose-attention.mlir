// RUN: lockstep-opt %s --lockstep-fuse-decompose=attention=true | FileCheck %s
// RUN: lockstep-opt %s --lockstep-fuse-decompose | FileCheck %s --check-prefix=WHOLE

// For targets without a kernel of it, attention is products and softmax.
// CHECK-LABEL: func.func @attention
// CHECK-NOT: train.attention
// CHECK: train.dot_general
// CHECK: train.exponential
// CHECK: train.dot_general
// WHOLE: train.attention
func.func @attention(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x8x16xf32>, %v: tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32> {
  %0, %lse = train.attention %q, %k, %v scale 0.25 {causal} : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
  return %0 : tensor<2x4x8x16xf32>
}
