// RUN: lockstep-opt %s | lockstep-opt | FileCheck %s

dist.mesh @mesh ["data" = 2]

// CHECK: plan.kernel loop @relu([[X:%.*]]: tensor<8x64xf32>) -> tensor<8x64xf32> cost 512, 4096 {
plan.kernel loop @relu(%x: tensor<8x64xf32>) -> tensor<8x64xf32> cost 512, 4096 {
  %zero = train.constant dense<0.0> : tensor<8x64xf32>
  %y = train.maximum %x, %zero : tensor<8x64xf32>
  // CHECK: plan.return {{%.*}} : tensor<8x64xf32>
  plan.return %y : tensor<8x64xf32>
}

// CHECK: plan.kernel update @halve(
plan.kernel update @halve(%x: tensor<1xf32>, %s: tensor<f32>) -> tensor<1xf32> {
  %b = train.broadcast_in_dim %s dims [] : tensor<f32> -> tensor<1xf32>
  %y = train.multiply %x, %b : tensor<1xf32>
  plan.return %y : tensor<1xf32>
}

// CHECK-LABEL: func.func @calls
func.func @calls(%x: tensor<8x64xf32>, %s: tensor<f32>) -> tensor<522xf32> {
  // CHECK: [[Y:%.*]] = plan.call @relu({{%.*}}) : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %y = plan.call @relu(%x) : (tensor<8x64xf32>) -> tensor<8x64xf32>
  // CHECK: plan.call @halve([[Y]], {{%.*}}) : (tensor<8x64xf32>, tensor<f32>) -> tensor<8x64xf32>
  %z = plan.call @halve(%y, %s) : (tensor<8x64xf32>, tensor<f32>) -> tensor<8x64xf32>
  // CHECK: plan.view {{%.*}} at 64 : tensor<8x64xf32> -> tensor<2x5xf32>
  %v = plan.view %z at 64 : tensor<8x64xf32> -> tensor<2x5xf32>
  // CHECK: plan.join {{%.*}}, {{%.*}} : tensor<8x64xf32>, tensor<2x5xf32> -> tensor<522xf32>
  %j = plan.join %z, %v : tensor<8x64xf32>, tensor<2x5xf32> -> tensor<522xf32>
  return %j : tensor<522xf32>
}

// CHECK: plan.program @step entry "step" role "all" arena_bytes 8192 accumulation_steps 4 {
plan.program @step entry "step" role "all" arena_bytes 8192 accumulation_steps 4 {
  // CHECK: plan.buffer {{ *}}persistent "w" role <parameter> offset 0 {train.decayed}
  %w = plan.buffer persistent "w" role <parameter> offset 0 {train.decayed} : !plan.buffer<tensor<8x64xf32>>
  %s = plan.buffer scalar "lr" role <hyperparameter> offset 2048 : !plan.buffer<tensor<f32>>
  %t = plan.buffer temporary offset 4096 : !plan.buffer<tensor<8x64xf32>>
  // CHECK: plan.fill
  plan.fill %t : !plan.buffer<tensor<8x64xf32>>
  // CHECK: plan.loop 4 {
  plan.loop 4 {
    // CHECK: plan.buffer {{ *}}temporary offset 0 stride 512
    %r = plan.buffer temporary offset 0 stride 512 : !plan.buffer<tensor<2x64xf32>>
    plan.launch @halve ins(%r, %s : !plan.buffer<tensor<2x64xf32>>, !plan.buffer<tensor<f32>>) outs(%r : !plan.buffer<tensor<2x64xf32>>)
  }
  // CHECK: plan.launch @halve segments 2 ins(
  plan.launch @halve segments 2 ins(%w, %s, %t, %s : !plan.buffer<tensor<8x64xf32>>, !plan.buffer<tensor<f32>>, !plan.buffer<tensor<8x64xf32>>, !plan.buffer<tensor<f32>>)
    outs(%w, %t : !plan.buffer<tensor<8x64xf32>>, !plan.buffer<tensor<8x64xf32>>)
  // CHECK: plan.collective_start {{ *}}all_reduce 0 reduction {{ *}}sum on @mesh ["data"] ins(
  plan.collective_start all_reduce 0 reduction sum on @mesh ["data"] ins(%t : !plan.buffer<tensor<8x64xf32>>) outs(%t : !plan.buffer<tensor<8x64xf32>>)
  // CHECK: plan.collective_wait 0
  plan.collective_wait 0
  // CHECK: plan.copy
  plan.copy %t to %w : !plan.buffer<tensor<8x64xf32>>, !plan.buffer<tensor<8x64xf32>>
}
