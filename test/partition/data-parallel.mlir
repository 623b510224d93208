// RUN: lockstep-opt %s --lockstep-partition-data-parallel=ranks=4 | FileCheck %s
// RUN: lockstep-opt %s --lockstep-partition-data-parallel=ranks=1 | FileCheck %s --check-prefix=ONE

// CHECK: dist.mesh @mesh ["data" = 4]
// ONE: dist.mesh @mesh ["data" = 1]
// ONE-NOT: dist.sharding

// Inputs and labels are divided along dimension 0, everything else is whole; outputs stay as they come.
// CHECK-LABEL: @step
// CHECK-SAME: %arg0: tensor<4xf32> {train.role = #train.role<parameter>}
// CHECK-SAME: %arg1: tensor<8x4xf32> {dist.sharding = #dist.sharding<{{\[}}["data"], []]>, train.role = #train.role<input>}
// CHECK-SAME: %arg2: tensor<8xi64> {dist.sharding = #dist.sharding<{{\[}}["data"]]>, train.role = #train.role<label>}
// CHECK-SAME: %arg3: tensor<6x2xf32> {train.role = #train.role<input>, train.whole}
// CHECK-SAME: tensor<4xf32> {dist.sharding = #dist.sharding<{{\[}}[]]>, train.role = #train.role<parameter>}
// CHECK-SAME: tensor<8x4xf32> {train.role = #train.role<output>}
func.func @step(%w: tensor<4xf32> {train.role = #train.role<parameter>}, %x: tensor<8x4xf32> {train.role = #train.role<input>},
                %y: tensor<8xi64> {train.role = #train.role<label>}, %t: tensor<6x2xf32> {train.role = #train.role<input>, train.whole})
    -> (tensor<4xf32> {train.role = #train.role<parameter>}, tensor<8x4xf32> {train.role = #train.role<output>}) {
  return %w, %x : tensor<4xf32>, tensor<8x4xf32>
}
