// RUN: lockstep-opt %s --lockstep-autodiff-pipeline="loss=cross_entropy labels=y optimizer=adamw lr=0.01 weight-decay=0.1 weight-decay-exclude=ndim<2 grad-clip=1.0" | FileCheck %s

// Arguments by role: parameters (decayed where not excluded), state, buffers, inputs, labels, hyperparameters, rng.
// CHECK-LABEL: func.func @step
// CHECK-SAME: [[W:%[a-z0-9]+]]: tensor<4x3xf32> {train.decayed, train.name = "w", train.role = #train.role<parameter>}
// CHECK-SAME: [[B:%[a-z0-9]+]]: tensor<3xf32> {train.name = "b", train.role = #train.role<parameter>}
// CHECK-SAME: tensor<3xf32> {train.frozen, train.name = "frozen", train.role = #train.role<parameter>}
// CHECK-SAME: tensor<3xf32> {train.name = "b.exp_avg", train.role = #train.role<state>}
// CHECK-SAME: {train.name = "x", train.role = #train.role<input>}
// CHECK-SAME: [[Y:%[a-z0-9]+]]: tensor<8xi64> {train.ignored_label = -100 : i64, train.name = "y", train.role = #train.role<label>, train.vocabulary = 3 : i64}
// CHECK-SAME: [[CLIP:%[a-z0-9]+]]: tensor<f32> {train.default = 1.000000e+00 : f64, train.name = "grad_clip", train.role = #train.role<hyperparameter>}
// CHECK-SAME: [[LR:%[a-z0-9]+]]: tensor<f32> {train.default = 1.000000e-02 : f64, train.name = "lr", train.role = #train.role<hyperparameter>}
// CHECK-SAME: {train.name = "bias_correction1", train.role = #train.role<hyperparameter>}
// CHECK-SAME: [[RNG:%[a-z0-9]+]]: tensor<2xi64> {train.name = "rng", train.role = #train.role<rng>}
// CHECK: train.dropout {{%.*}}, [[RNG]]
// CHECK: [[SUM:%.*]], [[LSE:%.*]] = train.cross_entropy
// CHECK: [[COUNT:%.*]] = train.label_count [[Y]]
// CHECK: [[LOSS:%.*]] = train.divide [[SUM]], [[COUNT]]
// CHECK: train.cross_entropy_gradient
// CHECK: train.dropout {{%.*}}, [[RNG]]
// CHECK: [[NORM:%.*]] = train.global_norm
// CHECK: train.minimum
// CHECK: train.adam [[W]]
// CHECK: train.adam [[B]]
// CHECK: return

// Dropout is off, and nothing is updated.
// CHECK-LABEL: func.func @eval
// CHECK-NOT: train.dropout
// CHECK-NOT: train.adam
// CHECK: train.cross_entropy
// CHECK-NOT: @forward
func.func @forward(%w: tensor<4x3xf32> {train.role = #train.role<parameter>, train.name = "w"},
                   %b: tensor<3xf32> {train.role = #train.role<parameter>, train.name = "b"},
                   %f: tensor<3xf32> {train.role = #train.role<parameter>, train.name = "frozen", train.frozen},
                   %x: tensor<8x4xf32> {train.role = #train.role<input>, train.name = "x"},
                   %rng: tensor<2xi64> {train.role = #train.role<rng>, train.name = "rng"})
    -> (tensor<8x3xf32> {train.role = #train.role<output>, train.name = "output:0"}) {
  %0 = train.dot_general %x, %w batch [] x [] contract [1] x [0] : tensor<8x4xf32>, tensor<4x3xf32>
  %1 = train.broadcast_in_dim %b dims [1] : tensor<3xf32> -> tensor<8x3xf32>
  %2 = train.add %0, %1 : tensor<8x3xf32>
  %3 = train.dropout %2, %rng {rate = 0.1 : f64, id = 0 : i64} : tensor<8x3xf32>, tensor<2xi64>
  %4 = train.broadcast_in_dim %f dims [1] : tensor<3xf32> -> tensor<8x3xf32>
  %5 = train.multiply %3, %4 : tensor<8x3xf32>
  return %5 : tensor<8x3xf32>
}
