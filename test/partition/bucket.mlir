// RUN: lockstep-opt %s --lockstep-partition-bucket -split-input-file | FileCheck %s

dist.mesh @mesh ["data" = 2]

// Small gradients share one message, at the place of the last; another element type has its own.
// CHECK-LABEL: @small
// CHECK-NOT: dist.all_reduce
// CHECK: train.negate %arg2
// CHECK: dist.all_reduce sum %{{.*}}, %{{.*}}, %{{.*}} on @mesh ["data"] : tensor<4xf32>, tensor<5xf32>, tensor<6xf32>
// CHECK: dist.all_reduce sum %{{.*}} on @mesh ["data"] : tensor<7xf64>
func.func @small(%a: tensor<4xf32>, %b: tensor<5xf32>, %c: tensor<6xf32>, %d: tensor<7xf64>) -> (tensor<4xf32>, tensor<5xf32>, tensor<6xf32>, tensor<7xf64>) {
  %0 = train.negate %a : tensor<4xf32>
  %1 = dist.all_reduce sum %0 on @mesh ["data"] : tensor<4xf32>
  %2 = train.negate %b : tensor<5xf32>
  %3 = dist.all_reduce sum %2 on @mesh ["data"] : tensor<5xf32>
  %4 = train.negate %c : tensor<6xf32>
  %5 = dist.all_reduce sum %4 on @mesh ["data"] : tensor<6xf32>
  %6 = dist.all_reduce sum %d on @mesh ["data"] : tensor<7xf64>
  return %1, %3, %5, %6 : tensor<4xf32>, tensor<5xf32>, tensor<6xf32>, tensor<7xf64>
}

// -----

dist.mesh @mesh ["data" = 2]

// A result that is used before the next value is ready cannot wait for it.
// CHECK-LABEL: @dependent
// CHECK: dist.all_reduce sum %arg0 on
// CHECK: train.negate
// CHECK: dist.all_reduce sum %{{.*}} on
func.func @dependent(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dist.all_reduce sum %a on @mesh ["data"] : tensor<4xf32>
  %1 = train.negate %0 : tensor<4xf32>
  %2 = dist.all_reduce sum %1 on @mesh ["data"] : tensor<4xf32>
  return %2 : tensor<4xf32>
}

// -----

dist.mesh @mesh ["data" = 2]

// A large value with much work behind it starts at once.
// CHECK-LABEL: @large
// CHECK: dist.all_reduce sum %arg0 on @mesh ["data"] : tensor<1024x1024xf32>
// CHECK: train.dot_general
// CHECK: dist.all_reduce sum %{{.*}} on @mesh ["data"] : tensor<1024x1024xf32>
func.func @large(%a: tensor<1024x1024xf32>, %b: tensor<1024x1024xf32>) -> (tensor<1024x1024xf32>, tensor<1024x1024xf32>) {
  %0 = dist.all_reduce sum %a on @mesh ["data"] : tensor<1024x1024xf32>
  %1 = train.dot_general %b, %b batch [] x [] contract [1] x [0] : tensor<1024x1024xf32>, tensor<1024x1024xf32>
  %2 = dist.all_reduce sum %1 on @mesh ["data"] : tensor<1024x1024xf32>
  return %0, %2 : tensor<1024x1024xf32>, tensor<1024x1024xf32>
}

// -----

dist.mesh @mesh ["data" = 2]

// What the computation goes on from does not wait for what only the update reads, however small.
// CHECK-LABEL: @chain
// CHECK: dist.all_reduce sum %arg1 on @mesh ["data"] : tensor<4xf32>
// CHECK: train.negate
// CHECK: dist.all_reduce sum %arg0, %{{.*}} on @mesh ["data"] : tensor<8xf32>, tensor<4xf32>
func.func @chain(%gradient: tensor<8xf32>, %sum: tensor<4xf32>) -> (tensor<8xf32>, tensor<4xf32>) {
  %0 = dist.all_reduce sum %gradient on @mesh ["data"] : tensor<8xf32>
  %1 = dist.all_reduce sum %sum on @mesh ["data"] : tensor<4xf32>
  %2 = train.negate %1 : tensor<4xf32>
  %3 = dist.all_reduce sum %2 on @mesh ["data"] : tensor<4xf32>
  return %0, %3 : tensor<8xf32>, tensor<4xf32>
}
