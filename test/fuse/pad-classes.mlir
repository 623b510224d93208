// RUN: lockstep-opt %s --lockstep-fuse-pad-classes --cse --canonicalize | FileCheck %s

// 10 classes become 16: the products keep them, what the parameters get is cut.
// CHECK-LABEL: func.func @step
// CHECK: [[I:%[a-z0-9_]*]] = train.constant dense<0xFF800000>
// CHECK: [[W:%.*]] = train.pad %arg1, {{%.*}} low [0, 0] high [6, 0] interior [0, 0] : tensor<10x8xbf16>
// CHECK: train.dot_general %arg0, [[W]] {{.*}} : tensor<4x8xbf16>, tensor<16x8xbf16>
// CHECK: [[B:%.*]] = train.pad %arg2, [[I]] low [0] high [6] interior [0] : tensor<10xf32>
// CHECK: train.cross_entropy {{.*}} : (tensor<4x16xf32>, tensor<4xi64>)
// CHECK: [[G:%.*]] = train.cross_entropy_gradient {{.*}} -> tensor<4x16xf32>
// CHECK: [[DB:%.*]] = train.reduce {{ *}}sum [[G]] dims [0] : tensor<4x16xf32>
// CHECK: [[CB:%.*]] = train.slice [[DB]] [0] to [10]
// CHECK: [[N:%.*]] = train.convert [[G]]
// CHECK: [[DX:%.*]] = train.dot_general [[N]], [[W]] {{.*}} : tensor<4x16xbf16>, tensor<16x8xbf16>
// CHECK: [[DW:%.*]] = train.dot_general [[N]], %arg0 {{.*}} : tensor<4x16xbf16>, tensor<4x8xbf16>
// CHECK: [[CW:%.*]] = train.slice [[DW]] [0, 0] to [10, 8]
// CHECK: return {{%.*}}, [[CB]], [[DX]], [[CW]]
func.func @step(%x: tensor<4x8xbf16>, %w: tensor<10x8xbf16>, %bias: tensor<10xf32>, %labels: tensor<4xi64>, %scale: tensor<f32>) -> (tensor<f32>, tensor<10xf32>, tensor<4x8xbf16>, tensor<10x8xbf16>) {
  %0 = train.dot_general %x, %w batch [] x [] contract [1] x [1] : tensor<4x8xbf16>, tensor<10x8xbf16>
  %1 = train.convert %0 : tensor<4x10xbf16> -> tensor<4x10xf32>
  %2 = train.broadcast_in_dim %bias dims [1] : tensor<10xf32> -> tensor<4x10xf32>
  %3 = train.add %1, %2 : tensor<4x10xf32>
  %loss, %lse = train.cross_entropy %3, %labels dim 1 ignore -100 smoothing 0.0 : (tensor<4x10xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<4xf32>)
  %g = train.cross_entropy_gradient %3, %labels, %lse, %scale dim 1 ignore -100 smoothing 0.0 : (tensor<4x10xf32>, tensor<4xi64>, tensor<4xf32>, tensor<f32>) -> tensor<4x10xf32>
  %db = train.reduce sum %g dims [0] : tensor<4x10xf32>
  %n = train.convert %g : tensor<4x10xf32> -> tensor<4x10xbf16>
  %dx = train.dot_general %n, %w batch [] x [] contract [1] x [0] : tensor<4x10xbf16>, tensor<10x8xbf16>
  %dw = train.dot_general %n, %x batch [] x [] contract [0] x [0] : tensor<4x10xbf16>, tensor<4x8xbf16>
  return %loss, %db, %dx, %dw : tensor<f32>, tensor<10xf32>, tensor<4x8xbf16>, tensor<10x8xbf16>
}

// Smoothing counts the classes, and what fits stays.
// CHECK-LABEL: func.func @smoothed
// CHECK-NOT: train.pad
// CHECK-LABEL: func.func @fits
// CHECK-NOT: train.pad
func.func @smoothed(%x: tensor<4x8xbf16>, %w: tensor<10x8xbf16>, %labels: tensor<4xi64>) -> tensor<f32> {
  %0 = train.dot_general %x, %w batch [] x [] contract [1] x [1] : tensor<4x8xbf16>, tensor<10x8xbf16>
  %1 = train.convert %0 : tensor<4x10xbf16> -> tensor<4x10xf32>
  %loss, %lse = train.cross_entropy %1, %labels dim 1 ignore -100 smoothing 0.1 : (tensor<4x10xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<4xf32>)
  return %loss : tensor<f32>
}
func.func @fits(%x: tensor<4x8xbf16>, %w: tensor<16x8xbf16>, %labels: tensor<4xi64>) -> tensor<f32> {
  %0 = train.dot_general %x, %w batch [] x [] contract [1] x [1] : tensor<4x8xbf16>, tensor<16x8xbf16>
  %1 = train.convert %0 : tensor<4x16xbf16> -> tensor<4x16xf32>
  %loss, %lse = train.cross_entropy %1, %labels dim 1 ignore -100 smoothing 0.0 : (tensor<4x16xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<4xf32>)
  return %loss : tensor<f32>
}

// No bias: zeros, and minus infinity behind them. Other readers of the logits see the classes.
// CHECK-LABEL: func.func @read
// CHECK: [[L:%.*]] = train.add {{.*}} : tensor<4x16xf32>
// CHECK: train.slice [[L]] [0, 0] to [4, 10]
func.func @read(%x: tensor<4x8xbf16>, %w: tensor<8x10xbf16>, %labels: tensor<4xi64>) -> (tensor<f32>, tensor<4x10xf32>) {
  %0 = train.dot_general %x, %w batch [] x [] contract [1] x [0] : tensor<4x8xbf16>, tensor<8x10xbf16>
  %1 = train.convert %0 : tensor<4x10xbf16> -> tensor<4x10xf32>
  %loss, %lse = train.cross_entropy %1, %labels dim 1 ignore -100 smoothing 0.0 : (tensor<4x10xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<4xf32>)
  return %loss, %1 : tensor<f32>, tensor<4x10xf32>
}
