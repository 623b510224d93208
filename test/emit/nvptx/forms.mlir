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
