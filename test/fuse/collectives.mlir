// Collectives along an inner dimension become such along the leading one.
// RUN: lockstep-opt %s --split-input-file --lockstep-fuse-decompose | FileCheck %s

dist.mesh @mesh ["data" = 2]

// CHECK-LABEL: @gather
// CHECK: [[PART:%.*]] = train.reshape %{{.*}} -> tensor<1x4x3xf32>
// CHECK: [[ALL:%.*]] = dist.all_gather [[PART]] dim 0
// CHECK-SAME: -> tensor<2x4x3xf32>
// CHECK: [[TURNED:%.*]] = train.transpose [[ALL]] {{.*}}[1, 0, 2]
// CHECK: train.reshape [[TURNED]] {{.*}} -> tensor<4x6xf32>
func.func @gather(%x: tensor<4x3xf32>) -> tensor<4x6xf32> {
  %0 = dist.all_gather %x dim 1 on @mesh ["data"] : (tensor<4x3xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// A part that is one range of the whole stays.
// CHECK-LABEL: @leading
// CHECK-NEXT: dist.all_gather %{{.*}} dim 1
// CHECK-NEXT: return
func.func @leading(%x: tensor<1x3xf32>) -> tensor<1x6xf32> {
  %0 = dist.all_gather %x dim 1 on @mesh ["data"] : (tensor<1x3xf32>) -> tensor<1x6xf32>
  return %0 : tensor<1x6xf32>
}

// CHECK-LABEL: @scatter
// CHECK: [[CUT:%.*]] = train.reshape %{{.*}} -> tensor<4x2x3xf32>
// CHECK: [[TURNED:%.*]] = train.transpose [[CUT]] {{.*}}[1, 0, 2]
// CHECK: dist.reduce_scatter sum [[TURNED]] dim 0
// CHECK-SAME: -> tensor<1x4x3xf32>
func.func @scatter(%x: tensor<4x6xf32>) -> tensor<4x3xf32> {
  %0 = dist.reduce_scatter sum %x dim 1 on @mesh ["data"] : (tensor<4x6xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// CHECK-LABEL: @exchange
// CHECK: dist.all_gather %{{.*}} dim 0 {{.*}} -> tensor<2x2x8xf32>
// CHECK: dist.coordinate
// CHECK: train.gather
// CHECK-NOT: dist.all_to_all
func.func @exchange(%x: tensor<2x8xf32>) -> tensor<4x4xf32> {
  %0 = dist.all_to_all %x split 1 concat 0 on @mesh ["data"] : tensor<2x8xf32> -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
