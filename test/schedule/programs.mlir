// RUN: lockstep-opt %s --lockstep-schedule-programs | FileCheck %s

// Two layers' gradients, each reduced as soon as it is there; the new parameter replaces the old one; the evaluation shares what it can.

dist.mesh @mesh ["data" = 2]

// CHECK-LABEL: plan.program @step entry "step" role "all"
// Persistent tensors first, then inputs, then scalars; all at multiples of 64.
// CHECK: [[W:%.*]] = plan.buffer {{ *}}persistent "w" role <parameter> offset 0 {train.decayed}
// CHECK: [[X:%.*]] = plan.buffer {{ *}}input "x" role <input> offset 4096
// CHECK: [[LR:%.*]] = plan.buffer {{ *}}scalar "lr" role <hyperparameter> offset 6144
// CHECK: [[LOSS:%.*]] = plan.buffer {{ *}}scalar "loss" role <metric> offset 6400
// The collective starts behind its last input, in place; independent work goes before the wait.
// CHECK: plan.launch @grad ins([[W]], [[X]] {{.*}} outs([[G:%.*]] : !plan.buffer<tensor<32x32xf32>>)
// CHECK-NEXT: plan.collective_start {{ *}}all_reduce 0 reduction {{ *}}sum on @mesh ["data"] ins([[G]] {{.*}}) outs([[G]]
// CHECK-NEXT: plan.launch @loss ins([[X]] {{.*}} outs([[LOSS]]
// CHECK-NEXT: plan.collective_wait 0
// CHECK-NEXT: plan.launch @update ins([[W]], [[G]], [[LR]] {{.*}} outs([[W]]
func.func @step(%w: tensor<32x32xf32> {train.role = #train.role<parameter>, train.name = "w", train.decayed}, %x: tensor<16x32xf32> {train.role = #train.role<input>, train.name = "x"},
                %lr: tensor<f32> {train.role = #train.role<hyperparameter>, train.name = "lr"})
    -> (tensor<32x32xf32> {train.role = #train.role<parameter>, train.name = "w"}, tensor<f32> {train.role = #train.role<metric>, train.name = "loss"}) {
  %g = plan.call @grad(%w, %x) : (tensor<32x32xf32>, tensor<16x32xf32>) -> tensor<32x32xf32>
  %r = dist.all_reduce sum %g on @mesh ["data"] : tensor<32x32xf32>
  %n = plan.call @update(%w, %r, %lr) : (tensor<32x32xf32>, tensor<32x32xf32>, tensor<f32>) -> tensor<32x32xf32>
  %l = plan.call @loss(%x) : (tensor<16x32xf32>) -> tensor<f32>
  return %n, %l : tensor<32x32xf32>, tensor<f32>
}

// CHECK-LABEL: plan.program @eval entry "eval" role "all"
// CHECK: [[X:%.*]] = plan.buffer {{ *}}input "x" role <input> offset 4096
// CHECK: [[LOSS:%.*]] = plan.buffer {{ *}}scalar "loss" role <metric> offset 6400
// CHECK: plan.launch @relu ins([[X]] {{.*}}) outs([[Y:%.*]] :
// A value may take over the memory of one that dies.
// CHECK-NEXT: plan.launch @relu ins([[Y]] {{.*}}) outs([[Y]] :
// CHECK-NEXT: plan.launch @loss ins([[Y]] {{.*}}) outs([[LOSS]]
func.func @eval(%x: tensor<16x32xf32> {train.role = #train.role<input>, train.name = "x"}) -> (tensor<f32> {train.role = #train.role<metric>, train.name = "loss"}) {
  %y = plan.call @relu(%x) : (tensor<16x32xf32>) -> tensor<16x32xf32>
  %z = plan.call @relu(%y) : (tensor<16x32xf32>) -> tensor<16x32xf32>
  %l = plan.call @loss(%z) : (tensor<16x32xf32>) -> tensor<f32>
  return %l : tensor<f32>
}

plan.kernel contraction @grad(%w: tensor<32x32xf32>, %x: tensor<16x32xf32>) -> tensor<32x32xf32> cost 32768, 10240 {
  %0 = train.dot_general %x, %x batch [] x [] contract [0] x [0] : tensor<16x32xf32>, tensor<16x32xf32>
  plan.return %0 : tensor<32x32xf32>
}
plan.kernel update @update(%w: tensor<1xf32>, %g: tensor<1xf32>, %lr: tensor<f32>) -> tensor<1xf32> {
  %0 = train.broadcast_in_dim %lr dims [] : tensor<f32> -> tensor<1xf32>
  %1 = train.multiply %g, %0 : tensor<1xf32>
  %2 = train.subtract %w, %1 : tensor<1xf32>
  plan.return %2 : tensor<1xf32>
}
plan.kernel loop @loss(%x: tensor<16x32xf32>) -> tensor<f32> {
  %0 = train.reduce sum %x dims [0, 1] : tensor<16x32xf32>
  plan.return %0 : tensor<f32>
}
plan.kernel loop @relu(%x: tensor<16x32xf32>) -> tensor<16x32xf32> {
  %0 = train.abs %x : tensor<16x32xf32>
  plan.return %0 : tensor<16x32xf32>
}
