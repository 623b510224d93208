// RUN: lockstep-opt %s --lockstep-fuse-split-reductions=column-blocks=264 | FileCheck %s
// RUN: lockstep-opt %s --lockstep-fuse-split-reductions | FileCheck %s --check-prefix=WHOLE

// WHOLE-NOT: tensor<64x512x768xf32>

// 6 blocks of columns want 44 pieces each; 512 is the largest divisor of the rows that gives them.
// CHECK-LABEL: func.func @tall
func.func @tall(%x: tensor<32x1024x768xf32>) -> tensor<768xf32> {
  // CHECK: [[PIECES:%.*]] = train.reshape {{%.*}} : tensor<32x1024x768xf32> -> tensor<64x512x768xf32>
  // CHECK: [[PARTIAL:%.*]] = train.reduce {{ *}}sum [[PIECES]] dims [1]
  // CHECK: train.reduce {{ *}}sum [[PARTIAL]] dims [0] : tensor<64x768xf32>
  %0 = train.reduce sum %x dims [0, 1] : tensor<32x1024x768xf32>
  return %0 : tensor<768xf32>
}

// Sums of short floats are carried in f32.
// CHECK-LABEL: func.func @narrow
func.func @narrow(%x: tensor<4096x64xbf16>) -> tensor<64xbf16> {
  // CHECK: train.convert {{.*}} -> tensor<4096x64xf32>
  // CHECK: train.reduce {{ *}}sum {{.*}} dims [1] : tensor<32x128x64xf32>
  // CHECK: train.reduce {{ *}}sum {{.*}} dims [0] : tensor<32x64xf32>
  // CHECK: train.convert {{.*}} -> tensor<64xbf16>
  %0 = train.reduce sum %x dims [0] : tensor<4096x64xbf16>
  return %0 : tensor<64xbf16>
}

// Wide, short, or along the last dimension: whole.
// CHECK-LABEL: func.func @kept
func.func @kept(%x: tensor<512x65536xf32>, %y: tensor<200x64xf32>) -> (tensor<65536xf32>, tensor<64xf32>, tensor<512xf32>) {
  // CHECK: train.reduce {{ *}}sum {{%.*}} dims [0] : tensor<512x65536xf32>
  // CHECK: train.reduce {{ *}}max {{%.*}} dims [0] : tensor<200x64xf32>
  // CHECK: train.reduce {{ *}}sum {{%.*}} dims [1] : tensor<512x65536xf32>
  %0 = train.reduce sum %x dims [0] : tensor<512x65536xf32>
  %1 = train.reduce max %y dims [0] : tensor<200x64xf32>
  %2 = train.reduce sum %x dims [1] : tensor<512x65536xf32>
  return %0, %1, %2 : tensor<65536xf32>, tensor<64xf32>, tensor<512xf32>
}
