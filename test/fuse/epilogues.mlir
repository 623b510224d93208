// RUN: lockstep-opt %s --split-input-file --lockstep-fuse-epilogues | FileCheck %s

// A row added and the result rounded: one kernel, which reads the bias rounded. Reshapes in between do not matter.
// CHECK-LABEL: func.func @bias
// CHECK: [[B:%.*]] = train.convert %arg2 : tensor<16xf32> -> tensor<16xbf16>
// CHECK: [[Y:%.*]] = plan.call @[[K:.*]](%arg0, %arg1, [[B]]) : (tensor<2x4x8xbf16>, tensor<8x16xbf16>, tensor<16xbf16>) -> tensor<8x16xbf16>
// CHECK-NEXT: [[R:%.*]] = train.reshape [[Y]]
// CHECK-NEXT: return [[R]]
// CHECK: plan.kernel contraction @[[K]]
// CHECK: train.reshape %arg0
// CHECK: train.dot_general
// CHECK: train.add
// CHECK: plan.return
func.func @bias(%x: tensor<2x4x8xbf16>, %w: tensor<8x16xbf16>, %b: tensor<16xf32>) -> tensor<2x4x16xbf16> {
  %0 = train.reshape %x : tensor<2x4x8xbf16> -> tensor<8x8xbf16>
  %1 = train.dot_general %0, %w batch [] x [] contract [1] x [0] : tensor<8x8xbf16>, tensor<8x16xbf16>
  %2 = train.convert %1 : tensor<8x16xbf16> -> tensor<8x16xf32>
  %3 = train.broadcast_in_dim %b dims [1] : tensor<16xf32> -> tensor<8x16xf32>
  %4 = train.add %2, %3 : tensor<8x16xf32>
  %5 = train.convert %4 : tensor<8x16xf32> -> tensor<8x16xbf16>
  %6 = train.reshape %5 : tensor<8x16xbf16> -> tensor<2x4x16xbf16>
  return %6 : tensor<2x4x16xbf16>
}

// -----

// GELU in its erf form, spelled with a division; nobody else reads its input.
// CHECK-LABEL: func.func @gelu
// CHECK: [[Y:%.*]] = plan.call @{{.*}}(%arg0, %arg1) : (tensor<8x8xbf16>, tensor<8x16xbf16>) -> tensor<8x16xbf16>
// CHECK-NEXT: return [[Y]]
func.func @gelu(%x: tensor<8x8xbf16>, %w: tensor<8x16xbf16>) -> tensor<8x16xbf16> {
  %1 = train.dot_general %x, %w batch [] x [] contract [1] x [0] : tensor<8x8xbf16>, tensor<8x16xbf16>
  %2 = train.convert %1 : tensor<8x16xbf16> -> tensor<8x16xf32>
  %root = train.constant dense<1.41421354> : tensor<8x16xf32>
  %one = train.constant dense<1.0> : tensor<8x16xf32>
  %half = train.constant dense<0.5> : tensor<8x16xf32>
  %3 = train.divide %2, %root : tensor<8x16xf32>
  %4 = train.erf %3 : tensor<8x16xf32>
  %5 = train.add %4, %one : tensor<8x16xf32>
  %6 = train.multiply %5, %2 : tensor<8x16xf32>
  %7 = train.multiply %6, %half : tensor<8x16xf32>
  %8 = train.convert %7 : tensor<8x16xf32> -> tensor<8x16xbf16>
  return %8 : tensor<8x16xbf16>
}

// -----

// SiLU forward saves its input for the derivative, which the product of the gradient takes; what sums that gradient reads it rounded.
// CHECK-LABEL: func.func @saved
// CHECK: [[Y:%.*]]:2 = plan.call @[[F:.*]](%arg0, %arg1) : (tensor<8x8xbf16>, tensor<8x16xbf16>) -> (tensor<8x16xbf16>, tensor<8x16xbf16>)
// CHECK: [[G:%.*]] = plan.call @[[B:.*]](%arg2, %arg3, [[Y]]#1) : (tensor<8x8xbf16>, tensor<16x8xbf16>, tensor<8x16xbf16>) -> tensor<8x16xbf16>
// CHECK-NEXT: [[W:%.*]] = train.convert [[G]] : tensor<8x16xbf16> -> tensor<8x16xf32>
// CHECK-NEXT: [[S:%.*]] = train.reduce {{ *}}sum [[W]] dims [0]
// CHECK-NEXT: return [[Y]]#0, [[G]], [[S]]
// CHECK: plan.kernel contraction @[[F]]
// CHECK: train.logistic
// CHECK: plan.return {{.*}} : tensor<8x16xbf16>, tensor<8x16xbf16>
// CHECK: plan.kernel contraction @[[B]]
// CHECK: train.logistic
// CHECK: plan.return {{.*}} : tensor<8x16xbf16>
func.func @saved(%x: tensor<8x8xbf16>, %w: tensor<8x16xbf16>, %dy: tensor<8x8xbf16>, %v: tensor<16x8xbf16>) -> (tensor<8x16xbf16>, tensor<8x16xbf16>, tensor<16xf32>) {
  %1 = train.dot_general %x, %w batch [] x [] contract [1] x [0] : tensor<8x8xbf16>, tensor<8x16xbf16>
  %2 = train.convert %1 : tensor<8x16xbf16> -> tensor<8x16xf32>
  %3 = train.logistic %2 : tensor<8x16xf32>
  %4 = train.multiply %2, %3 : tensor<8x16xf32>
  %5 = train.convert %4 : tensor<8x16xf32> -> tensor<8x16xbf16>
  %6 = train.dot_general %dy, %v batch [] x [] contract [1] x [1] : tensor<8x8xbf16>, tensor<16x8xbf16>
  %7 = train.convert %6 : tensor<8x16xbf16> -> tensor<8x16xf32>
  %one = train.constant dense<1.0> : tensor<8x16xf32>
  %8 = train.multiply %7, %3 : tensor<8x16xf32>
  %9 = train.multiply %7, %2 : tensor<8x16xf32>
  %10 = train.subtract %one, %3 : tensor<8x16xf32>
  %11 = train.multiply %3, %10 : tensor<8x16xf32>
  %12 = train.multiply %9, %11 : tensor<8x16xf32>
  %13 = train.add %8, %12 : tensor<8x16xf32>
  %14 = train.convert %13 : tensor<8x16xf32> -> tensor<8x16xbf16>
  %15 = train.reduce sum %13 dims [0] : tensor<8x16xf32>
  return %5, %14, %15 : tensor<8x16xbf16>, tensor<8x16xbf16>, tensor<16xf32>
}

// -----

// A weight's gradient is stored as f32 where it is read from memory.
// CHECK-LABEL: func.func @wide
// CHECK: [[D:%.*]] = plan.call @{{.*}}(%arg0, %arg1) : (tensor<32x8xbf16>, tensor<32x16xbf16>) -> tensor<8x16xf32>
// CHECK-NEXT: return [[D]]
func.func @wide(%x: tensor<32x8xbf16>, %dy: tensor<32x16xbf16>) -> tensor<8x16xf32> {
  %0 = train.dot_general %x, %dy batch [] x [] contract [0] x [0] : tensor<32x8xbf16>, tensor<32x16xbf16>
  %1 = train.convert %0 : tensor<8x16xbf16> -> tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}

// -----

// Rows and sequences of a transposed operand have no common stride: the kernel reads the transposed tensor.
// CHECK-LABEL: func.func @transposed
// CHECK: [[T:%.*]] = train.transpose %arg0
// CHECK: [[D:%.*]] = plan.call @[[K:.*]]([[T]], %arg1) : (tensor<2x16x4x8xbf16>, tensor<32x16xbf16>) -> tensor<32x16xf32>
// CHECK-NEXT: return [[D]]
// CHECK: plan.kernel contraction @[[K]]
// CHECK-NOT: transpose
func.func @transposed(%x: tensor<2x4x16x8xbf16>, %dy: tensor<32x16xbf16>) -> tensor<32x16xf32> {
  %0 = train.transpose %x perm [0, 2, 1, 3] : tensor<2x4x16x8xbf16>
  %1 = train.reshape %0 : tensor<2x16x4x8xbf16> -> tensor<32x32xbf16>
  %2 = train.dot_general %1, %dy batch [] x [] contract [0] x [0] : tensor<32x32xbf16>, tensor<32x16xbf16>
  %3 = train.convert %2 : tensor<32x16xbf16> -> tensor<32x16xf32>
  return %3 : tensor<32x16xf32>
}

// -----

// A loop reads rounded sums with fewer bytes.
// CHECK-LABEL: func.func @loop
// CHECK-NOT: plan.call
// CHECK: train.dot_general
func.func @loop(%x: tensor<8x8xbf16>, %w: tensor<8x16xbf16>, %r: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = train.dot_general %x, %w batch [] x [] contract [1] x [0] : tensor<8x8xbf16>, tensor<8x16xbf16>
  %1 = train.convert %0 : tensor<8x16xbf16> -> tensor<8x16xf32>
  %2 = train.add %1, %r : tensor<8x16xf32>
  return %2 : tensor<8x16xf32>
}

// -----

// Not an activation that kernels have (tanh), rows of 10 elements (no multiple of 16 bytes), and sums that f32 work reads besides: as they are.
// CHECK-LABEL: func.func @refused
// CHECK-NOT: plan.call
// CHECK: return
func.func @refused(%x: tensor<8x8xbf16>, %w: tensor<8x16xbf16>, %v: tensor<8x10xbf16>, %b: tensor<10xf32>, %c: tensor<16xf32>)
    -> (tensor<8x16xbf16>, tensor<8x10xbf16>, tensor<8x16xbf16>, tensor<8x16xf32>) {
  %0 = train.dot_general %x, %w batch [] x [] contract [1] x [0] : tensor<8x8xbf16>, tensor<8x16xbf16>
  %1 = train.convert %0 : tensor<8x16xbf16> -> tensor<8x16xf32>
  %2 = train.tanh %1 : tensor<8x16xf32>
  %3 = train.convert %2 : tensor<8x16xf32> -> tensor<8x16xbf16>
  %4 = train.dot_general %x, %v batch [] x [] contract [1] x [0] : tensor<8x8xbf16>, tensor<8x10xbf16>
  %5 = train.convert %4 : tensor<8x10xbf16> -> tensor<8x10xf32>
  %6 = train.broadcast_in_dim %b dims [1] : tensor<10xf32> -> tensor<8x10xf32>
  %7 = train.add %5, %6 : tensor<8x10xf32>
  %8 = train.convert %7 : tensor<8x10xf32> -> tensor<8x10xbf16>
  %10 = train.dot_general %x, %w batch [] x [] contract [0] x [0] : tensor<8x8xbf16>, tensor<8x16xbf16>
  %11 = train.convert %10 : tensor<8x16xbf16> -> tensor<8x16xf32>
  %12 = train.broadcast_in_dim %c dims [1] : tensor<16xf32> -> tensor<8x16xf32>
  %13 = train.add %11, %12 : tensor<8x16xf32>
  %14 = train.convert %13 : tensor<8x16xf32> -> tensor<8x16xbf16>
  %15 = train.negate %13 : tensor<8x16xf32>
  return %3, %8, %14, %15 : tensor<8x16xbf16>, tensor<8x10xbf16>, tensor<8x16xbf16>, tensor<8x16xf32>
}
