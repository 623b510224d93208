// RUN: lockstep-opt %s --lockstep-fuse-decompose=attention=none | FileCheck %s
// RUN: lockstep-opt %s --lockstep-fuse-decompose=attention=tiles | FileCheck %s --check-prefixes=CHECK,TILES
// RUN: lockstep-opt %s --lockstep-fuse-decompose | FileCheck %s --check-prefix=WHOLE

// For targets without a kernel of it, attention is products and softmax.
// CHECK-LABEL: func.func @attention
// CHECK-NOT: train.attention
// CHECK: train.dot_general
// CHECK: train.exponential
// CHECK: train.dot_general
// WHOLE: train.attention
func.func @attention(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x8x16xf32>, %v: tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32> {
  %0, %lse = train.attention %q, %k, %v scale 0.25 {causal} : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
  return %0 : tensor<2x4x8x16xf32>
}

// Narrow attention has kernels on tensor cores.
// CHECK-LABEL: func.func @narrow
// TILES: train.attention
// WHOLE-LABEL: func.func @narrow
func.func @narrow(%q: tensor<2x4x8x16xbf16>, %k: tensor<2x4x8x16xbf16>) -> tensor<2x4x8x16xbf16> {
  %0, %lse = train.attention %q, %k, %k scale 0.25 {causal} : (tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>) -> (tensor<2x4x8x16xbf16>, tensor<2x4x8xf32>)
  return %0 : tensor<2x4x8x16xbf16>
}

// Under any mask.
// CHECK-LABEL: func.func @masked_queries
// TILES: train.attention
// WHOLE-LABEL: func.func @masked_queries
func.func @masked_queries(%q: tensor<2x4x8x16xbf16>, %m: tensor<1x1x8x8xi1>) -> tensor<2x4x8x16xbf16> {
  %0, %lse = train.attention %q, %q, %q mask %m scale 0.25 : (tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<1x1x8x8xi1>) -> (tensor<2x4x8x16xbf16>, tensor<2x4x8xf32>)
  return %0 : tensor<2x4x8x16xbf16>
}
// CHECK-LABEL: func.func @biased
// TILES: train.attention
// WHOLE-LABEL: func.func @biased
func.func @biased(%q: tensor<2x4x8x256xbf16>, %m: tensor<1x4x8x8xf32>) -> tensor<2x4x8x256xbf16> {
  %0, %lse = train.attention %q, %q, %q mask %m scale 0.25 : (tensor<2x4x8x256xbf16>, tensor<2x4x8x256xbf16>, tensor<2x4x8x256xbf16>, tensor<1x4x8x8xf32>) -> (tensor<2x4x8x256xbf16>, tensor<2x4x8xf32>)
  return %0 : tensor<2x4x8x256xbf16>
}

// But not of a head dimension whose rows are no multiple of 16 bytes or that is above 256, of a mask of other numbers, of a window that is not causal.
// CHECK-LABEL: func.func @odd
// CHECK-NOT: train.attention
// WHOLE-LABEL: func.func @odd
func.func @odd(%q: tensor<2x4x8x12xbf16>) -> tensor<2x4x8x12xbf16> {
  %0, %lse = train.attention %q, %q, %q scale 0.25 : (tensor<2x4x8x12xbf16>, tensor<2x4x8x12xbf16>, tensor<2x4x8x12xbf16>) -> (tensor<2x4x8x12xbf16>, tensor<2x4x8xf32>)
  return %0 : tensor<2x4x8x12xbf16>
}
// CHECK-LABEL: func.func @too_wide
// CHECK-NOT: train.attention
// WHOLE-LABEL: func.func @too_wide
func.func @too_wide(%q: tensor<2x4x8x264xbf16>) -> tensor<2x4x8x264xbf16> {
  %0, %lse = train.attention %q, %q, %q scale 0.25 : (tensor<2x4x8x264xbf16>, tensor<2x4x8x264xbf16>, tensor<2x4x8x264xbf16>) -> (tensor<2x4x8x264xbf16>, tensor<2x4x8xf32>)
  return %0 : tensor<2x4x8x264xbf16>
}
// CHECK-LABEL: func.func @other_bias
// CHECK-NOT: train.attention
// WHOLE-LABEL: func.func @other_bias
func.func @other_bias(%q: tensor<2x4x8x16xbf16>, %m: tensor<1x1x8x8xf16>) -> tensor<2x4x8x16xbf16> {
  %0, %lse = train.attention %q, %q, %q mask %m scale 0.25 : (tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<1x1x8x8xf16>) -> (tensor<2x4x8x16xbf16>, tensor<2x4x8xf32>)
  return %0 : tensor<2x4x8x16xbf16>
}
// CHECK-LABEL: func.func @window
// CHECK-NOT: train.attention
// WHOLE-LABEL: func.func @window
func.func @window(%q: tensor<2x4x8x16xbf16>) -> tensor<2x4x8x16xbf16> {
  %0, %lse = train.attention %q, %q, %q scale 0.25 {window = 3 : i64} : (tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>) -> (tensor<2x4x8x16xbf16>, tensor<2x4x8xf32>)
  return %0 : tensor<2x4x8x16xbf16>
}
