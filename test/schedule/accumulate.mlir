// RUN: lockstep-opt %s --lockstep-schedule-programs | FileCheck %s

// Gradient accumulation: zeros, a loop over micro batches whose rows advance, one addition for all sums, a running statistic kept in place.
// CHECK-LABEL: plan.program @step
// CHECK: [[M:%.*]] = plan.buffer {{ *}}persistent "mean" role <buffer>
// CHECK: plan.fill [[S:%.*]] : {{.*}}tensor<4xf32>
// CHECK-NEXT: plan.fill [[C:%.*]] : {{.*}}tensor<i64>
// CHECK-NEXT: plan.loop 2 {
// CHECK-NEXT: [[ROWS:%.*]] = plan.buffer {{ *}}temporary offset {{[0-9]+}} stride 48
// CHECK-NEXT: plan.launch @micro ins([[ROWS]], [[C]] {{.*}}) outs([[V:%.*]] :
// CHECK-NEXT: plan.launch @move ins([[M]], [[V]] {{.*}}) outs([[M]] :
// CHECK-NEXT: plan.launch @accumulate_f32 ins([[S]], [[V]] {{.*}}) outs([[S]]
// CHECK-NEXT: plan.launch @increment_i64 ins([[C]] {{.*}}) outs([[C]]
// CHECK-NEXT: }
// CHECK: plan.kernel update @accumulate_f32
// CHECK: plan.kernel update @increment_i64
func.func @step(%m: tensor<4xf32> {train.role = #train.role<buffer>, train.name = "mean"}, %x: tensor<6x4xf32> {train.role = #train.role<input>, train.name = "x"})
    -> (tensor<4xf32> {train.role = #train.role<buffer>, train.name = "mean"}, tensor<4xf32> {train.role = #train.role<metric>, train.name = "sum"}) {
  %0:2 = train.accumulate 2 batch(%x) carried(%m) : (tensor<6x4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%rows: tensor<3x4xf32>, %old: tensor<4xf32>, %i: tensor<i64>):
    %v = plan.call @micro(%rows, %i) : (tensor<3x4xf32>, tensor<i64>) -> tensor<4xf32>
    %new = plan.call @move(%old, %v) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    train.yield %new, %v : tensor<4xf32>, tensor<4xf32>
  }
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xf32>
}
plan.kernel loop @micro(%x: tensor<3x4xf32>, %i: tensor<i64>) -> tensor<4xf32> {
  %0 = train.reduce sum %x dims [0] : tensor<3x4xf32>
  %1 = train.convert %i : tensor<i64> -> tensor<f32>
  %2 = train.broadcast_in_dim %1 dims [] : tensor<f32> -> tensor<4xf32>
  %3 = train.add %0, %2 : tensor<4xf32>
  plan.return %3 : tensor<4xf32>
}
plan.kernel loop @move(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %0 = train.add %a, %b : tensor<4xf32>
  plan.return %0 : tensor<4xf32>
}
