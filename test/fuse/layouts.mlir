// RUN: lockstep-opt %s --lockstep-fuse-layouts | FileCheck %s

// The output is written as the product wants it; the gradient sees it through the inverse view.
// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<2x4x8x16xf32>, %d: tensor<2x4x8x16xf32>) -> (tensor<2x8x64xf32>, tensor<2x4x8x16xf32>) {
  // CHECK: [[O:%.*]], [[LSE:%.*]] = train.attention
  %o, %lse = train.attention %q, %q, %q scale 1.0 : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
  // CHECK: [[T:%.*]] = train.transpose [[O]] perm [0, 2, 1, 3]
  // CHECK: [[BACK:%.*]] = train.transpose [[T]] perm [0, 2, 1, 3]
  // CHECK: train.attention_gradient {{%.*}}, {{%.*}}, {{%.*}}, {{%.*}}, [[BACK]], [[LSE]]
  %dq, %dk, %dv = train.attention_gradient %d, %q, %q, %q, %o, %lse scale 1.0 : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>)
  %t = train.transpose %o perm [0, 2, 1, 3] : tensor<2x4x8x16xf32>
  // CHECK: train.reshape [[T]]
  %r = train.reshape %t : tensor<2x8x4x16xf32> -> tensor<2x8x64xf32>
  return %r, %dq : tensor<2x8x64xf32>, tensor<2x4x8x16xf32>
}
