// Large logits exist a part of their rows at a time.
// RUN: lockstep-opt %s --lockstep-fuse-cut-loss="max-bytes=800 least-rows=8" | FileCheck %s
// RUN: lockstep-opt %s --lockstep-fuse-cut-loss | FileCheck %s --check-prefix=WHOLE
// RUN: lockstep-opt %s --lockstep-fuse-cut-loss="max-bytes=800 least-rows=32" | FileCheck %s --check-prefix=WHOLE

// WHOLE-NOT: plan.view

// CHECK-LABEL: func.func @step
// CHECK: [[X0:%.*]] = plan.view %arg0 : tensor<4x8x16xbf16> -> tensor<16x16xbf16>
// CHECK: [[L0:%.*]] = train.dot_general [[X0]], %arg1
// CHECK: train.cross_entropy
// CHECK: train.cross_entropy_gradient
// CHECK: [[DX0:%.*]] = train.dot_general {{.*}}, %arg1
// CHECK: [[DW0:%.*]] = train.dot_general {{.*}} contract [0] x [0]
// CHECK: [[W0:%.*]] = train.convert [[DW0]]
// CHECK: plan.view %arg0 at 256
// CHECK: [[LOSS1:%.*]], {{%.*}} = train.cross_entropy
// CHECK: [[DX1:%.*]] = train.dot_general {{.*}}, %arg1
// CHECK: [[W1:%.*]] = train.convert
// CHECK: train.add [[W0]], [[W1]] : tensor<24x16xf32>
// CHECK: plan.join {{%.*}}, [[LOSS1]] : tensor<f32>, tensor<f32> -> tensor<2xf32>
// CHECK: plan.join [[DX0]], [[DX1]]
// The loss stood before the gradient.
// CHECK: train.divide
func.func @step(%x: tensor<4x8x16xbf16> {train.role = #train.role<input>, train.name = "x"}, %w: tensor<24x16xbf16> {train.role = #train.role<parameter>, train.name = "w"}, %labels: tensor<4x8xi64> {train.role = #train.role<label>, train.name = "labels"}, %scale: tensor<f32> {train.role = #train.role<hyperparameter>, train.name = "scale"}) -> (tensor<f32> {train.role = #train.role<metric>, train.name = "loss"}, tensor<4x8x16xf32> {train.role = #train.role<output>, train.name = "dx"}, tensor<24x16xf32> {train.role = #train.role<output>, train.name = "dw"}) {
  %0 = train.dot_general %x, %w batch [] x [] contract [2] x [1] : tensor<4x8x16xbf16>, tensor<24x16xbf16>
  %1 = train.convert %0 : tensor<4x8x24xbf16> -> tensor<4x8x24xf32>
  %sum, %lse = train.cross_entropy %1, %labels dim 2 ignore 3 smoothing 0.0 : (tensor<4x8x24xf32>, tensor<4x8xi64>) -> (tensor<f32>, tensor<4x8xf32>)
  %loss = train.divide %sum, %scale : tensor<f32>
  %2 = train.cross_entropy_gradient %1, %labels, %lse, %scale dim 2 ignore 3 smoothing 0.0 : (tensor<4x8x24xf32>, tensor<4x8xi64>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8x24xf32>
  %3 = train.convert %2 : tensor<4x8x24xf32> -> tensor<4x8x24xbf16>
  %4 = train.dot_general %3, %w batch [] x [] contract [2] x [0] : tensor<4x8x24xbf16>, tensor<24x16xbf16>
  %5 = train.dot_general %3, %x batch [] x [] contract [0, 1] x [0, 1] : tensor<4x8x24xbf16>, tensor<4x8x16xbf16>
  %6 = train.convert %5 : tensor<24x16xbf16> -> tensor<24x16xf32>
  %7 = train.convert %4 : tensor<4x8x16xbf16> -> tensor<4x8x16xf32>
  return %loss, %7, %6 : tensor<f32>, tensor<4x8x16xf32>, tensor<24x16xf32>
}

// A bias, merged rows, and its gradient.
// CHECK-LABEL: func.func @biased
// CHECK: train.broadcast_in_dim %arg3 dims [1] : tensor<24xf32> -> tensor<16x24xf32>
// CHECK: [[B0:%.*]] = train.reduce {{ *}}sum {{.*}} dims [0] : tensor<16x24xf32>
// CHECK: [[B1:%.*]] = train.reduce {{ *}}sum {{.*}} dims [0] : tensor<16x24xf32>
// CHECK: train.add [[B0]], [[B1]] : tensor<24xf32>
func.func @biased(%x: tensor<4x8x16xbf16>, %w: tensor<16x24xbf16>, %labels: tensor<32xi64>, %bias: tensor<24xf32>, %scale: tensor<f32>) -> (tensor<f32>, tensor<24xf32>) {
  %0 = train.dot_general %x, %w batch [] x [] contract [2] x [0] : tensor<4x8x16xbf16>, tensor<16x24xbf16>
  %1 = train.convert %0 : tensor<4x8x24xbf16> -> tensor<4x8x24xf32>
  %b = train.broadcast_in_dim %bias dims [2] : tensor<24xf32> -> tensor<4x8x24xf32>
  %2 = train.add %1, %b : tensor<4x8x24xf32>
  %3 = train.reshape %2 : tensor<4x8x24xf32> -> tensor<32x24xf32>
  %sum, %lse = train.cross_entropy %3, %labels dim 1 ignore 3 smoothing 0.0 : (tensor<32x24xf32>, tensor<32xi64>) -> (tensor<f32>, tensor<32xf32>)
  %4 = train.cross_entropy_gradient %3, %labels, %lse, %scale dim 1 ignore 3 smoothing 0.0 : (tensor<32x24xf32>, tensor<32xi64>, tensor<32xf32>, tensor<f32>) -> tensor<32x24xf32>
  %5 = train.reduce sum %4 dims [0] : tensor<32x24xf32>
  return %sum, %5 : tensor<f32>, tensor<24xf32>
}

// Something else reads the logits: they stay whole.
// CHECK-LABEL: func.func @returned
// CHECK-NOT: plan.view
func.func @returned(%x: tensor<32x16xbf16>, %w: tensor<16x24xbf16>, %labels: tensor<32xi64>, %scale: tensor<f32>) -> (tensor<f32>, tensor<24xbf16>, tensor<32x24xbf16>) {
  %0 = train.dot_general %x, %w batch [] x [] contract [1] x [0] : tensor<32x16xbf16>, tensor<16x24xbf16>
  %sum, %lse = train.cross_entropy %0, %labels dim 1 ignore 3 smoothing 0.0 : (tensor<32x24xbf16>, tensor<32xi64>) -> (tensor<f32>, tensor<32xf32>)
  %1 = train.cross_entropy_gradient %0, %labels, %lse, %scale dim 1 ignore 3 smoothing 0.0 : (tensor<32x24xbf16>, tensor<32xi64>, tensor<32xf32>, tensor<f32>) -> tensor<32x24xbf16>
  %2 = train.reduce sum %1 dims [0] : tensor<32x24xbf16>
  return %sum, %2, %0 : tensor<f32>, tensor<24xbf16>, tensor<32x24xbf16>
}
