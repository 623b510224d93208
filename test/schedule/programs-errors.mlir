// RUN: lockstep-opt %s --split-input-file --lockstep-schedule-programs=memory-limit=4096 --verify-diagnostics

// expected-error @below {{@step needs 0.0 MiB per rank, but the memory limit is 0.0 MiB; raise --memory-limit, or use more ranks or a smaller batch; the largest holders: [0.0 MiB input 'x']}}
func.func @step(%x: tensor<64x64xf32> {train.role = #train.role<input>, train.name = "x"}) -> (tensor<f32> {train.role = #train.role<metric>, train.name = "loss"}) {
  %0 = plan.call @loss(%x) : (tensor<64x64xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}
plan.kernel loop @loss(%x: tensor<64x64xf32>) -> tensor<f32> {
  %0 = train.reduce sum %x dims [0, 1] : tensor<64x64xf32>
  plan.return %0 : tensor<f32>
}

// -----

// expected-error @below {{expected train.role and train.name on argument 0}}
func.func @step(%x: tensor<4xf32>) {
  return
}

// -----

// expected-error @below {{expected train.role and train.name on result 0}}
func.func @step(%x: tensor<4xf32> {train.role = #train.role<input>, train.name = "x"}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

func.func @step(%x: tensor<4xf32> {train.role = #train.role<input>, train.name = "x"}) {
  return
}
// expected-error @below {{expected one type for 'x', but got 'tensor<4xf32>' and 'tensor<5xf32>'}}
func.func @eval(%x: tensor<5xf32> {train.role = #train.role<input>, train.name = "x"}) {
  return
}

// -----

dist.mesh @mesh ["data" = 2]
func.func @step(%x: tensor<4xf32> {train.role = #train.role<input>, train.name = "x"}) -> (tensor<4xf32> {train.role = #train.role<metric>, train.name = "y"}) {
  // expected-error @below {{'dist.collective_permute' op is not supported by the runtime}}
  %0 = dist.collective_permute %x pairs [0, 1, 1, 0] on @mesh ["data"] : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

dist.mesh @mesh ["data" = 2]
func.func @step(%x: tensor<4x3xf32> {train.role = #train.role<input>, train.name = "x"}) -> (tensor<4x6xf32> {train.role = #train.role<metric>, train.name = "y"}) {
  // expected-error @below {{'dist.all_gather' op expected the leading dimension, which is all that the runtime does, but got dimension 1}}
  %0 = dist.all_gather %x dim 1 on @mesh ["data"] : (tensor<4x3xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// -----

dist.mesh @mesh ["data" = 2]
func.func @step(%x: tensor<4x6xf32> {train.role = #train.role<input>, train.name = "x"}) -> (tensor<4x3xf32> {train.role = #train.role<metric>, train.name = "y"}) {
  // expected-error @below {{'dist.reduce_scatter' op expected the leading dimension, which is all that the runtime does, but got dimension 1}}
  %0 = dist.reduce_scatter sum %x dim 1 on @mesh ["data"] : (tensor<4x6xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// What recompute reached is said.
// expected-error @below {{@step needs 0.0 MiB per rank (2.0 MiB without what is computed again by 3 kernel calls), but the memory limit is 0.0 MiB}}
func.func @step(%x: tensor<64x64xf32> {train.role = #train.role<input>, train.name = "x"}) -> (tensor<f32> {train.role = #train.role<metric>, train.name = "loss"})
    attributes {plan.recompute = {bytes = 2097152 : i64, calls = 3 : i64, seconds = 1.0 : f64}} {
  %0 = plan.call @loss(%x) : (tensor<64x64xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}
plan.kernel loop @loss(%x: tensor<64x64xf32>) -> tensor<f32> {
  %0 = train.reduce sum %x dims [0, 1] : tensor<64x64xf32>
  plan.return %0 : tensor<f32>
}
