// Products of bf16 on the tensor cores: kernels of one configuration share their code, and differ in tensors and tables.
// RUN: rm -rf %t && gpu-kernels %s --target sm_90a --cases %t --shapes-only
// RUN: sed 's/"name"/\n"name"/g' %t/index.json | sed 's/"over".*"symbol"/"symbol"/' | FileCheck %s
// RUN: gpu-kernels %s --target sm_90a --ptx | FileCheck %s --check-prefix=PTX
// RUN: gpu-kernels %s --target sm_80 --ptx | FileCheck %s --check-prefix=SM80

// PTX-COUNT-5: .entry gemm_
// PTX-NOT: .entry gemm_
// PTX: .entry loop(
// SM80-NOT: .entry gemm_
// SM80: .entry loop(

// CHECK: "name":"forward"{{.*}}"symbol":"gemm_0"
plan.kernel contraction @forward(%x: tensor<4096x768xbf16>, %w: tensor<768x2304xbf16>) -> tensor<4096x2304xbf16> {
  %0 = train.dot_general %x, %w batch [] x [] contract [1] x [0] : tensor<4096x768xbf16>, tensor<768x2304xbf16>
  plan.return %0 : tensor<4096x2304xbf16>
}

// Another depth.
// CHECK: "name":"deeper"{{.*}}"symbol":"gemm_0"
plan.kernel contraction @deeper(%x: tensor<4096x1536xbf16>, %w: tensor<1536x2304xbf16>) -> tensor<4096x2304xbf16> {
  %0 = train.dot_general %x, %w batch [] x [] contract [1] x [0] : tensor<4096x1536xbf16>, tensor<1536x2304xbf16>
  plan.return %0 : tensor<4096x2304xbf16>
}

// The transposed result is the product of the transposed operands: A is the weight.
// CHECK: "name":"transposed"{{.*}}"symbol":"gemm_1"
plan.kernel contraction @transposed(%x: tensor<4096x768xbf16>, %w: tensor<768x2304xbf16>) -> tensor<2304x4096xbf16> {
  %0 = train.dot_general %x, %w batch [] x [] contract [1] x [0] : tensor<4096x768xbf16>, tensor<768x2304xbf16>
  %1 = train.transpose %0 perm [1, 0] : tensor<4096x2304xbf16>
  plan.return %1 : tensor<2304x4096xbf16>
}

// CHECK: "name":"gelu"{{.*}}"symbol":"gemm_2"
plan.kernel contraction @gelu(%x: tensor<4096x768xbf16>, %w: tensor<768x3072xbf16>, %b: tensor<3072xbf16>) -> (tensor<4096x3072xbf16>, tensor<4096x3072xbf16>) {
  %0 = train.dot_general %x, %w batch [] x [] contract [1] x [0] : tensor<4096x768xbf16>, tensor<768x3072xbf16>
  %1 = train.convert %0 : tensor<4096x3072xbf16> -> tensor<4096x3072xf32>
  %2 = train.convert %b : tensor<3072xbf16> -> tensor<3072xf32>
  %3 = train.broadcast_in_dim %2 dims [1] : tensor<3072xf32> -> tensor<4096x3072xf32>
  %4 = train.add %1, %3 : tensor<4096x3072xf32>
  %half = train.constant dense<0.5> : tensor<4096x3072xf32>
  %root = train.constant dense<0.707106769> : tensor<4096x3072xf32>
  %one = train.constant dense<1.0> : tensor<4096x3072xf32>
  %5 = train.multiply %4, %root : tensor<4096x3072xf32>
  %6 = train.erf %5 : tensor<4096x3072xf32>
  %7 = train.add %6, %one : tensor<4096x3072xf32>
  %8 = train.multiply %4, %half : tensor<4096x3072xf32>
  %9 = train.multiply %8, %7 : tensor<4096x3072xf32>
  %10 = train.convert %9 : tensor<4096x3072xf32> -> tensor<4096x3072xbf16>
  %11 = train.convert %4 : tensor<4096x3072xf32> -> tensor<4096x3072xbf16>
  plan.return %10, %11 : tensor<4096x3072xbf16>, tensor<4096x3072xbf16>
}

// CHECK: "name":"gradient"{{.*}}"symbol":"gemm_3"
plan.kernel contraction @gradient(%dy: tensor<4096x768xbf16>, %w: tensor<3072x768xbf16>, %x: tensor<4096x3072xbf16>) -> tensor<4096x3072xbf16> {
  %0 = train.dot_general %dy, %w batch [] x [] contract [1] x [1] : tensor<4096x768xbf16>, tensor<3072x768xbf16>
  %1 = train.convert %0 : tensor<4096x3072xbf16> -> tensor<4096x3072xf32>
  %2 = train.convert %x : tensor<4096x3072xbf16> -> tensor<4096x3072xf32>
  %zero = train.constant dense<0.0> : tensor<4096x3072xf32>
  %3 = train.compare gt %2, %zero : tensor<4096x3072xf32>
  %4 = train.select %3, %1, %zero : tensor<4096x3072xi1>, tensor<4096x3072xf32>
  %5 = train.convert %4 : tensor<4096x3072xf32> -> tensor<4096x3072xbf16>
  plan.return %5 : tensor<4096x3072xbf16>
}

// A weight's gradient as f32, in slices along k: partial sums and counters lie in scratch memory.
// CHECK: "kind":"Scratch"
// CHECK: "name":"weight"{{.*}}"symbol":"gemm_4"
plan.kernel contraction @weight(%x: tensor<32768x768xbf16>, %dy: tensor<32768x3072xbf16>) -> tensor<768x3072xf32> {
  %0 = train.dot_general %x, %dy batch [] x [] contract [0] x [0] : tensor<32768x768xbf16>, tensor<32768x3072xbf16>
  %1 = train.convert %0 : tensor<768x3072xbf16> -> tensor<768x3072xf32>
  plan.return %1 : tensor<768x3072xf32>
}

// Few tiles: the library's.
// CHECK-NOT: "name":"small"
plan.kernel contraction @small(%x: tensor<64x64xbf16>, %w: tensor<64x64xbf16>) -> tensor<64x64xbf16> {
  %0 = train.dot_general %x, %w batch [] x [] contract [1] x [0] : tensor<64x64xbf16>, tensor<64x64xbf16>
  plan.return %0 : tensor<64x64xbf16>
}

// Rows that do not begin at 16 bytes: the library's.
// CHECK-NOT: "name":"odd"
plan.kernel contraction @odd(%x: tensor<4096x769xbf16>, %w: tensor<769x2304xbf16>) -> tensor<4096x2304xbf16> {
  %0 = train.dot_general %x, %w batch [] x [] contract [1] x [0] : tensor<4096x769xbf16>, tensor<769x2304xbf16>
  plan.return %0 : tensor<4096x2304xbf16>
}

plan.kernel loop @loop(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = train.negate %x : tensor<64xf32>
  plan.return %0 : tensor<64xf32>
}
