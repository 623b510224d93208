// RUN: lockstep-opt %s --lockstep-autodiff-join-slice-gradients --canonicalize | FileCheck %s

// CHECK-LABEL: @three_parts
// CHECK-SAME: [[A:%.*]]: tensor<4x2xf32>, [[B:%.*]]: tensor<4x3xf32>, [[C:%.*]]: tensor<4x3xf32>
// CHECK-NEXT: [[R:%.*]] = train.concatenate [[A]], [[B]], [[C]] dim 1
// CHECK-NEXT: return [[R]]
func.func @three_parts(%a: tensor<4x2xf32>, %b: tensor<4x3xf32>, %c: tensor<4x3xf32>) -> tensor<4x8xf32> {
  %z = train.constant dense<0.0> : tensor<f32>
  %0 = train.pad %c, %z low [0, 5] high [0, 0] interior [0, 0] : tensor<4x3xf32>, tensor<f32>
  %1 = train.pad %a, %z low [0, 0] high [0, 6] interior [0, 0] : tensor<4x2xf32>, tensor<f32>
  %2 = train.add %0, %1 : tensor<4x8xf32>
  %3 = train.pad %b, %z low [0, 2] high [0, 3] interior [0, 0] : tensor<4x3xf32>, tensor<f32>
  %4 = train.add %2, %3 : tensor<4x8xf32>
  return %4 : tensor<4x8xf32>
}

// A gap gets zeros, another summand stays.
// CHECK-LABEL: @gap
// CHECK-SAME: [[A:%.*]]: tensor<2xf32>, [[B:%.*]]: tensor<3xf32>, [[X:%.*]]: tensor<8xf32>
// CHECK-DAG: [[G:%.*]] = train.constant dense<0.000000e+00> : tensor<1xf32>
// CHECK: [[R:%.*]] = train.concatenate [[A]], [[G]], [[B]] dim 0
// CHECK: [[P:%.*]] = train.pad [[R]], {{%.*}} low [0] high [2] interior [0]
// CHECK: train.add [[X]], [[P]]
func.func @gap(%a: tensor<2xf32>, %b: tensor<3xf32>, %x: tensor<8xf32>) -> tensor<8xf32> {
  %z = train.constant dense<0.0> : tensor<f32>
  %0 = train.pad %a, %z low [0] high [6] interior [0] : tensor<2xf32>, tensor<f32>
  %1 = train.add %0, %x : tensor<8xf32>
  %2 = train.pad %b, %z low [3] high [2] interior [0] : tensor<3xf32>, tensor<f32>
  %3 = train.add %1, %2 : tensor<8xf32>
  return %3 : tensor<8xf32>
}

// Overlapping parts are added.
// CHECK-LABEL: @overlap
// CHECK-NOT: train.concatenate
// CHECK: train.add
func.func @overlap(%a: tensor<5xf32>, %b: tensor<5xf32>) -> tensor<8xf32> {
  %z = train.constant dense<0.0> : tensor<f32>
  %0 = train.pad %a, %z low [0] high [3] interior [0] : tensor<5xf32>, tensor<f32>
  %1 = train.pad %b, %z low [3] high [0] interior [0] : tensor<5xf32>, tensor<f32>
  %2 = train.add %0, %1 : tensor<8xf32>
  return %2 : tensor<8xf32>
}
