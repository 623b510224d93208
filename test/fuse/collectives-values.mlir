// What collectives along an inner dimension become has their values.
// RUN: lockstep-interpret %s --entry step --write-inputs %t.in.safetensors -o %t.safetensors
// RUN: lockstep-opt %s --lockstep-fuse-decompose -o %t.mlir
// RUN: not grep -E "all_to_all|all_gather.* dim 1|reduce_scatter.* dim 1" %t.mlir
// RUN: lockstep-interpret %t.mlir --entry step --inputs %t.in.safetensors --expect %t.safetensors

dist.mesh @mesh ["data" = 2]

func.func @step(%x: tensor<4x6xf32> {train.role = #train.role<parameter>, train.name = "x"}) -> (tensor<f32> {train.role = #train.role<metric>, train.name = "gathered"}, tensor<f32> {train.role = #train.role<metric>, train.name = "scattered"}, tensor<f32> {train.role = #train.role<metric>, train.name = "exchanged"}, tensor<f32> {train.role = #train.role<metric>, train.name = "exchanged_in_place"}) {
  // Each rank starts from a part of its own; each place of the results counts on its own.
  %own = dist.local_slice %x dim 0 on @mesh ["data"] : tensor<4x6xf32> -> tensor<2x6xf32>

  %0 = dist.all_gather %own dim 1 on @mesh ["data"] : (tensor<2x6xf32>) -> tensor<2x12xf32>
  %i0 = train.iota dim 1 : tensor<2x12xf32>
  %p0 = train.power %0, %i0 : tensor<2x12xf32>
  %s0 = train.reduce sum %p0 dims [0, 1] : tensor<2x12xf32>

  %1 = dist.reduce_scatter sum %own dim 1 on @mesh ["data"] : (tensor<2x6xf32>) -> tensor<2x3xf32>
  %i1 = train.iota dim 1 : tensor<2x3xf32>
  %p1 = train.power %1, %i1 : tensor<2x3xf32>
  %r1 = train.reduce sum %p1 dims [0, 1] : tensor<2x3xf32>
  %s1 = dist.all_reduce sum %r1 on @mesh ["data"] : tensor<f32>

  %2 = dist.all_to_all %own split 1 concat 0 on @mesh ["data"] : tensor<2x6xf32> -> tensor<4x3xf32>
  %i2 = train.iota dim 0 : tensor<4x3xf32>
  %p2 = train.power %2, %i2 : tensor<4x3xf32>
  %r2 = train.reduce sum %p2 dims [0, 1] : tensor<4x3xf32>
  %s2 = dist.all_reduce sum %r2 on @mesh ["data"] : tensor<f32>

  %3 = dist.all_to_all %own split 1 concat 1 on @mesh ["data"] : tensor<2x6xf32> -> tensor<2x6xf32>
  %i3 = train.iota dim 1 : tensor<2x6xf32>
  %p3 = train.power %3, %i3 : tensor<2x6xf32>
  %r3 = train.reduce sum %p3 dims [0, 1] : tensor<2x6xf32>
  %s3 = dist.all_reduce sum %r3 on @mesh ["data"] : tensor<f32>
  return %s0, %s1, %s2, %s3 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
}
