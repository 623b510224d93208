// RUN: lockstep-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{(C1) expected distinct axis names that are not empty, but got "data"}}
dist.mesh @mesh ["data" = 4, "data" = 2]

// -----

// expected-error @+1 {{(C2) expected axis sizes of at least 1, but got 0}}
dist.mesh @mesh ["data" = 0]

// -----

func.func @f(%a: tensor<4xf32>) {
  // expected-error @+1 {{(C3) expected a mesh named 'mesh', but there is none}}
  %0 = dist.all_reduce sum %a on @mesh ["data"] : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["data" = 4]
func.func @f(%a: tensor<4xf32>) {
  // expected-error @+1 {{(C3) expected an axis of mesh 'mesh', but got "model"}}
  %0 = dist.all_reduce sum %a on @mesh ["model"] : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["data" = 4]
func.func @f(%a: tensor<4xf32>) {
  // expected-error @+1 {{(C3) expected a sub-axis (1)3 that divides axis "data" of size 4}}
  %0 = dist.all_reduce sum %a on @mesh ["data":(1)3] : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["data" = 4]
func.func @f(%a: tensor<4xf32>, %b: tensor<4xf64>) {
  // expected-error @+1 {{(C1) expected one element type, but got 'f32' and 'f64'}}
  %0:2 = dist.all_reduce sum %a, %b on @mesh ["data"] : tensor<4xf32>, tensor<4xf64>
  return
}

// -----

dist.mesh @mesh ["data" = 4]
func.func @f(%a: tensor<4xf32>) {
  // expected-error @+1 {{(C2) expected 'tensor<16xf32>' for 'tensor<4xf32>' over 4 ranks, but got 'tensor<8xf32>'}}
  %0 = dist.all_gather %a dim 0 on @mesh ["data"] : (tensor<4xf32>) -> tensor<8xf32>
  return
}

// -----

dist.mesh @mesh ["data" = 4]
func.func @f(%a: tensor<4xf32>) {
  // expected-error @+1 {{(C2) expected 'tensor<8xf32>' for 'tensor<2xf32>' over 4 ranks, but got 'tensor<4xf32>'}}
  %0 = dist.reduce_scatter sum %a dim 0 on @mesh ["data"] : (tensor<4xf32>) -> tensor<2xf32>
  return
}

// -----

dist.mesh @mesh ["data" = 4]
func.func @f(%a: tensor<2x6xf32>) {
  // expected-error @+1 {{(C1) expected dimension 1 to be divisible by 4 ranks, but got 6}}
  %0 = dist.all_to_all %a split 1 concat 0 on @mesh ["data"] : tensor<2x6xf32> -> tensor<8x1xf32>
  return
}

// -----

dist.mesh @mesh ["data" = 4]
func.func @f(%a: tensor<4xf32>) {
  // expected-error @+1 {{(C1) expected a root below 4, but got 4}}
  %0 = dist.broadcast %a root 4 on @mesh ["data"] : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["data" = 4]
func.func @f(%a: tensor<4xf32>) {
  // expected-error @+1 {{(C2) expected each place once as target, but got 1 twice}}
  %0 = dist.collective_permute %a pairs [0, 1, 2, 1] on @mesh ["data"] : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["data" = 4]
func.func @f(%a: tensor<4xf32>) {
  // expected-error @+1 {{(C1) expected a dimension below 1, but got 1}}
  %0 = dist.local_slice %a dim 1 on @mesh ["data"] : tensor<4xf32> -> tensor<1xf32>
  return
}

// -----

dist.mesh @mesh ["data" = 4]
func.func @f(%a: tensor<4xf32>) {
  // expected-error @+1 {{(C1) expected one collective and a yield in the body}}
  %t = dist.start {
    dist.yield %a : tensor<4xf32>
  } : <tensor<4xf32>>
  %0 = dist.wait %t : <tensor<4xf32>> -> tensor<4xf32>
  return
}

// -----

// expected-error @+1 {{(C2) expected each axis once, but got "data" twice}}
func.func private @f(tensor<8x4xf32, #dist.sharding<[["data"], ["data":(1)2]]>>)

// -----

// expected-error @+1 {{(C1) expected a sharding of 2 dimensions, but got 1}}
func.func private @f(tensor<8x4xf32, #dist.sharding<[["data"]]>>)
