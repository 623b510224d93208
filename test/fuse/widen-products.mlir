// RUN: lockstep-opt %s --lockstep-fuse-widen-products | FileCheck %s
// RUN: lockstep-opt %s --lockstep-fuse-widen-products=dots=false | FileCheck %s --check-prefix=GPU
// RUN: lockstep-opt %s --lockstep-fuse-widen-products="dots=false keep-attention=true" | FileCheck %s --check-prefix=TILES

// CHECK-LABEL: func.func @dot
// CHECK: [[A:%.*]] = train.convert %arg0 : tensor<8x4xbf16> -> tensor<8x4xf32>
// CHECK: [[B:%.*]] = train.convert %arg1 : tensor<4x2xbf16> -> tensor<4x2xf32>
// CHECK: [[C:%.*]] = train.dot_general [[A]], [[B]] {{.*}} : tensor<8x4xf32>, tensor<4x2xf32>
// CHECK: [[R:%.*]] = train.convert [[C]] : tensor<8x2xf32> -> tensor<8x2xbf16>
// CHECK: return [[R]]
// GPU-LABEL: func.func @dot
// GPU-NEXT: train.dot_general %arg0, %arg1 {{.*}} : tensor<8x4xbf16>, tensor<4x2xbf16>
func.func @dot(%a: tensor<8x4xbf16>, %b: tensor<4x2xbf16>) -> tensor<8x2xbf16> {
  %0 = train.dot_general %a, %b batch [] x [] contract [1] x [0] : tensor<8x4xbf16>, tensor<4x2xbf16>
  return %0 : tensor<8x2xbf16>
}

// The logarithm of the sums is wide already.
// CHECK-LABEL: func.func @attention
// CHECK: [[O:%.*]], [[L:%.*]] = train.attention {{.*}} -> (tensor<1x2x4x8xf32>, tensor<1x2x4xf32>)
// CHECK: [[R:%.*]] = train.convert [[O]] : tensor<1x2x4x8xf32> -> tensor<1x2x4x8xbf16>
// CHECK: return [[R]], [[L]]
// TILES-LABEL: func.func @attention
// TILES-NEXT: train.attention {{.*}} -> (tensor<1x2x4x8xbf16>, tensor<1x2x4xf32>)
// TILES-NEXT: return
// GPU-LABEL: func.func @attention
// GPU: train.attention {{.*}} -> (tensor<1x2x4x8xf32>, tensor<1x2x4xf32>)
func.func @attention(%q: tensor<1x2x4x8xbf16>) -> (tensor<1x2x4x8xbf16>, tensor<1x2x4xf32>) {
  %0, %lse = train.attention %q, %q, %q scale 1.0 : (tensor<1x2x4x8xbf16>, tensor<1x2x4x8xbf16>, tensor<1x2x4x8xbf16>) -> (tensor<1x2x4x8xbf16>, tensor<1x2x4xf32>)
  return %0, %lse : tensor<1x2x4x8xbf16>, tensor<1x2x4xf32>
}

// CHECK-LABEL: func.func @full
// CHECK-NEXT: train.dot_general
// CHECK-NEXT: return
func.func @full(%a: tensor<8x4xf32>) -> tensor<8x8xf32> {
  %0 = train.dot_general %a, %a batch [] x [] contract [1] x [1] : tensor<8x4xf32>, tensor<8x4xf32>
  return %0 : tensor<8x8xf32>
}
