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

// Two contracted dimensions that are not neighbours in one operand.
// CHECK-LABEL: func.func @product
func.func @product(%a: tensor<4x8x16xf32>, %b: tensor<4x3x16xf32>) -> tensor<8x3xf32> {
  // CHECK: [[A:%.*]] = train.transpose {{%.*}} perm [1, 0, 2] : tensor<4x8x16xf32>
  // CHECK: [[B:%.*]] = train.transpose {{%.*}} perm [1, 0, 2] : tensor<4x3x16xf32>
  // CHECK-NEXT: train.dot_general [[A]], [[B]] batch [] x [] contract [1, 2] x [1, 2]
  %0 = train.dot_general %a, %b batch [] x [] contract [0, 2] x [0, 2] : tensor<4x8x16xf32>, tensor<4x3x16xf32>
  return %0 : tensor<8x3xf32>
}

// CHECK-LABEL: func.func @one_side
func.func @one_side(%a: tensor<8x64xf32>, %b: tensor<4x3x16xf32>) -> tensor<8x3xf32> {
  // CHECK: [[A:%.*]] = train.reshape
  // CHECK: [[B:%.*]] = train.transpose {{%.*}} perm [1, 0, 2] : tensor<4x3x16xf32>
  // CHECK: train.dot_general [[A]], [[B]] batch [] x [] contract [1, 2] x [1, 2]
  %r = train.reshape %a : tensor<8x64xf32> -> tensor<8x4x16xf32>
  %0 = train.dot_general %r, %b batch [] x [] contract [1, 2] x [0, 2] : tensor<8x4x16xf32>, tensor<4x3x16xf32>
  return %0 : tensor<8x3xf32>
}
