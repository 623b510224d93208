// RUN: lockstep-opt %s --lockstep-fuse-split-reductions=threshold=64 | FileCheck %s

// Chunks are a divisor of the size.
// CHECK-LABEL: func.func @divisor
func.func @divisor(%x: tensor<10x20xf32>) -> tensor<f32> {
  // CHECK: [[CHUNKS:%.*]] = train.reshape {{%.*}} : tensor<10x20xf32> -> tensor<4x50xf32>
  // CHECK: [[PARTIAL:%.*]] = train.reduce {{ *}}sum [[CHUNKS]] dims [1]
  // CHECK: train.reduce {{ *}}sum [[PARTIAL]] dims [0]
  %0 = train.reduce sum %x dims [0, 1] : tensor<10x20xf32>
  return %0 : tensor<f32>
}

// A prime number of elements is padded with zeros.
// CHECK-LABEL: func.func @prime
func.func @prime(%x: tensor<211xf32>) -> tensor<f32> {
  // CHECK: train.pad {{.*}} low [0] high [13] interior [0]
  // CHECK: train.reshape {{%.*}} -> tensor<7x32xf32>
  %0 = train.reduce sum %x dims [0] : tensor<211xf32>
  return %0 : tensor<f32>
}

// There is nothing neutral to pad a maximum with that all types have, and small ones are left alone.
// CHECK-LABEL: func.func @kept
func.func @kept(%x: tensor<211xf32>, %y: tensor<64xf32>, %z: tensor<200x3xf32>) -> (tensor<f32>, tensor<f32>, tensor<3xf32>) {
  // CHECK: train.reduce {{ *}}max {{%.*}} dims [0] : tensor<211xf32>
  // CHECK: train.reduce {{ *}}sum {{%.*}} dims [0] : tensor<64xf32>
  // CHECK: train.reduce {{ *}}sum {{%.*}} dims [0] : tensor<200x3xf32>
  %0 = train.reduce max %x dims [0] : tensor<211xf32>
  %1 = train.reduce sum %y dims [0] : tensor<64xf32>
  %2 = train.reduce sum %z dims [0] : tensor<200x3xf32>
  return %0, %1, %2 : tensor<f32>, tensor<f32>, tensor<3xf32>
}

// CHECK-LABEL: func.func @norm
func.func @norm(%a: tensor<10x20xf32>, %b: tensor<3xf32>) -> tensor<f32> {
  // CHECK: [[A:%.*]] = train.reduce {{ *}}sum {{%.*}} dims [1] : tensor<4x50xf32>
  // CHECK: [[B:%.*]] = train.reduce {{ *}}sum {{%.*}} dims [1] : tensor<1x3xf32>
  // CHECK: [[ALL:%.*]] = plan.join [[A]], [[B]] : tensor<4xf32>, tensor<1xf32> -> tensor<5xf32>
  // CHECK: [[SUM:%.*]] = train.reduce {{ *}}sum [[ALL]] dims [0]
  // CHECK: train.sqrt [[SUM]]
  %0 = train.global_norm %a, %b : tensor<10x20xf32>, tensor<3xf32> -> tensor<f32>
  return %0 : tensor<f32>
}
