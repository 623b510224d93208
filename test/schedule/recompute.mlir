// RUN: lockstep-opt %s --split-input-file --lockstep-schedule-recompute=memory-limit=120000 | FileCheck %s
// RUN: lockstep-opt %s --split-input-file --lockstep-schedule-recompute=memory-limit=110000 | FileCheck %s --check-prefix=MORE
// RUN: lockstep-opt %s --split-input-file --lockstep-schedule-recompute=memory-limit=1000000 | FileCheck %s --check-prefix=AMPLE

// Where all fits, nothing changes.
// AMPLE-NOT: plan.recompute

// The activation is computed again behind the place where most is alive, from its saved input: exp is cheaper than a product. What it frees there is
// its 16 KiB. The kernel of its gradient reads that input anyway, and computes exp already: it gives the activation as well, and what reads that moves
// behind it.
// CHECK-LABEL: func.func @step
// CHECK-SAME: plan.recompute = {bytes = 16384 : i64, calls = 0 : i64, merged = 1 : i64, seconds =
// CHECK: [[A:%.*]] = plan.call @product(%arg0, %arg1)
// CHECK-NEXT: [[E:%.*]] = plan.call @activate([[A]])
// CHECK-NEXT: [[B:%.*]] = plan.call @product([[E]], %arg1)
// CHECK-NEXT: [[BIG:%.*]] = plan.call @spread([[B]])
// CHECK-NEXT: [[D:%.*]] = plan.call @gather([[BIG]])
// CHECK-NEXT: [[G:%.*]]:2 = plan.call @gradient_again([[D]], [[A]])
// CHECK-NEXT: [[GW:%.*]] = plan.call @weight([[G]]#1, [[D]])
// CHECK: plan.kernel loop @gradient_again([[P:%.*]]: tensor<64x64xf32>, [[Q:%.*]]: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>)
// CHECK-NEXT: [[X:%.*]] = train.exponential [[Q]]
// CHECK-NEXT: [[Y:%.*]] = train.multiply [[P]], [[X]]
// CHECK-NEXT: plan.return [[Y]], [[X]]

// With less memory the product as well, before the activation, which reads it.
// MORE-LABEL: func.func @step
// MORE-SAME: plan.recompute = {bytes = 32768 : i64, calls = 1 : i64, merged = 1 : i64, seconds =
// MORE: [[D:%.*]] = plan.call @gather
// MORE-NEXT: [[A:%.*]] = plan.call @product(%arg0, %arg1) {plan.recomputed}
// MORE-NEXT: [[G:%.*]]:2 = plan.call @gradient_again([[D]], [[A]])
// MORE-NEXT: plan.call @weight([[G]]#1, [[D]])
func.func @step(%x: tensor<64x64xf32> {train.role = #train.role<input>, train.name = "x"}, %w: tensor<64x64xf32> {train.role = #train.role<parameter>, train.name = "w"})
    -> (tensor<64x64xf32> {train.role = #train.role<parameter>, train.name = "w"}, tensor<f32> {train.role = #train.role<metric>, train.name = "loss"}) {
  %a = plan.call @product(%x, %w) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %e = plan.call @activate(%a) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %b = plan.call @product(%e, %w) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %big = plan.call @spread(%b) : (tensor<64x64xf32>) -> tensor<3x64x64xf32>
  %d = plan.call @gather(%big) : (tensor<3x64x64xf32>) -> tensor<64x64xf32>
  %gw = plan.call @weight(%e, %d) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %da = plan.call @gradient(%d, %a) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %n = plan.call @update(%w, %gw) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %l = plan.call @loss(%da) : (tensor<64x64xf32>) -> tensor<f32>
  return %n, %l : tensor<64x64xf32>, tensor<f32>
}
plan.kernel contraction @product(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> cost 524288, 49152 {
  %0 = train.dot_general %x, %w batch [] x [] contract [1] x [0] : tensor<64x64xf32>, tensor<64x64xf32>
  plan.return %0 : tensor<64x64xf32>
}
plan.kernel contraction @weight(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> cost 524288, 49152 {
  %0 = train.dot_general %x, %w batch [] x [] contract [0] x [0] : tensor<64x64xf32>, tensor<64x64xf32>
  plan.return %0 : tensor<64x64xf32>
}
plan.kernel loop @activate(%a: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = train.exponential %a : tensor<64x64xf32>
  plan.return %0 : tensor<64x64xf32>
}
plan.kernel loop @spread(%b: tensor<64x64xf32>) -> tensor<3x64x64xf32> {
  %0 = train.broadcast_in_dim %b dims [1, 2] : tensor<64x64xf32> -> tensor<3x64x64xf32>
  %1 = train.abs %0 : tensor<3x64x64xf32>
  plan.return %1 : tensor<3x64x64xf32>
}
plan.kernel loop @gather(%b: tensor<3x64x64xf32>) -> tensor<64x64xf32> {
  %0 = train.reduce sum %b dims [0] : tensor<3x64x64xf32>
  plan.return %0 : tensor<64x64xf32>
}
plan.kernel loop @gradient(%d: tensor<64x64xf32>, %a: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = train.exponential %a : tensor<64x64xf32>
  %1 = train.multiply %d, %0 : tensor<64x64xf32>
  plan.return %1 : tensor<64x64xf32>
}
plan.kernel update @update(%w: tensor<1xf32>, %g: tensor<1xf32>) -> tensor<1xf32> {
  %0 = train.subtract %w, %g : tensor<1xf32>
  plan.return %0 : tensor<1xf32>
}
plan.kernel loop @loss(%x: tensor<64x64xf32>) -> tensor<f32> {
  %0 = train.reduce sum %x dims [0, 1] : tensor<64x64xf32>
  plan.return %0 : tensor<f32>
}

// -----

// One kernel gives the sums rounded and their activation: of it only the activation is done again, from the rounded sums. A view of a value is a view
// of the new one.
// CHECK-LABEL: func.func @step
// CHECK: [[S:%.*]]:2 = plan.call @product(%arg0, %arg1)
// CHECK: [[D:%.*]] = plan.call @gather
// CHECK-NEXT: [[AGAIN:%.*]] = plan.call @product_again([[S]]#1) {plan.recomputed}
// CHECK-NEXT: [[V:%.*]] = plan.view [[AGAIN]] :
// CHECK-NEXT: plan.call @weight([[V]], [[D]])
// CHECK: plan.kernel loop @product_again([[P:%.*]]: tensor<64x128xbf16>) -> tensor<64x128xbf16> cost
// CHECK-NEXT: [[W:%.*]] = train.convert [[P]] : tensor<64x128xbf16> -> tensor<64x128xf32>
// CHECK-NEXT: [[E:%.*]] = train.abs [[W]]
// CHECK-NEXT: [[R:%.*]] = train.convert [[E]]
// CHECK-NEXT: plan.return [[R]]
func.func @step(%x: tensor<64x64xbf16> {train.role = #train.role<input>, train.name = "x"}, %w: tensor<64x128xbf16> {train.role = #train.role<input>, train.name = "w"})
    -> (tensor<f32> {train.role = #train.role<metric>, train.name = "loss"}) {
  %a:2 = plan.call @product(%x, %w) : (tensor<64x64xbf16>, tensor<64x128xbf16>) -> (tensor<64x128xbf16>, tensor<64x128xbf16>)
  %v = plan.view %a#0 : tensor<64x128xbf16> -> tensor<8192xbf16>
  %c = plan.call @sum(%a#0) : (tensor<64x128xbf16>) -> tensor<bf16>
  %big = plan.call @spread(%c) : (tensor<bf16>) -> tensor<4x64x128xbf16>
  %d = plan.call @gather(%big) : (tensor<4x64x128xbf16>) -> tensor<f32>
  %l = plan.call @weight(%v, %d) : (tensor<8192xbf16>, tensor<f32>) -> tensor<8192xf32>
  %m = plan.call @last(%l, %a#1) : (tensor<8192xf32>, tensor<64x128xbf16>) -> tensor<f32>
  return %m : tensor<f32>
}
plan.kernel contraction @product(%x: tensor<64x64xbf16>, %w: tensor<64x128xbf16>) -> (tensor<64x128xbf16>, tensor<64x128xbf16>) {
  %0 = train.dot_general %x, %w batch [] x [] contract [1] x [0] : tensor<64x64xbf16>, tensor<64x128xbf16>
  %1 = train.convert %0 : tensor<64x128xbf16> -> tensor<64x128xf32>
  %2 = train.negate %1 : tensor<64x128xf32>
  %3 = train.abs %2 : tensor<64x128xf32>
  %4 = train.convert %3 : tensor<64x128xf32> -> tensor<64x128xbf16>
  %5 = train.convert %2 : tensor<64x128xf32> -> tensor<64x128xbf16>
  plan.return %4, %5 : tensor<64x128xbf16>, tensor<64x128xbf16>
}
plan.kernel loop @sum(%b: tensor<64x128xbf16>) -> tensor<bf16> {
  %0 = train.reduce sum %b dims [0, 1] : tensor<64x128xbf16>
  plan.return %0 : tensor<bf16>
}
plan.kernel loop @spread(%b: tensor<bf16>) -> tensor<4x64x128xbf16> {
  %0 = train.broadcast_in_dim %b dims [] : tensor<bf16> -> tensor<4x64x128xbf16>
  %1 = train.abs %0 : tensor<4x64x128xbf16>
  plan.return %1 : tensor<4x64x128xbf16>
}
plan.kernel loop @gather(%b: tensor<4x64x128xbf16>) -> tensor<f32> {
  %0 = train.convert %b : tensor<4x64x128xbf16> -> tensor<4x64x128xf32>
  %1 = train.reduce sum %0 dims [0, 1, 2] : tensor<4x64x128xf32>
  plan.return %1 : tensor<f32>
}
plan.kernel loop @weight(%v: tensor<8192xbf16>, %d: tensor<f32>) -> tensor<8192xf32> {
  %0 = train.convert %v : tensor<8192xbf16> -> tensor<8192xf32>
  %1 = train.broadcast_in_dim %d dims [] : tensor<f32> -> tensor<8192xf32>
  %2 = train.multiply %0, %1 : tensor<8192xf32>
  plan.return %2 : tensor<8192xf32>
}
plan.kernel loop @last(%l: tensor<8192xf32>, %a: tensor<64x128xbf16>) -> tensor<f32> {
  %0 = train.convert %a : tensor<64x128xbf16> -> tensor<64x128xf32>
  %1 = train.reshape %l : tensor<8192xf32> -> tensor<64x128xf32>
  %2 = train.multiply %0, %1 : tensor<64x128xf32>
  %3 = train.reduce sum %2 dims [0, 1] : tensor<64x128xf32>
  plan.return %3 : tensor<f32>
}

// -----

// What the recipe reads is dead by then and computed again, too; in the body of an accumulation as anywhere.
// CHECK-LABEL: func.func @step
// CHECK: train.accumulate
// CHECK: [[D:%.*]] = plan.call @gather
// CHECK-NEXT: [[A:%.*]] = plan.call @double([[X:%.*]]) {plan.recomputed}
// CHECK-NEXT: [[B:%.*]] = plan.call @shift([[A]]) {plan.recomputed}
// CHECK-NEXT: plan.call @last([[B]], [[D]])
func.func @step(%x: tensor<2x4096xf32> {train.role = #train.role<input>, train.name = "x"})
    -> (tensor<f32> {train.role = #train.role<metric>, train.name = "loss"}) {
  %0 = train.accumulate 2 batch(%x) carried() : (tensor<2x4096xf32>) -> (tensor<f32>) {
  ^bb0(%m: tensor<1x4096xf32>, %i: tensor<i64>):
    %a = plan.call @double(%m) : (tensor<1x4096xf32>) -> tensor<1x4096xf32>
    %b = plan.call @shift(%a) : (tensor<1x4096xf32>) -> tensor<1x4096xf32>
    %c = plan.call @sum(%b) : (tensor<1x4096xf32>) -> tensor<f32>
    %big = plan.call @spread(%c) : (tensor<f32>) -> tensor<5x4096xf32>
    %d = plan.call @gather(%big) : (tensor<5x4096xf32>) -> tensor<f32>
    %l = plan.call @last(%b, %d) : (tensor<1x4096xf32>, tensor<f32>) -> tensor<f32>
    train.yield %l : tensor<f32>
  }
  return %0 : tensor<f32>
}
plan.kernel loop @double(%a: tensor<1x4096xf32>) -> tensor<1x4096xf32> {
  %0 = train.add %a, %a : tensor<1x4096xf32>
  plan.return %0 : tensor<1x4096xf32>
}
plan.kernel loop @shift(%a: tensor<1x4096xf32>) -> tensor<1x4096xf32> {
  %0 = train.reverse %a dims [1] : tensor<1x4096xf32>
  plan.return %0 : tensor<1x4096xf32>
}
plan.kernel loop @sum(%b: tensor<1x4096xf32>) -> tensor<f32> {
  %0 = train.reduce sum %b dims [0, 1] : tensor<1x4096xf32>
  plan.return %0 : tensor<f32>
}
plan.kernel loop @spread(%b: tensor<f32>) -> tensor<5x4096xf32> {
  %0 = train.broadcast_in_dim %b dims [] : tensor<f32> -> tensor<5x4096xf32>
  %1 = train.abs %0 : tensor<5x4096xf32>
  plan.return %1 : tensor<5x4096xf32>
}
plan.kernel loop @gather(%b: tensor<5x4096xf32>) -> tensor<f32> {
  %0 = train.reduce sum %b dims [0, 1] : tensor<5x4096xf32>
  plan.return %0 : tensor<f32>
}
plan.kernel loop @last(%b: tensor<1x4096xf32>, %d: tensor<f32>) -> tensor<f32> {
  %0 = train.reduce sum %b dims [0, 1] : tensor<1x4096xf32>
  %1 = train.multiply %0, %d : tensor<f32>
  plan.return %1 : tensor<f32>
}
