// RUN: lockstep-opt %s --lockstep-autodiff-pipeline="loss=output:0 local-batch-norm=true" | FileCheck %s

// The step normalises with batch statistics, per rank as asked, and returns the new running statistics.
// CHECK-LABEL: func.func @step
// CHECK-SAME: -> (tensor<3xf32> {train.name = "w", train.role = #train.role<parameter>}
// CHECK-SAME: tensor<3xf32> {train.name = "mean", train.role = #train.role<buffer>}
// CHECK-SAME: tensor<3xf32> {train.name = "var", train.role = #train.role<buffer>}
// CHECK-SAME: tensor<f32> {train.name = "loss", train.role = #train.role<metric>}
// CHECK: train.batch_norm {{.*}}local_statistics
// CHECK: train.batch_norm_gradient {{.*}}local_statistics

// Evaluation normalises with the running statistics, which stay.
// CHECK-LABEL: func.func @eval
// CHECK-SAME: -> (tensor<f32> {train.name = "loss", train.role = #train.role<metric>})
// CHECK: train.batch_norm {{.*}}inference
// CHECK-NOT: local_statistics
func.func @forward(%w: tensor<3xf32> {train.role = #train.role<parameter>, train.name = "w"},
                   %m: tensor<3xf32> {train.role = #train.role<buffer>, train.name = "mean"},
                   %v: tensor<3xf32> {train.role = #train.role<buffer>, train.name = "var"},
                   %x: tensor<8x3xf32> {train.role = #train.role<input>, train.name = "x"})
    -> (tensor<f32> {train.role = #train.role<output>, train.name = "output:0"},
        tensor<3xf32> {train.role = #train.role<buffer>, train.name = "mean"},
        tensor<3xf32> {train.role = #train.role<buffer>, train.name = "var"}) {
  %y, %mean, %rstd, %nm, %nv = train.batch_norm %x weight %w running %m, %v momentum 1.0e-01 eps 1.0e-05
      : (tensor<8x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<8x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
  %0 = train.multiply %y, %y : tensor<8x3xf32>
  %1 = train.multiply %0, %y : tensor<8x3xf32>
  %2 = train.reduce sum %1 dims [0, 1] : tensor<8x3xf32>
  return %2, %nm, %nv : tensor<f32>, tensor<3xf32>, tensor<3xf32>
}
