// RUN: lockstep-opt %s --lockstep-schedule-programs | FileCheck %s

// Two parameters have one gradient, which a bucket holds twice: neither sum may lie where the gradient does, since the other is made of it.

dist.mesh @mesh ["data" = 2]

// CHECK-LABEL: plan.program @step
// CHECK: plan.launch @grad ins({{.*}}) outs([[G:%[a-z0-9]+]] :
// CHECK-NEXT: plan.collective_start {{ *}}all_reduce 0 reduction {{ *}}sum on @mesh ["data"] ins([[G]], [[G]] :
// CHECK-NOT: [[G]]
// CHECK-SAME: outs(
// CHECK-NOT: [[G]]
// CHECK: plan.collective_wait 0
func.func @step(%v: tensor<32x32xf32> {train.role = #train.role<parameter>, train.name = "v"}, %w: tensor<32x32xf32> {train.role = #train.role<parameter>, train.name = "w"},
                %x: tensor<16x32xf32> {train.role = #train.role<input>, train.name = "x"})
    -> (tensor<32x32xf32> {train.role = #train.role<parameter>, train.name = "v"}, tensor<32x32xf32> {train.role = #train.role<parameter>, train.name = "w"}) {
  %g = plan.call @grad(%x) : (tensor<16x32xf32>) -> tensor<32x32xf32>
  %r:2 = dist.all_reduce sum %g, %g on @mesh ["data"] : tensor<32x32xf32>, tensor<32x32xf32>
  %m = plan.call @update(%v, %r#0) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %n = plan.call @update(%w, %r#1) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  return %m, %n : tensor<32x32xf32>, tensor<32x32xf32>
}

plan.kernel contraction @grad(%x: tensor<16x32xf32>) -> tensor<32x32xf32> cost 32768, 10240 {
  %0 = train.dot_general %x, %x batch [] x [] contract [0] x [0] : tensor<16x32xf32>, tensor<16x32xf32>
  plan.return %0 : tensor<32x32xf32>
}
plan.kernel loop @update(%w: tensor<32x32xf32>, %g: tensor<32x32xf32>) -> tensor<32x32xf32> cost 1024, 12288 {
  %0 = train.subtract %w, %g : tensor<32x32xf32>
  plan.return %0 : tensor<32x32xf32>
}
