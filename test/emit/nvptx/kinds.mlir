// The grids of kernels with loops of their own, as PTX.
// RUN: gpu-kernels %s --target sm_90a --ptx | FileCheck %s

// Positions are listed in their order by votes; nothing is added atomically.
// CHECK-LABEL: .entry scatter(
// CHECK-NOT: atom
// CHECK-NOT: red.
// CHECK: vote.sync.ballot
// CHECK: popc.b32
plan.kernel scatter @scatter(%i: tensor<700xi64>, %u: tensor<700x64xf32>) -> tensor<2500x64xf32> {
  %0 = train.constant dense<0.0> : tensor<2500x64xf32>
  %1 = train.scatter add %0[%i], %u dims [0] batch 0 : tensor<2500x64xf32>, tensor<700x64xf32>, tensor<700xi64>
  plan.return %1 : tensor<2500x64xf32>
}

// A warp scans 32 elements and carries the last on.
// CHECK-LABEL: .entry scan(
// CHECK-COUNT-5: shfl.sync.up
// CHECK: shfl.sync.idx
plan.kernel scan @scan(%x: tensor<6x203xf32>) -> tensor<6x203xf32> {
  %0 = train.cumulative sum %x dim 1 : tensor<6x203xf32>
  plan.return %0 : tensor<6x203xf32>
}

// CHECK-LABEL: .entry largest(
// CHECK-COUNT-10: shfl.sync.bfly
plan.kernel scan @largest(%x: tensor<6x203xf32>) -> tensor<6xi64> {
  %0 = train.arg_reduce max %x dim 1 : tensor<6x203xf32>
  plan.return %0 : tensor<6xi64>
}

// An element gathers from its windows.
// CHECK-LABEL: .entry pool_gradient(
// CHECK-NOT: atom
// CHECK-NOT: red.
// CHECK: st.global
plan.kernel window @pool_gradient(%x: tensor<2x3x9x8xf32>, %dy: tensor<2x3x5x4xf32>) -> tensor<2x3x9x8xf32> {
  %0 = train.reduce_window_gradient max %x, %dy window [3, 3] strides [2, 2] padding [1, 1] to [1, 1] dilation [1, 1] : tensor<2x3x9x8xf32>, tensor<2x3x5x4xf32>
  plan.return %0 : tensor<2x3x9x8xf32>
}

// In shared memory where a row fits.
// CHECK-LABEL: .entry sort_short(
// CHECK: ld.shared
plan.kernel sort @sort_short(%x: tensor<2x300xf32>) -> (tensor<2x300xf32>, tensor<2x300xi64>) {
  %v, %i = train.sort %x dim 1 : tensor<2x300xf32>
  plan.return %v, %i : tensor<2x300xf32>, tensor<2x300xi64>
}

// CHECK-LABEL: .entry sort_long(
// CHECK-NOT: ld.shared
plan.kernel sort @sort_long(%x: tensor<2x30000xf32>) -> (tensor<2x30000xf32>, tensor<2x30000xi64>) {
  %v, %i = train.sort %x dim 1 : tensor<2x30000xf32>
  plan.return %v, %i : tensor<2x30000xf32>, tensor<2x30000xi64>
}

// CHECK-LABEL: .entry convolution(
// CHECK: fma.rn.f32
plan.kernel convolution @convolution(%x: tensor<2x6x9x11xf32>, %w: tensor<4x6x3x3xf32>) -> tensor<2x4x9x11xf32> {
  %0 = train.convolution %x, %w strides [1, 1] padding [1, 1] to [1, 1] dilation [1, 1] groups 1 : tensor<2x6x9x11xf32>, tensor<4x6x3x3xf32>
  plan.return %0 : tensor<2x4x9x11xf32>
}

// CHECK-LABEL: .entry filter_gradient(
// CHECK: shfl.sync.bfly
plan.kernel convolution_filter_gradient @filter_gradient(%x: tensor<2x6x9x11xf32>, %dy: tensor<2x4x9x11xf32>) -> tensor<4x6x3x3xf32> {
  %0 = train.convolution_filter_gradient %x, %dy strides [1, 1] padding [1, 1] to [1, 1] dilation [1, 1] groups 1 : tensor<2x6x9x11xf32>, tensor<2x4x9x11xf32> -> tensor<4x6x3x3xf32>
  plan.return %0 : tensor<4x6x3x3xf32>
}

// All segments in one launch: the segment of a block is read from the table of chunks, 24 bytes each.
// CHECK-LABEL: .entry update(
// CHECK-NEXT: .param
// CHECK-NEXT: .param
// CHECK-NEXT: )
// CHECK: ld.global.v4
// CHECK: st.global.v4
plan.kernel update @update(%p: tensor<1xf32>, %g: tensor<1xf32>, %lr: tensor<f32>) -> tensor<1xf32> {
  %0 = train.broadcast_in_dim %lr dims [] : tensor<f32> -> tensor<1xf32>
  %1 = train.multiply %g, %0 : tensor<1xf32>
  %2 = train.subtract %p, %1 : tensor<1xf32>
  plan.return %2 : tensor<1xf32>
}

// Quotients and roots do not branch: the elements of several vectors are loaded before, and stored 16 bytes at a time.
// CHECK-LABEL: .entry divided_update(
// CHECK-NOT: div.rn
// CHECK-COUNT-2: ld.global.v4
// CHECK: sqrt.approx.f32
// CHECK: div.approx.f32
// CHECK-COUNT-4: st.global.v4
plan.kernel update @divided_update(%m: tensor<1xf32>, %v: tensor<1xf32>) -> (tensor<1xf32>, tensor<1xf32>) {
  %0 = train.sqrt %v : tensor<1xf32>
  %1 = train.divide %m, %0 : tensor<1xf32>
  plan.return %1, %0 : tensor<1xf32>, tensor<1xf32>
}
