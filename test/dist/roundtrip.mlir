// RUN: lockstep-opt %s | lockstep-opt | FileCheck %s
// RUN: lockstep-opt %s -mlir-print-op-generic | lockstep-opt | FileCheck %s

// CHECK: dist.mesh @mesh ["data" = 4, "model" = 2]
dist.mesh @mesh ["data" = 4, "model" = 2]

// CHECK-LABEL: @collectives
func.func @collectives(%a: tensor<8x4xf32>, %b: tensor<2x8xf32>, %c: tensor<8x4xf32>) {
  // CHECK: dist.all_reduce sum %{{.*}}, %{{.*}} on @mesh ["data", "model"] : tensor<8x4xf32>, tensor<8x4xf32>
  %0:2 = dist.all_reduce sum %a, %c on @mesh ["data", "model"] : tensor<8x4xf32>, tensor<8x4xf32>
  // CHECK: dist.all_gather %{{.*}} dim 0 on @mesh ["data"] : (tensor<8x4xf32>) -> tensor<32x4xf32>
  %1 = dist.all_gather %a dim 0 on @mesh ["data"] : (tensor<8x4xf32>) -> tensor<32x4xf32>
  // CHECK: dist.all_gather %{{.*}} dim 0 on @mesh ["data":(2)2] : (tensor<8x4xf32>) -> tensor<16x4xf32>
  %2 = dist.all_gather %a dim 0 on @mesh ["data":(2)2] : (tensor<8x4xf32>) -> tensor<16x4xf32>
  // CHECK: dist.reduce_scatter max %{{.*}} dim 1 on @mesh ["data"] : (tensor<8x4xf32>) -> tensor<8x1xf32>
  %3 = dist.reduce_scatter max %a dim 1 on @mesh ["data"] : (tensor<8x4xf32>) -> tensor<8x1xf32>
  // CHECK: dist.all_to_all %{{.*}} split 1 concat 0 on @mesh ["data"] : tensor<2x8xf32> -> tensor<8x2xf32>
  %4 = dist.all_to_all %b split 1 concat 0 on @mesh ["data"] : tensor<2x8xf32> -> tensor<8x2xf32>
  // CHECK: dist.broadcast %{{.*}} root 3 on @mesh ["data"] : tensor<8x4xf32>
  %5 = dist.broadcast %a root 3 on @mesh ["data"] : tensor<8x4xf32>
  // CHECK: dist.collective_permute %{{.*}} pairs [0, 1, 1, 0] on @mesh ["model"] : tensor<8x4xf32>
  %6 = dist.collective_permute %a pairs [0, 1, 1, 0] on @mesh ["model"] : tensor<8x4xf32>
  // CHECK: dist.coordinate on @mesh ["data"] : tensor<i64>
  %7 = dist.coordinate on @mesh ["data"] : tensor<i64>
  // CHECK: dist.local_slice %{{.*}} dim 0 on @mesh ["data"] : tensor<8x4xf32> -> tensor<2x4xf32>
  %8 = dist.local_slice %a dim 0 on @mesh ["data"] : tensor<8x4xf32> -> tensor<2x4xf32>
  return
}

// CHECK-LABEL: @asynchronous
func.func @asynchronous(%a: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: %[[T:.*]] = dist.start {
  // CHECK: dist.yield
  // CHECK: } : <tensor<4xf32>>
  %t = dist.start {
    %0 = dist.all_reduce sum %a on @mesh ["data"] : tensor<4xf32>
    dist.yield %0 : tensor<4xf32>
  } : <tensor<4xf32>>
  // CHECK: dist.wait %[[T]] : <tensor<4xf32>> -> tensor<4xf32>
  %0 = dist.wait %t : <tensor<4xf32>> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: @encodings
// CHECK-SAME: tensor<8x4xf32, #dist.sharding<{{\[}}["data"], []]>>
// CHECK-SAME: tensor<8x4xf32, #dist.sharding<{{\[}}[], []], partial<sum, ["data", "model"]>>>
// CHECK-SAME: tensor<4xf32, #dist.sharding<{{\[}}["data":(1)2]], varying<["model"]>>>
func.func private @encodings(tensor<8x4xf32, #dist.sharding<[["data"], []]>>,
                             tensor<8x4xf32, #dist.sharding<[[], []], partial<sum, ["data", "model"]>>>,
                             tensor<4xf32, #dist.sharding<[["data":(1)2]], varying<["model"]>>>)
