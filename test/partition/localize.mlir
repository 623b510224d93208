// RUN: lockstep-opt %s --lockstep-partition-propagate --lockstep-partition-localize -split-input-file | FileCheck %s

dist.mesh @mesh ["data" = 4]

// CHECK-LABEL: @gradient
// CHECK-SAME: %[[X:.*]]: tensor<2x4xf32>, %[[D:.*]]: tensor<2x3xf32>
// CHECK: %[[P:.*]] = train.dot_general %[[X]], %[[D]]
// CHECK: %[[G:.*]] = dist.all_reduce sum %[[P]] on @mesh ["data"] : tensor<4x3xf32>
// CHECK: return %[[G]]
func.func @gradient(%x: tensor<8x4xf32> {dist.sharding = #dist.sharding<[["data"], []]>}, %d: tensor<8x3xf32> {dist.sharding = #dist.sharding<[["data"], []]>})
    -> (tensor<4x3xf32> {dist.sharding = #dist.sharding<[[], []]>}) {
  %0 = train.dot_general %x, %d batch [] x [] contract [0] x [0] : tensor<8x4xf32>, tensor<8x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

dist.mesh @mesh ["data" = 4]

// A slice along the batch, a sort along it and a running sum need it whole: one all_gather serves them.
// CHECK-LABEL: @whole
// CHECK-COUNT-1: dist.all_gather %{{.*}} dim 0 on @mesh ["data"] : (tensor<2x4xf32>) -> tensor<8x4xf32>
// CHECK-NOT: dist.all_gather
func.func @whole(%x: tensor<8x4xf32> {dist.sharding = #dist.sharding<[["data"], []]>}) -> (tensor<3x4xf32>, tensor<8x4xf32>) {
  %0 = train.slice %x [1, 0] to [4, 4] step [1, 1] : tensor<8x4xf32>
  %1 = train.cumulative sum %x dim 0 : tensor<8x4xf32>
  return %0, %1 : tensor<3x4xf32>, tensor<8x4xf32>
}

// -----

dist.mesh @mesh ["data" = 4]

// A count along the batch starts at the rank's first row; a table is cut; a splat is only smaller.
// CHECK-LABEL: @offsets
// CHECK-DAG: train.constant dense<2.000000e+00> : tensor<2xf32>
// CHECK-DAG: dist.local_slice %{{.*}} dim 0 on @mesh ["data"] : tensor<8xf32> -> tensor<2xf32>
// CHECK-DAG: dist.coordinate on @mesh ["data"] : tensor<i64>
// CHECK-DAG: train.iota dim 0 : tensor<2xf32>
func.func @offsets(%x: tensor<8xf32> {dist.sharding = #dist.sharding<[["data"]]>}) -> tensor<8xf32> {
  %0 = train.iota dim 0 : tensor<8xf32>
  %1 = train.constant dense<[0.0, 1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0]> : tensor<8xf32>
  %2 = train.constant dense<2.0> : tensor<8xf32>
  %3 = train.multiply %x, %2 : tensor<8xf32>
  %4 = train.add %3, %0 : tensor<8xf32>
  %5 = train.add %4, %1 : tensor<8xf32>
  return %5 : tensor<8xf32>
}

// -----

dist.mesh @mesh ["data" = 4]

// CHECK-LABEL: @dropout
// CHECK: train.dropout %{{.*}}, %{{.*}} offsets %{{.*}} {global_shape = array<i64: 8, 4>
func.func @dropout(%x: tensor<8x4xf32> {dist.sharding = #dist.sharding<[["data"], []]>}, %rng: tensor<2xi64>) -> tensor<8x4xf32> {
  %0 = train.dropout %x, %rng {rate = 0.1 : f64, id = 3 : i64} : tensor<8x4xf32>, tensor<2xi64>
  return %0 : tensor<8x4xf32>
}

// -----

dist.mesh @mesh ["data" = 4]

// Local batch statistics: only the running ones are averaged.
// CHECK-LABEL: @local_statistics
// CHECK: %[[Y:.*]], %{{.*}}, %{{.*}}, %[[M:.*]], %[[V:.*]] = train.batch_norm
// CHECK: %[[S:.*]] = train.multiply %[[M]]
// CHECK: dist.all_reduce sum %[[S]]
func.func @local_statistics(%x: tensor<8x3x2xf32> {dist.sharding = #dist.sharding<[["data"], [], []]>}, %m: tensor<3xf32>, %v: tensor<3xf32>) -> (tensor<8x3x2xf32>, tensor<3xf32>, tensor<3xf32>) {
  %y, %mean, %rstd, %rm, %rv = train.batch_norm %x running %m, %v momentum 1.0e-01 eps 1.0e-05 {local_statistics} : (tensor<8x3x2xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<8x3x2xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
  return %y, %rm, %rv : tensor<8x3x2xf32>, tensor<3xf32>, tensor<3xf32>
}

// -----

dist.mesh @mesh ["data" = 2]

// What is to be divided again after its reduction is scattered at once.
// CHECK-LABEL: @scatter
// CHECK: dist.reduce_scatter sum %{{.*}} dim 0 on @mesh ["data"] : (tensor<4x3xf32>) -> tensor<2x3xf32>
func.func @scatter(%x: tensor<8x4xf32> {dist.sharding = #dist.sharding<[["data"], []]>}, %d: tensor<8x3xf32> {dist.sharding = #dist.sharding<[["data"], []]>})
    -> (tensor<4x3xf32> {dist.sharding = #dist.sharding<[["data"], []]>}) {
  %0 = train.dot_general %x, %d batch [] x [] contract [0] x [0] : tensor<8x4xf32>, tensor<8x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

dist.mesh @mesh ["data" = 2]

// An axis moves from one dimension to another.
// CHECK-LABEL: @move
// CHECK: dist.all_to_all %{{.*}} split 1 concat 0 on @mesh ["data"] : tensor<4x4xf32> -> tensor<8x2xf32>
func.func @move(%x: tensor<8x4xf32> {dist.sharding = #dist.sharding<[["data"], []]>}) -> (tensor<8x4xf32> {dist.sharding = #dist.sharding<[[], ["data"]]>}) {
  return %x : tensor<8x4xf32>
}
