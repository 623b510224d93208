// A product that adds to an argument in memory: where the result cannot have the argument's memory, that is copied first.
// RUN: lockstep-opt %s --lockstep-schedule-pipeline | FileCheck %s

plan.kernel contraction @first(%a: tensor<32x16xbf16>, %b: tensor<32x24xbf16>) -> tensor<16x24xf32> {
  %0 = train.dot_general %a, %b batch [] x [] contract [0] x [0] : tensor<32x16xbf16>, tensor<32x24xbf16>
  %1 = train.convert %0 : tensor<16x24xbf16> -> tensor<16x24xf32>
  plan.return %1 : tensor<16x24xf32>
}
plan.kernel contraction @next(%c: tensor<16x24xf32>, %a: tensor<32x16xbf16>, %b: tensor<32x24xbf16>) -> tensor<16x24xf32> {
  %0 = train.dot_general %a, %b batch [] x [] contract [0] x [0] : tensor<32x16xbf16>, tensor<32x24xbf16>
  %1 = train.convert %0 : tensor<16x24xbf16> -> tensor<16x24xf32>
  %2 = train.add %c, %1 : tensor<16x24xf32>
  plan.return %2 : tensor<16x24xf32>
}
plan.kernel loop @sum(%x: tensor<16x24xf32>, %y: tensor<16x24xf32>) -> tensor<f32> {
  %0 = train.add %x, %y : tensor<16x24xf32>
  %1 = train.reduce sum %0 dims [0, 1] : tensor<16x24xf32>
  plan.return %1 : tensor<f32>
}

// CHECK-LABEL: plan.program @dies
// CHECK-NOT: plan.copy
// CHECK: plan.launch @first {{.*}} outs([[SUM:%.*]] : !plan.buffer
// CHECK-NOT: plan.copy
// CHECK: plan.launch @next ins([[SUM]], {{.*}} outs([[SUM]] : !plan.buffer
func.func @dies(%a: tensor<32x16xbf16> {train.role = #train.role<parameter>, train.name = "a"}, %b: tensor<32x24xbf16> {train.role = #train.role<parameter>, train.name = "b"}) -> (tensor<f32> {train.role = #train.role<metric>, train.name = "m"}) {
  %0 = plan.call @first(%a, %b) : (tensor<32x16xbf16>, tensor<32x24xbf16>) -> tensor<16x24xf32>
  %1 = plan.call @next(%0, %a, %b) : (tensor<16x24xf32>, tensor<32x16xbf16>, tensor<32x24xbf16>) -> tensor<16x24xf32>
  %2 = plan.call @sum(%1, %1) : (tensor<16x24xf32>, tensor<16x24xf32>) -> tensor<f32>
  return %2 : tensor<f32>
}

// CHECK-LABEL: plan.program @lives
// CHECK: plan.launch @first {{.*}} outs([[FIRST:%.*]] : !plan.buffer
// CHECK: plan.copy [[FIRST]] to [[SUM:%.*]] :
// CHECK-NEXT: plan.launch @next {{.*}} outs([[SUM]] : !plan.buffer
func.func @lives(%a: tensor<32x16xbf16> {train.role = #train.role<parameter>, train.name = "a"}, %b: tensor<32x24xbf16> {train.role = #train.role<parameter>, train.name = "b"}) -> (tensor<f32> {train.role = #train.role<metric>, train.name = "m"}) {
  %0 = plan.call @first(%a, %b) : (tensor<32x16xbf16>, tensor<32x24xbf16>) -> tensor<16x24xf32>
  %1 = plan.call @next(%0, %a, %b) : (tensor<16x24xf32>, tensor<32x16xbf16>, tensor<32x24xbf16>) -> tensor<16x24xf32>
  %2 = plan.call @sum(%0, %1) : (tensor<16x24xf32>, tensor<16x24xf32>) -> tensor<f32>
  return %2 : tensor<f32>
}
