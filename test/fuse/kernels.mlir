// RUN: lockstep-opt %s --split-input-file --lockstep-fuse-pipeline | FileCheck %s

// A pointwise chain with broadcasts is one kernel.
// CHECK-LABEL: func.func @chain
// CHECK: [[Y:%.*]] = plan.call [[K:@[a-z_0-9]+]]({{%.*}}, {{%.*}}) : (tensor<8x64xf32>, tensor<64xf32>) -> tensor<8x64xf32>
// CHECK-NEXT: return [[Y]]
// CHECK: plan.kernel loop [[K]]
func.func @chain(%x: tensor<8x64xf32>, %b: tensor<64xf32>) -> tensor<8x64xf32> {
  %0 = train.broadcast_in_dim %b dims [1] : tensor<64xf32> -> tensor<8x64xf32>
  %1 = train.add %x, %0 : tensor<8x64xf32>
  %2 = train.tanh %1 : tensor<8x64xf32>
  return %2 : tensor<8x64xf32>
}

// -----

// The residual sum and the norm behind it, with its saved statistics.
// CHECK-LABEL: func.func @layer_norm
// CHECK: [[Y:%.*]]:4 = plan.call
// CHECK-NEXT: return
func.func @layer_norm(%x: tensor<8x64xf32>, %r: tensor<8x64xf32>, %w: tensor<64xf32>, %b: tensor<64xf32>) -> (tensor<8x64xf32>, tensor<8x64xf32>, tensor<8xf32>, tensor<8xf32>) {
  %0 = train.add %x, %r : tensor<8x64xf32>
  %y, %mean, %rstd = train.layer_norm %0 weight %w bias %b axes 1 eps 1.0e-05 : (tensor<8x64xf32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<8x64xf32>, tensor<8xf32>, tensor<8xf32>)
  return %0, %y, %mean, %rstd : tensor<8x64xf32>, tensor<8x64xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// Rows for the operand's gradient, columns for the weights': the normalised operand is computed twice, not stored.
// CHECK-LABEL: func.func @layer_norm_gradient
// CHECK-DAG: plan.call {{@.*}} -> tensor<8x64xf32>
// CHECK-DAG: plan.call {{@.*}} -> (tensor<64xf32>, tensor<64xf32>)
// CHECK-NOT: plan.call
// CHECK: return
func.func @layer_norm_gradient(%dy: tensor<8x64xf32>, %x: tensor<8x64xf32>, %mean: tensor<8xf32>, %rstd: tensor<8xf32>, %w: tensor<64xf32>) -> (tensor<8x64xf32>, tensor<64xf32>, tensor<64xf32>) {
  %dx, %dw, %db = train.layer_norm_gradient %dy, %x, %mean, %rstd weight %w axes 1 : (tensor<8x64xf32>, tensor<8x64xf32>, tensor<8xf32>, tensor<8xf32>, tensor<64xf32>) -> (tensor<8x64xf32>, tensor<64xf32>, tensor<64xf32>)
  return %dx, %dw, %db : tensor<8x64xf32>, tensor<64xf32>, tensor<64xf32>
}

// -----

// Statistics, normalisation, residual and relu: channels are the rows.
// CHECK-LABEL: func.func @batch_norm
// CHECK: plan.call {{@.*}} -> (tensor<16xf32>, tensor<16xf32>, tensor<8x16x4x4xf32>)
// CHECK-NEXT: return
func.func @batch_norm(%x: tensor<8x16x4x4xf32>, %r: tensor<8x16x4x4xf32>, %w: tensor<16xf32>, %b: tensor<16xf32>, %m: tensor<16xf32>, %v: tensor<16xf32>) -> (tensor<8x16x4x4xf32>, tensor<16xf32>, tensor<16xf32>) {
  %y, %mean, %rstd, %rm, %rv = train.batch_norm %x weight %w bias %b running %m, %v momentum 1.0e-01 eps 1.0e-05 : (tensor<8x16x4x4xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<8x16x4x4xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>)
  %zero = train.constant dense<0.0> : tensor<8x16x4x4xf32>
  %0 = train.add %y, %r : tensor<8x16x4x4xf32>
  %1 = train.maximum %0, %zero : tensor<8x16x4x4xf32>
  return %1, %rm, %rv : tensor<8x16x4x4xf32>, tensor<16xf32>, tensor<16xf32>
}

// -----

// Loss and its gradient read the logits once.
// CHECK-LABEL: func.func @cross_entropy
// CHECK: plan.call {{@.*}} -> (tensor<8xf32>, tensor<8x10xf32>)
// CHECK-NEXT: plan.call {{@.*}} : (tensor<8xf32>) -> tensor<f32>
// CHECK-NEXT: return
func.func @cross_entropy(%x: tensor<8x10xf32>, %y: tensor<8xi64>, %s: tensor<f32>) -> (tensor<f32>, tensor<8x10xf32>) {
  %sum, %lse = train.cross_entropy %x, %y dim 1 ignore -100 smoothing 0.0 : (tensor<8x10xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
  %d = train.cross_entropy_gradient %x, %y, %lse, %s dim 1 ignore -100 smoothing 0.0 : (tensor<8x10xf32>, tensor<8xi64>, tensor<8xf32>, tensor<f32>) -> tensor<8x10xf32>
  return %sum, %d : tensor<f32>, tensor<8x10xf32>
}

// -----

// Equal layers share their kernels.
// CHECK-LABEL: func.func @layers
// CHECK: plan.call [[DOT:@dot_general_[0-9]+]](
// CHECK: plan.call [[TANH:@tanh_[0-9]+]](
// CHECK: plan.call [[DOT]](
// CHECK: plan.call [[TANH]](
// CHECK-COUNT-2: plan.kernel
// CHECK-NOT: plan.kernel
func.func @layers(%x: tensor<8x64xf32>, %v: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<8x64xf32> {
  %0 = train.dot_general %x, %v batch [] x [] contract [1] x [0] : tensor<8x64xf32>, tensor<64x64xf32>
  %1 = train.tanh %0 : tensor<8x64xf32>
  %2 = train.dot_general %1, %w batch [] x [] contract [1] x [0] : tensor<8x64xf32>, tensor<64x64xf32>
  %3 = train.tanh %2 : tensor<8x64xf32>
  return %3 : tensor<8x64xf32>
}

// -----

// Views around a product become strides, on both sides.
// CHECK-LABEL: func.func @views
// CHECK: [[R:%.*]] = plan.call [[K:@[a-z_0-9]+]]({{%.*}}, {{%.*}}) : (tensor<64x8xf32>, tensor<64x32xf32>) -> tensor<32x8xf32>
// CHECK-NEXT: return [[R]]
// CHECK: plan.kernel contraction [[K]]
// CHECK: train.transpose
// CHECK: train.dot_general
// CHECK: train.transpose
func.func @views(%x: tensor<64x8xf32>, %w: tensor<64x32xf32>) -> tensor<32x8xf32> {
  %0 = train.transpose %x perm [1, 0] : tensor<64x8xf32>
  %1 = train.dot_general %0, %w batch [] x [] contract [1] x [0] : tensor<8x64xf32>, tensor<64x32xf32>
  %2 = train.transpose %1 perm [1, 0] : tensor<8x32xf32>
  return %2 : tensor<32x8xf32>
}

// -----

// Attention reads heads out of one projection.
// CHECK-LABEL: func.func @heads
// CHECK: [[R:%.*]]:2 = plan.call [[K:@[a-z_0-9]+]]({{%.*}}) : (tensor<2x8x96xf32>) -> (tensor<2x8x2x16xf32>, tensor<2x2x8xf32>)
// CHECK: plan.kernel attention [[K]]
func.func @heads(%x: tensor<2x8x96xf32>) -> tensor<2x8x32xf32> {
  %q0 = train.slice %x [0, 0, 0] to [2, 8, 32] step [1, 1, 1] : tensor<2x8x96xf32>
  %k0 = train.slice %x [0, 0, 32] to [2, 8, 64] step [1, 1, 1] : tensor<2x8x96xf32>
  %v0 = train.slice %x [0, 0, 64] to [2, 8, 96] step [1, 1, 1] : tensor<2x8x96xf32>
  %q1 = train.reshape %q0 : tensor<2x8x32xf32> -> tensor<2x8x2x16xf32>
  %k1 = train.reshape %k0 : tensor<2x8x32xf32> -> tensor<2x8x2x16xf32>
  %v1 = train.reshape %v0 : tensor<2x8x32xf32> -> tensor<2x8x2x16xf32>
  %q = train.transpose %q1 perm [0, 2, 1, 3] : tensor<2x8x2x16xf32>
  %k = train.transpose %k1 perm [0, 2, 1, 3] : tensor<2x8x2x16xf32>
  %v = train.transpose %v1 perm [0, 2, 1, 3] : tensor<2x8x2x16xf32>
  %o, %lse = train.attention %q, %k, %v scale 0.25 {causal} : (tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>) -> (tensor<2x2x8x16xf32>, tensor<2x2x8xf32>)
  %t = train.transpose %o perm [0, 2, 1, 3] : tensor<2x2x8x16xf32>
  %r = train.reshape %t : tensor<2x8x2x16xf32> -> tensor<2x8x32xf32>
  return %r : tensor<2x8x32xf32>
}

// -----

// Leading rows and reshapes are the same memory.
// CHECK-LABEL: func.func @view
// CHECK: [[V:%.*]] = plan.view {{%.*}} at 16 : tensor<4x8xf32> -> tensor<4x4xf32>
// CHECK-NEXT: return [[V]]
func.func @view(%x: tensor<4x8xf32>) -> tensor<4x4xf32> {
  %0 = train.slice %x [2, 0] to [4, 8] step [1, 1] : tensor<4x8xf32>
  %1 = train.reshape %0 : tensor<2x8xf32> -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

// -----

// A transpose that nothing folds is a kernel that copies, together with what it copies.
// CHECK-LABEL: func.func @copy
// CHECK: plan.call {{@.*}} : (tensor<4x8xf32>) -> tensor<8x4xf32>
// CHECK-NEXT: return
func.func @copy(%x: tensor<4x8xf32>) -> tensor<8x4xf32> {
  %0 = train.tanh %x : tensor<4x8xf32>
  %1 = train.transpose %0 perm [1, 0] : tensor<4x8xf32>
  return %1 : tensor<8x4xf32>
}

// -----

// One update kernel serves parameters of any size.
// CHECK-LABEL: func.func @update
// CHECK: plan.call [[K:@[a-z_0-9]+]]({{.*}}) : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>) -> tensor<8xf32>
// CHECK: plan.call [[K]]({{.*}}) : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>, tensor<f32>) -> tensor<2x3xf32>
// CHECK: plan.kernel update [[K]]({{%.*}}: tensor<1xf32>, {{%.*}}: tensor<1xf32>, {{%.*}}: tensor<f32>, {{%.*}}: tensor<f32>) -> tensor<1xf32>
func.func @update(%p: tensor<8xf32>, %g: tensor<8xf32>, %q: tensor<2x3xf32>, %h: tensor<2x3xf32>, %lr: tensor<f32>, %wd: tensor<f32>) -> (tensor<8xf32>, tensor<2x3xf32>) {
  %one = train.constant dense<1.0> : tensor<f32>
  %0 = train.sgd %p, %g scalars %lr, %wd, %one : tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<f32> -> tensor<8xf32>
  %1 = train.sgd %q, %h scalars %lr, %wd, %one : tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>, tensor<f32>, tensor<f32> -> tensor<2x3xf32>
  return %0, %1 : tensor<8xf32>, tensor<2x3xf32>
}

// -----

// tanh is computed again where it saves writing and reading its value; the product's operand is stored.
// CHECK-LABEL: func.func @recompute
// CHECK: plan.call {{@.*}} : (tensor<64x64xf32>) -> tensor<64x64xf32>
// CHECK: plan.call @dot_general
// CHECK: plan.call {{@.*}} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
func.func @recompute(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %t = train.tanh %x : tensor<64x64xf32>
  %y = train.multiply %t, %x : tensor<64x64xf32>
  %d = train.dot_general %y, %w batch [] x [] contract [1] x [0] : tensor<64x64xf32>, tensor<64x64xf32>
  %0 = train.multiply %d, %t : tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}
