// The grids of loop kernels, as PTX.
// RUN: gpu-kernels %s --target sm_90a --ptx | FileCheck %s
// RUN: gpu-kernels %s --target sm_80 --ptx | FileCheck %s --check-prefix=SM80

// SM80: .target sm_80

// A thread takes 16 bytes; what no result can lie over is read through the cache for constants. The index takes 32 bits.
// CHECK-LABEL: .entry pointwise(
// CHECK: .reqntid 256
// CHECK-NOT: div.u64
// CHECK-COUNT-1: ld.global.nc.v4
// CHECK: st.global.v4
plan.kernel loop @pointwise(%x: tensor<64x512xf32>, %y: tensor<512xf32>) -> tensor<64x512xf32> {
  %0 = train.broadcast_in_dim %y dims [1] : tensor<512xf32> -> tensor<64x512xf32>
  %1 = train.add %x, %0 : tensor<64x512xf32>
  plan.return %1 : tensor<64x512xf32>
}

// No vectors divide 7 elements; a warp is enough.
// CHECK-LABEL: .entry odd(
// CHECK: .reqntid 32
// CHECK-NOT: .v4
plan.kernel loop @odd(%x: tensor<7xf32>) -> tensor<7xf32> {
  %0 = train.negate %x : tensor<7xf32>
  plan.return %0 : tensor<7xf32>
}

// A few threads of a warp for a short row: two shuffles, no barrier.
// CHECK-LABEL: .entry short_rows(
// CHECK-COUNT-2: shfl.sync.bfly
// CHECK-NOT: shfl
// CHECK-NOT: bar.sync
plan.kernel loop @short_rows(%x: tensor<4096x16xf32>) -> tensor<4096xf32> {
  %0 = train.reduce sum %x dims [1] : tensor<4096x16xf32>
  plan.return %0 : tensor<4096xf32>
}

// A warp for a row of middle length, where there are many.
// CHECK-LABEL: .entry warp_rows(
// CHECK-COUNT-5: shfl.sync.bfly
// CHECK-NOT: bar.sync
plan.kernel loop @warp_rows(%x: tensor<4096x1024xf32>) -> tensor<4096xf32> {
  %0 = train.reduce sum %x dims [1] : tensor<4096x1024xf32>
  plan.return %0 : tensor<4096xf32>
}

// A block for a long one: its warps meet in shared memory.
// CHECK-LABEL: .entry block_rows(
// CHECK: .reqntid 1024
// CHECK-COUNT-5: shfl.sync.bfly
// CHECK: st.shared
// CHECK: bar.sync
// CHECK: ld.shared
// CHECK-COUNT-5: shfl.sync.bfly
plan.kernel loop @block_rows(%x: tensor<4x50000xf32>) -> tensor<4xf32> {
  %0 = train.reduce max %x dims [1] : tensor<4x50000xf32>
  plan.return %0 : tensor<4xf32>
}

// The result may lie over %m, of which every thread of the row reads an element: a barrier before it is stored.
// CHECK-LABEL: .entry over_rows(
// CHECK: bar.sync
// CHECK: bar.sync
// CHECK: st.global
plan.kernel loop @over_rows(%x: tensor<4x50000xf32>, %m: tensor<4xf32>) -> tensor<4xf32> {
  %0 = train.reduce sum %x dims [1] : tensor<4x50000xf32>
  %1 = train.add %0, %m : tensor<4xf32>
  plan.return %1 : tensor<4xf32>
}

// Columns: 16 vectors side by side, 16 groups below one another, joined in four steps.
// CHECK-LABEL: .entry columns(
// CHECK: .reqntid 256
// CHECK: ld.global.nc.v4
// CHECK: st.shared
// CHECK-COUNT-5: bar.sync
// CHECK-NOT: atom
plan.kernel loop @columns(%x: tensor<500x64xf32>) -> tensor<64xf32> {
  %0 = train.reduce sum %x dims [0] : tensor<500x64xf32>
  plan.return %0 : tensor<64xf32>
}

// A long row of several passes is kept in shared memory, whose size the launch gives: the second pass reads it from there.
// Exponentials of what is below the row's maximum take one instruction, and two results are rounded by one. At least
// two blocks share a multiprocessor.
// CHECK-LABEL: .entry kept_rows(
// CHECK: .reqntid 512
// CHECK: .minnctapersm 2
// CHECK: kept_rows$dynamic
// CHECK-COUNT-4: ld.global.v4
// CHECK-COUNT-4: st.shared.v4
// CHECK: bar.sync
// CHECK: ld.shared.v4
// CHECK: ex2.approx.ftz.f32
// CHECK: bar.sync
// CHECK-NOT: ld.global
// CHECK: cvt.rn.bf16x2.f32
// CHECK: st.global.v4
plan.kernel loop @kept_rows(%x: tensor<64x50304xbf16>) -> tensor<64x50304xbf16> {
  %0 = train.convert %x : tensor<64x50304xbf16> -> tensor<64x50304xf32>
  %1 = train.reduce max %0 dims [1] : tensor<64x50304xf32>
  %2 = train.broadcast_in_dim %1 dims [0] : tensor<64xf32> -> tensor<64x50304xf32>
  %3 = train.subtract %0, %2 : tensor<64x50304xf32>
  %4 = train.exponential %3 : tensor<64x50304xf32>
  %5 = train.reduce sum %4 dims [1] : tensor<64x50304xf32>
  %6 = train.broadcast_in_dim %5 dims [0] : tensor<64xf32> -> tensor<64x50304xf32>
  %7 = train.divide %4, %6 : tensor<64x50304xf32>
  %8 = train.convert %7 : tensor<64x50304xf32> -> tensor<64x50304xbf16>
  plan.return %8 : tensor<64x50304xbf16>
}

// Two rows of 225 KiB do not fit: every pass reads the row.
// CHECK-LABEL: .entry reread_rows(
// CHECK-NOT: dynamic
// CHECK: ld.global
// CHECK: bar.sync
// CHECK: ld.global
plan.kernel loop @reread_rows(%x: tensor<64x57601xf32>) -> tensor<64xf32> {
  %0 = train.reduce max %x dims [1] : tensor<64x57601xf32>
  %1 = train.broadcast_in_dim %0 dims [0] : tensor<64xf32> -> tensor<64x57601xf32>
  %2 = train.subtract %x, %1 : tensor<64x57601xf32>
  %3 = train.reduce sum %2 dims [1] : tensor<64x57601xf32>
  plan.return %3 : tensor<64xf32>
}

// A sum of the element at a label is that element: no loop, no exchange between threads.
// CHECK-LABEL: .entry picked(
// CHECK-NOT: shfl
// CHECK: ld.global.nc.b32
// CHECK-NOT: ld.global.nc.b32
// CHECK: ret;
plan.kernel loop @picked(%labels: tensor<64xi64>, %x: tensor<64x5000xf32>) -> tensor<64xf32> {
  %0 = train.iota dim 1 : tensor<64x5000xi64>
  %1 = train.broadcast_in_dim %labels dims [0] : tensor<64xi64> -> tensor<64x5000xi64>
  %2 = train.compare eq %0, %1 : tensor<64x5000xi64>
  %3 = train.constant dense<0.0> : tensor<64x5000xf32>
  %4 = train.select %2, %x, %3 : tensor<64x5000xi1>, tensor<64x5000xf32>
  %5 = train.reduce sum %4 dims [1] : tensor<64x5000xf32>
  plan.return %5 : tensor<64xf32>
}
