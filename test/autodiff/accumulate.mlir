// RUN: lockstep-opt %s --lockstep-autodiff-pipeline="loss=cross_entropy labels=y optimizer=sgd momentum=0.9 accumulation-steps=2" | FileCheck %s

// The count comes from all labels; the loop sees half of the batch at a time, carries the rng and sums loss and gradients.
// CHECK-LABEL: func.func @step
// CHECK-SAME: [[X:%[a-z0-9]+]]: tensor<8x4xf32> {train.name = "x"
// CHECK-SAME: [[Y:%[a-z0-9]+]]: tensor<8xi64> {train.ignored_label = -100 : i64, train.name = "y"
// CHECK-SAME: [[RNG:%[a-z0-9]+]]: tensor<2xi64> {train.name = "rng"
// CHECK: [[COUNT:%.*]] = train.label_count [[Y]]
// CHECK: [[SEED:%.*]] = train.divide {{%.*}}, [[COUNT]]
// CHECK: [[R:%.*]]:4 = train.accumulate 2 batch([[X]], [[Y]]) carried([[RNG]])
// CHECK-NEXT: ^bb0([[PX:%.*]]: tensor<4x4xf32>, [[PY:%.*]]: tensor<4xi64>, [[PRNG:%.*]]: tensor<2xi64>, {{%.*}}: tensor<i64>):
// CHECK: train.dropout {{%.*}}, [[PRNG]]
// CHECK: train.cross_entropy {{%.*}}, [[PY]]
// CHECK: train.cross_entropy_gradient {{%.*}}, [[PY]], {{%.*}}, [[SEED]]
// CHECK: train.dropout {{%.*}}, [[PRNG]]
// CHECK: train.add [[PRNG]]
// CHECK: train.yield
// CHECK: train.divide [[R]]#1, [[COUNT]]
// CHECK: train.global_norm [[R]]#2, [[R]]#3
// CHECK: train.sgd {{%.*}}, [[R]]#2
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
