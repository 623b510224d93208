// RUN: lockstep-opt %s --lockstep-schedule-programs | FileCheck %s

dist.mesh @mesh ["data" = 2]

// Updates that are ready together are one launch; a bucket's members are neighbours; pieces of a join are written in place.
// CHECK-LABEL: plan.program @step
// CHECK-DAG: [[G:%.*]] = plan.buffer {{ *}}temporary offset [[#FIRST:]] : <tensor<20xf32>>
// CHECK-DAG: [[H:%.*]] = plan.buffer {{ *}}temporary offset [[#FIRST+256]] : <tensor<8xf32>>
// CHECK-DAG: [[JOINED:%.*]] = plan.buffer {{ *}}temporary offset [[#J:]] : <tensor<28xf32>>
// CHECK-DAG: [[PIECE:%.*]] = plan.buffer {{ *}}temporary offset [[#J+80]] : <tensor<8xf32>>
// CHECK: plan.collective_start {{.*}} ins([[G]], [[H]] :
// CHECK: plan.launch @id segments 2
// CHECK: plan.launch @total ins([[JOINED]]
func.func @step(%p: tensor<20xf32> {train.role = #train.role<parameter>, train.name = "p"}, %q: tensor<8xf32> {train.role = #train.role<parameter>, train.name = "q"})
    -> (tensor<20xf32> {train.role = #train.role<parameter>, train.name = "p"}, tensor<8xf32> {train.role = #train.role<parameter>, train.name = "q"}, tensor<f32> {train.role = #train.role<metric>, train.name = "norm"}) {
  %g = plan.call @id(%p) : (tensor<20xf32>) -> tensor<20xf32>
  %h = plan.call @id(%q) : (tensor<8xf32>) -> tensor<8xf32>
  %r:2 = dist.all_reduce sum %g, %h on @mesh ["data"] : tensor<20xf32>, tensor<8xf32>
  %a = plan.call @id(%r#0) : (tensor<20xf32>) -> tensor<20xf32>
  %b = plan.call @id(%r#1) : (tensor<8xf32>) -> tensor<8xf32>
  %j = plan.join %a, %b : tensor<20xf32>, tensor<8xf32> -> tensor<28xf32>
  %n = plan.call @total(%j) : (tensor<28xf32>) -> tensor<f32>
  %s = plan.call @sum(%p, %r#0) : (tensor<20xf32>, tensor<20xf32>) -> tensor<20xf32>
  %t = plan.call @sum(%q, %r#1) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %s, %t, %n : tensor<20xf32>, tensor<8xf32>, tensor<f32>
}
plan.kernel update @id(%x: tensor<1xf32>) -> tensor<1xf32> {
  plan.return %x : tensor<1xf32>
}
plan.kernel update @sum(%x: tensor<1xf32>, %y: tensor<1xf32>) -> tensor<1xf32> {
  %0 = train.add %x, %y : tensor<1xf32>
  plan.return %0 : tensor<1xf32>
}
plan.kernel loop @total(%x: tensor<28xf32>) -> tensor<f32> {
  %0 = train.reduce sum %x dims [0] : tensor<28xf32>
  plan.return %0 : tensor<f32>
}
