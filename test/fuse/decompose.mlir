// RUN: lockstep-opt %s --lockstep-fuse-decompose | FileCheck %s

dist.mesh @mesh ["data" = 4]

// What has no kernel of its own becomes primitive.
// CHECK-LABEL: func.func @softmax
func.func @softmax(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK-NOT: train.softmax
  // CHECK: train.reduce {{ *}}max
  // CHECK: train.exponential
  // CHECK: train.reduce {{ *}}sum
  %0 = train.softmax %x dim 1 : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// Attention is a kernel.
// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32> {
  // CHECK: train.attention
  %0, %1 = train.attention %q, %q, %q scale 1.0 {causal} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4xf32>)
  return %0 : tensor<1x2x4x8xf32>
}

// An embedding's gradient is a scatter into zeros.
// CHECK-LABEL: func.func @embedding
func.func @embedding(%dy: tensor<8x64xf32>, %ids: tensor<8xi64>) -> tensor<512x64xf32> {
  // CHECK: [[ZERO:%.*]] = train.constant dense<0.000000e+00> : tensor<512x64xf32>
  // CHECK: train.scatter {{ *}}add [[ZERO]]
  %0 = train.embedding_gradient %dy, %ids : tensor<8x64xf32>, tensor<8xi64> -> tensor<512x64xf32>
  return %0 : tensor<512x64xf32>
}

// Sorting runs along the last dimension.
// CHECK-LABEL: func.func @sort
func.func @sort(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xi64>) {
  // CHECK: [[T:%.*]] = train.transpose {{%.*}} perm [1, 0]
  // CHECK: [[V:%.*]], [[I:%.*]] = train.sort [[T]] dim 1
  // CHECK: train.transpose [[V]] perm [1, 0]
  // CHECK: train.transpose [[I]] perm [1, 0]
  %v, %i = train.sort %x dim 0 : tensor<4x8xf32>
  return %v, %i : tensor<4x8xf32>, tensor<4x8xi64>
}

// CHECK-LABEL: func.func @arg_reduce
func.func @arg_reduce(%x: tensor<4x8x2xf32>) -> tensor<4x2xi64> {
  // CHECK: [[T:%.*]] = train.transpose {{%.*}} perm [0, 2, 1]
  // CHECK: [[R:%.*]] = train.arg_reduce {{ *}}max [[T]] dim 2 : tensor<4x2x8xf32>
  // CHECK: return [[R]]
  %0 = train.arg_reduce max %x dim 1 : tensor<4x8x2xf32>
  return %0 : tensor<4x2xi64>
}

// A rank's part of a whole value is a gather by its coordinate.
// CHECK-LABEL: func.func @local_slice
func.func @local_slice(%x: tensor<8x3xf32>) -> tensor<2x3xf32> {
  // CHECK: [[PLACE:%.*]] = dist.coordinate on @mesh
  // CHECK: [[BLOCKS:%.*]] = train.reshape {{%.*}} : tensor<8x3xf32> -> tensor<4x2x3xf32>
  // CHECK: train.gather [[BLOCKS]]{{\[}}[[PLACE]]] dims [0]
  %0 = dist.local_slice %x dim 0 on @mesh ["data"] : tensor<8x3xf32> -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
