// The values stay, also where the weight's gradient is then added up in memory, and scheduled.
// RUN: lockstep-interpret %s --entry step --integers-below 24 --write-inputs %t.in.safetensors -o %t.safetensors
// RUN: lockstep-opt %s --lockstep-fuse-cut-loss="max-bytes=800 least-rows=8" -o %t.mlir
// RUN: lockstep-interpret %t.mlir --entry step --inputs %t.in.safetensors --expect %t.safetensors --tolerance 1e-2
// RUN: lockstep-opt %t.mlir --lockstep-fuse-pipeline="gpu=true epilogues=true" -o %t.fused.mlir
// RUN: FileCheck %s --check-prefix=FUSED --input-file %t.fused.mlir
// RUN: lockstep-interpret %t.fused.mlir --entry step --inputs %t.in.safetensors --expect %t.safetensors --tolerance 1e-2
// RUN: lockstep-opt %t.fused.mlir --lockstep-schedule-pipeline -o %t.plan.mlir
// RUN: FileCheck %s --check-prefix=PLAN --input-file %t.plan.mlir
// RUN: lockstep-interpret %t.plan.mlir --entry step --inputs %t.in.safetensors --expect %t.safetensors --tolerance 1e-2

// Equal kernels; the second product of the weight's gradient takes the first one's sums.
// FUSED-LABEL: func.func @step
// FUSED: [[FIRST:%.*]] = plan.call @[[LOGITS:[a-z_0-9]+]]({{.*}} -> tensor<16x24xbf16>
// FUSED: plan.call @[[LOSS:[a-z_0-9]+]]({{%.*}}, [[FIRST]], {{.*}} -> (tensor<16xf32>
// FUSED: [[SUM:%.*]] = plan.call {{.*}} -> tensor<24x16xf32>
// FUSED: plan.call @[[LOGITS]](
// FUSED: plan.call @[[LOSS]](
// FUSED: plan.call {{.*}}([[SUM]], {{.*}} -> tensor<24x16xf32>

// In the memory of its argument.
// PLAN-NOT: plan.copy
// PLAN: plan.launch {{.*}} ins([[ACC:%.*]], {{%.*}}, {{%.*}} : !plan.buffer<tensor<24x16xf32>>, {{.*}} outs([[ACC]] : !plan.buffer<tensor<24x16xf32>>)
func.func @step(%x: tensor<4x8x16xbf16> {train.role = #train.role<input>, train.name = "x"}, %w: tensor<24x16xbf16> {train.role = #train.role<parameter>, train.name = "w"}, %labels: tensor<4x8xi64> {train.role = #train.role<label>, train.name = "labels"}, %scale: tensor<f32> {train.role = #train.role<hyperparameter>, train.name = "scale"}) -> (tensor<f32> {train.role = #train.role<metric>, train.name = "loss"}, tensor<4x8x16xf32> {train.role = #train.role<output>, train.name = "dx"}, tensor<24x16xf32> {train.role = #train.role<output>, train.name = "dw"}) {
  %0 = train.dot_general %x, %w batch [] x [] contract [2] x [1] : tensor<4x8x16xbf16>, tensor<24x16xbf16>
  %1 = train.convert %0 : tensor<4x8x24xbf16> -> tensor<4x8x24xf32>
  %sum, %lse = train.cross_entropy %1, %labels dim 2 ignore 3 smoothing 0.0 : (tensor<4x8x24xf32>, tensor<4x8xi64>) -> (tensor<f32>, tensor<4x8xf32>)
  %loss = train.divide %sum, %scale : tensor<f32>
  %2 = train.cross_entropy_gradient %1, %labels, %lse, %scale dim 2 ignore 3 smoothing 0.0 : (tensor<4x8x24xf32>, tensor<4x8xi64>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8x24xf32>
  %3 = train.convert %2 : tensor<4x8x24xf32> -> tensor<4x8x24xbf16>
  %4 = train.dot_general %3, %w batch [] x [] contract [2] x [0] : tensor<4x8x24xbf16>, tensor<24x16xbf16>
  %5 = train.dot_general %3, %x batch [] x [] contract [0, 1] x [0, 1] : tensor<4x8x24xbf16>, tensor<4x8x16xbf16>
  %6 = train.convert %5 : tensor<24x16xbf16> -> tensor<24x16xf32>
  %7 = train.convert %4 : tensor<4x8x16xbf16> -> tensor<4x8x16xf32>
  %8 = train.negate %6 : tensor<24x16xf32>
  return %loss, %7, %8 : tensor<f32>, tensor<4x8x16xf32>, tensor<24x16xf32>
}
