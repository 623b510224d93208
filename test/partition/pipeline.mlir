// RUN: lockstep-opt %s --lockstep-partition-pipeline=ranks=4 | FileCheck %s

// The label count is reduced first, and the gradients of weight and bias in one message.
// CHECK-LABEL: @step
// CHECK: %[[N:.*]] = train.label_count
// CHECK: dist.all_reduce sum %[[N]]
// CHECK: %[[DB:.*]] = train.reduce sum
// CHECK: %[[DW:.*]] = train.dot_general
// CHECK: %[[G:.*]]:2 = dist.all_reduce sum %[[DB]], %[[DW]] on @mesh ["data"] : tensor<3xf32>, tensor<4x3xf32>
// CHECK: train.sgd %arg0, %[[G]]#1
func.func @step(%w: tensor<4x3xf32> {train.role = #train.role<parameter>, train.name = "w"}, %b: tensor<3xf32> {train.role = #train.role<parameter>, train.name = "b"},
                %x: tensor<8x4xf32> {train.role = #train.role<input>, train.name = "x"}, %y: tensor<8xi64> {train.role = #train.role<label>, train.name = "y"}, %lr: tensor<f32> {train.role = #train.role<hyperparameter>, train.name = "lr"}, %rng: tensor<2xi64> {train.role = #train.role<rng>, train.name = "rng"})
  -> (tensor<4x3xf32> {train.role = #train.role<parameter>, train.name = "w"}, tensor<3xf32> {train.role = #train.role<parameter>, train.name = "b"}, tensor<f32> {train.role = #train.role<metric>, train.name = "loss"}) {
  %xd = train.dropout %x, %rng {rate = 0.1 : f64, id = 3 : i64} : tensor<8x4xf32>, tensor<2xi64>
  %0 = train.dot_general %xd, %w batch [] x [] contract [1] x [0] : tensor<8x4xf32>, tensor<4x3xf32>
  %1 = train.broadcast_in_dim %b dims [1] : tensor<3xf32> -> tensor<8x3xf32>
  %2 = train.add %0, %1 : tensor<8x3xf32>
  %sum, %lse = train.cross_entropy %2, %y dim 1 ignore -100 smoothing 0.0 : (tensor<8x3xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
  %n = train.label_count %y ignore -100 : tensor<8xi64> -> tensor<f32>
  %loss = train.divide %sum, %n : tensor<f32>
  %one = train.constant dense<1.0> : tensor<f32>
  %scale = train.divide %one, %n : tensor<f32>
  %d = train.cross_entropy_gradient %2, %y, %lse, %scale dim 1 ignore -100 smoothing 0.0 : (tensor<8x3xf32>, tensor<8xi64>, tensor<8xf32>, tensor<f32>) -> tensor<8x3xf32>
  %db = train.reduce sum %d dims [0] : tensor<8x3xf32>
  %dw = train.dot_general %xd, %d batch [] x [] contract [0] x [0] : tensor<8x4xf32>, tensor<8x3xf32>
  %norm = train.global_norm %dw, %db : tensor<4x3xf32>, tensor<3xf32> -> tensor<f32>
  %zero = train.constant dense<0.0> : tensor<f32>
  %w2 = train.sgd %w, %dw scalars %lr, %zero, %norm : tensor<4x3xf32>, tensor<4x3xf32>, tensor<f32>, tensor<f32>, tensor<f32> -> tensor<4x3xf32>
  %b2 = train.sgd %b, %db scalars %lr, %zero, %norm : tensor<3xf32>, tensor<3xf32>, tensor<f32>, tensor<f32>, tensor<f32> -> tensor<3xf32>
  return %w2, %b2, %loss : tensor<4x3xf32>, tensor<3xf32>, tensor<f32>
}
