// RUN: lockstep-opt %s --lockstep-precision-pipeline=policy=bf16-mixed | FileCheck %s

// Operands are rounded, each value once; the sum of the bias stays wide, and is rounded in front of the turn, not behind it.
// CHECK-LABEL: func.func @products
// CHECK-DAG: [[X:%.*]] = train.convert %arg0 : tensor<8x4xf32> -> tensor<8x4xbf16>
// CHECK-DAG: [[W:%.*]] = train.convert %arg1 : tensor<4x6xf32> -> tensor<4x6xbf16>
// CHECK: [[P:%.*]] = train.dot_general [[X]], [[W]] {{.*}} : tensor<8x4xbf16>, tensor<4x6xbf16>
// CHECK: [[WIDE:%.*]] = train.convert [[P]] : tensor<8x6xbf16> -> tensor<8x6xf32>
// CHECK: [[SUM:%.*]] = train.add [[WIDE]], {{%.*}} : tensor<8x6xf32>
// CHECK: [[ROUND:%.*]] = train.convert [[SUM]] : tensor<8x6xf32> -> tensor<8x6xbf16>
// CHECK: [[TURN:%.*]] = train.transpose [[ROUND]] {{.*}} : tensor<8x6xbf16>
// CHECK: train.dot_general [[TURN]], [[X]]
func.func @products(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>, %bias: tensor<6xf32>) -> tensor<6x4xf32> {
  %0 = train.dot_general %x, %w batch [] x [] contract [1] x [0] : tensor<8x4xf32>, tensor<4x6xf32>
  %1 = train.broadcast_in_dim %bias dims [1] : tensor<6xf32> -> tensor<8x6xf32>
  %2 = train.add %0, %1 : tensor<8x6xf32>
  %3 = train.transpose %2 perm [1, 0] : tensor<8x6xf32>
  %4 = train.dot_general %3, %x batch [] x [] contract [1] x [0] : tensor<6x8xf32>, tensor<8x4xf32>
  return %4 : tensor<6x4xf32>
}

// What only moves between products stays narrow; the softmax's sums and the mask stay wide.
// CHECK-LABEL: func.func @moves
// CHECK: [[OUT:%.*]], [[LSE:%.*]] = train.attention {{.*}} mask %arg1 {{.*}} -> (tensor<2x2x4x8xbf16>, tensor<2x2x4xf32>)
// CHECK-NOT: train.convert [[OUT]]
// CHECK: [[TURN:%.*]] = train.transpose [[OUT]]
// CHECK: [[FLAT:%.*]] = train.reshape [[TURN]] : tensor<2x4x2x8xbf16> -> tensor<8x16xbf16>
// CHECK: train.dot_general [[FLAT]]
func.func @moves(%q: tensor<2x2x4x8xf32>, %mask: tensor<2x1x1x4xf32>, %w: tensor<16x16xf32>) -> tensor<8x16xf32> {
  %0, %lse = train.attention %q, %q, %q mask %mask scale 1.0 : (tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32>, tensor<2x1x1x4xf32>) -> (tensor<2x2x4x8xf32>, tensor<2x2x4xf32>)
  %1 = train.transpose %0 perm [0, 2, 1, 3] : tensor<2x2x4x8xf32>
  %2 = train.reshape %1 : tensor<2x4x2x8xf32> -> tensor<8x16xf32>
  %3 = train.dot_general %2, %w batch [] x [] contract [1] x [0] : tensor<8x16xf32>, tensor<16x16xf32>
  return %3 : tensor<8x16xf32>
}

// A moved value that others read as well is rounded behind the move.
// CHECK-LABEL: func.func @shared
// CHECK: [[T:%.*]] = train.transpose %arg0 {{.*}} : tensor<4x4xf32>
// CHECK: [[R:%.*]] = train.convert [[T]] : tensor<4x4xf32> -> tensor<4x4xbf16>
// CHECK: train.dot_general [[R]]
// CHECK: train.add {{.*}}[[T]]
func.func @shared(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = train.transpose %x perm [1, 0] : tensor<4x4xf32>
  %1 = train.dot_general %0, %w batch [] x [] contract [1] x [0] : tensor<4x4xf32>, tensor<4x4xf32>
  %2 = train.add %1, %0 : tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}

// Integers and f64 are as they were.
// CHECK-LABEL: func.func @others
// CHECK-NOT: train.convert
// CHECK: return
func.func @others(%x: tensor<4x4xf64>, %i: tensor<4x4xi64>) -> (tensor<4x4xf64>, tensor<4x4xi64>) {
  %0 = train.dot_general %x, %x batch [] x [] contract [1] x [0] : tensor<4x4xf64>, tensor<4x4xf64>
  %1 = train.dot_general %i, %i batch [] x [] contract [1] x [0] : tensor<4x4xi64>, tensor<4x4xi64>
  return %0, %1 : tensor<4x4xf64>, tensor<4x4xi64>
}
