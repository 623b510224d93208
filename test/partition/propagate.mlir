// RUN: lockstep-opt %s --lockstep-partition-propagate -split-input-file | FileCheck %s

dist.mesh @mesh ["data" = 4]

// Two partial gradients of a tied weight are added before their reduction.
// CHECK-LABEL: @tied
// CHECK: train.add {{.*}}dist.operand_shardings = [#dist.sharding<{{\[}}[], []], partial<sum, ["data"]>>, #dist.sharding<{{\[}}[], []], partial<sum, ["data"]>>]
// CHECK: return {dist.operand_shardings = [#dist.sharding<{{\[}}[], []]>]
func.func @tied(%a: tensor<8x4xf32> {dist.sharding = #dist.sharding<[["data"], []]>}, %b: tensor<8x4xf32> {dist.sharding = #dist.sharding<[["data"], []]>}) -> tensor<4x4xf32> {
  %0 = train.dot_general %a, %b batch [] x [] contract [0] x [0] : tensor<8x4xf32>, tensor<8x4xf32>
  %1 = train.dot_general %b, %a batch [] x [] contract [0] x [0] : tensor<8x4xf32>, tensor<8x4xf32>
  %2 = train.add %0, %1 : tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}

// -----

dist.mesh @mesh ["data" = 4]

// The bias is broadcast divided, since it is used divided.
// CHECK-LABEL: @bias
// CHECK: train.broadcast_in_dim {{.*}}dist.result_shardings = [#dist.sharding<{{\[}}["data"], []]>]
func.func @bias(%x: tensor<8x4xf32> {dist.sharding = #dist.sharding<[["data"], []]>}, %b: tensor<4xf32>) -> tensor<8x4xf32> {
  %0 = train.broadcast_in_dim %b dims [1] : tensor<4xf32> -> tensor<8x4xf32>
  %1 = train.add %x, %0 : tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}

// -----

dist.mesh @mesh ["data" = 4]

// [B * T] splits as B major; an axis longer than B goes on over T.
// CHECK-LABEL: @split
// CHECK: train.reshape {{.*}}dist.result_shardings = [#dist.sharding<{{\[}}["data":(1)2], ["data":(2)2]]>]
func.func @split(%x: tensor<16xf32> {dist.sharding = #dist.sharding<[["data"]]>}) -> tensor<2x8xf32> {
  %0 = train.reshape %x : tensor<16xf32> -> tensor<2x8xf32>
  return %0 : tensor<2x8xf32>
}

// -----

dist.mesh @mesh ["data" = 2, "model" = 2]

// Two axes: rows over one, the contraction over the other.
// CHECK-LABEL: @two_axes
// CHECK: train.dot_general {{.*}}dist.result_shardings = [#dist.sharding<{{\[}}["data"], []], partial<sum, ["model"]>>]
func.func @two_axes(%x: tensor<8x4xf32> {dist.sharding = #dist.sharding<[["data"], ["model"]]>}, %w: tensor<4x6xf32> {dist.sharding = #dist.sharding<[["model"], []]>}) -> tensor<8x6xf32> {
  %0 = train.dot_general %x, %w batch [] x [] contract [1] x [0] : tensor<8x4xf32>, tensor<4x6xf32>
  return %0 : tensor<8x6xf32>
}

// -----

dist.mesh @mesh ["model" = 2]

// A softmax over a divided dimension is expanded: its maximum and sum are explicit.
// CHECK-LABEL: @softmax
// CHECK-NOT: train.softmax
// CHECK: train.reduce max {{.*}}dist.result_shardings = [#dist.sharding<{{\[}}[]], partial<max, ["model"]>>]
// CHECK: train.reduce sum {{.*}}dist.result_shardings = [#dist.sharding<{{\[}}[]], partial<sum, ["model"]>>]
func.func @softmax(%x: tensor<8x4xf32> {dist.sharding = #dist.sharding<[[], ["model"]]>}) -> tensor<8x4xf32> {
  %0 = train.softmax %x dim 1 : tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

dist.mesh @mesh ["data" = 2]

// Rows indexed by their own number are a batch dimension.
// CHECK-LABEL: @own_rows
// CHECK: train.gather {{.*}} dims [1] batch 1 {dist.operand_shardings = [#dist.sharding<{{\[}}["data"], []]>
func.func @own_rows(%x: tensor<8x4xf32> {dist.sharding = #dist.sharding<[["data"], []]>}, %c: tensor<8x3xi64>) -> tensor<8x3xf32> {
  %0 = train.iota dim 0 : tensor<8xi64>
  %1 = train.broadcast_in_dim %0 dims [0] : tensor<8xi64> -> tensor<8x3xi64>
  %2 = train.gather %x[%1, %c] dims [0, 1] batch 0 : tensor<8x4xf32>, tensor<8x3xi64>, tensor<8x3xi64>
  return %2 : tensor<8x3xf32>
}

// -----

dist.mesh @mesh ["data" = 4]

// Sums of bf16 products are added over ranks in f32; what rounds a sum waits for the whole.
// CHECK-LABEL: @widened
// CHECK: train.convert {{.*}}dist.operand_shardings = [#dist.sharding<{{\[}}[], []], partial<sum, ["data"]>>]{{.*}} : tensor<4x4xbf16> -> tensor<4x4xf32>
// CHECK: train.convert {{.*}}dist.operand_shardings = [#dist.sharding<{{\[}}[], []]>]{{.*}} : tensor<4x4xf32> -> tensor<4x4xbf16>
func.func @widened(%a: tensor<8x4xbf16> {dist.sharding = #dist.sharding<[["data"], []]>}, %b: tensor<8x4xbf16> {dist.sharding = #dist.sharding<[["data"], []]>}) -> tensor<4x4xbf16> {
  %0 = train.dot_general %a, %b batch [] x [] contract [0] x [0] : tensor<8x4xbf16>, tensor<8x4xbf16>
  %1 = train.convert %0 : tensor<4x4xbf16> -> tensor<4x4xf32>
  %2 = train.convert %1 : tensor<4x4xf32> -> tensor<4x4xbf16>
  return %2 : tensor<4x4xbf16>
}
