// RUN: lockstep-opt %s --lockstep-autodiff-pipeline="labels=y ignore-index=-7" | FileCheck %s
// RUN: lockstep-opt %s --lockstep-autodiff-pipeline="labels=shifted" | FileCheck %s --check-prefix=BOTH

// The range of integers comes from the tables and losses that they reach, through whatever moves or converts them: the least of
// several. What is compared, computed with or chosen has none.
// CHECK-LABEL: func.func @step
// CHECK-SAME: {train.name = "edges", train.role = #train.role<input>, train.vocabulary = 8 : i64}
// CHECK-SAME: {train.name = "ids", train.role = #train.role<input>, train.vocabulary = 5 : i64}
// CHECK-SAME: {train.from_end, train.name = "rows", train.role = #train.role<input>, train.vocabulary = 8 : i64}
// CHECK-SAME: {train.name = "shifted", train.role = #train.role<input>}
// CHECK-SAME: {train.ignored_label = -7 : i64, train.name = "y", train.role = #train.role<label>, train.vocabulary = 4 : i64}
// CHECK-LABEL: func.func @eval
// CHECK-SAME: {train.name = "ids", train.role = #train.role<input>, train.vocabulary = 5 : i64}
// CHECK-SAME: {train.ignored_label = -7 : i64, train.name = "y", train.role = #train.role<label>, train.vocabulary = 4 : i64}

// An input of the graph that the loss takes as well.
// BOTH-LABEL: func.func @step
// BOTH-SAME: {train.ignored_label = -100 : i64, train.name = "shifted", train.role = #train.role<label>, train.vocabulary = 4 : i64}
func.func @forward(%w: tensor<6x4xf32> {train.role = #train.role<parameter>, train.name = "w"},
                   %v: tensor<5x4xf32> {train.role = #train.role<parameter>, train.name = "v"},
                   %edges: tensor<8x1xi64> {train.role = #train.role<input>, train.name = "edges"},
                   %ids: tensor<4x2xi32> {train.role = #train.role<input>, train.name = "ids"},
                   %rows: tensor<8xi64> {train.role = #train.role<input>, train.name = "rows"},
                   %shifted: tensor<4x2xi64> {train.role = #train.role<input>, train.name = "shifted"})
    -> (tensor<8x4xf32> {train.role = #train.role<output>, train.name = "output:0"}) {
  %long = train.convert %ids : tensor<4x2xi32> -> tensor<4x2xi64>
  %0 = train.embedding %w, %long : tensor<6x4xf32>, tensor<4x2xi64>
  %flat = train.reshape %long : tensor<4x2xi64> -> tensor<8xi64>
  %1 = train.embedding %v, %flat : tensor<5x4xf32>, tensor<8xi64>
  %2 = train.reshape %0 : tensor<4x2x4xf32> -> tensor<8x4xf32>
  %3 = train.add %1, %2 : tensor<8x4xf32>
  %one = train.constant dense<1> : tensor<4x2xi64>
  %next = train.add %shifted, %one : tensor<4x2xi64>
  %4 = train.embedding %w, %next : tensor<6x4xf32>, tensor<4x2xi64>
  %5 = train.reshape %4 : tensor<4x2x4xf32> -> tensor<8x4xf32>
  %6 = train.add %3, %5 : tensor<8x4xf32>
  %column = train.reshape %edges : tensor<8x1xi64> -> tensor<8xi64>
  %7 = train.gather %6[%column] dims [0] batch 0 : tensor<8x4xf32>, tensor<8xi64>
  %zero = train.constant dense<0> : tensor<8xi64>
  %size = train.constant dense<8> : tensor<8xi64>
  %negative = train.compare lt %rows, %zero : tensor<8xi64>
  %moved = train.add %rows, %size : tensor<8xi64>
  %index = train.select %negative, %moved, %rows : tensor<8xi1>, tensor<8xi64>
  %8 = train.gather %7[%index] dims [0] batch 0 : tensor<8x4xf32>, tensor<8xi64>
  return %8 : tensor<8x4xf32>
}
