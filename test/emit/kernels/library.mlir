// Kernels that the library has on the CPU, and that are generated for GPUs.
module {
  plan.kernel sort @sort(%x: tensor<3x77xf32>) -> (tensor<3x77xf32>, tensor<3x77xi64>) {
    %v, %i = train.sort %x dim 1 : tensor<3x77xf32>
    plan.return %v, %i : tensor<3x77xf32>, tensor<3x77xi64>
  }
  plan.kernel sort @sort_ties(%x: tensor<2x300xi64>) -> (tensor<2x300xi64>, tensor<2x300xi64>) {
    %v, %i = train.sort %x dim 1 {descending} : tensor<2x300xi64>
    plan.return %v, %i : tensor<2x300xi64>, tensor<2x300xi64>
  }
  plan.kernel sort @sort_long(%x: tensor<2x9001xf64>) -> (tensor<2x9001xf64>, tensor<2x9001xi64>) {
    %v, %i = train.sort %x dim 1 {descending} : tensor<2x9001xf64>
    plan.return %v, %i : tensor<2x9001xf64>, tensor<2x9001xi64>
  }
  plan.kernel sort @sort_one(%x: tensor<5x1xf32>) -> (tensor<5x1xf32>, tensor<5x1xi64>) {
    %v, %i = train.sort %x dim 1 : tensor<5x1xf32>
    plan.return %v, %i : tensor<5x1xf32>, tensor<5x1xi64>
  }
  plan.kernel convolution @convolution(%x: tensor<2x6x9x11xf32>, %w: tensor<4x3x3x2xf32>) -> tensor<2x4x5x10xf32> {
    %0 = train.convolution %x, %w strides [2, 1] padding [1, 0] to [1, 1] dilation [1, 2] groups 2 : tensor<2x6x9x11xf32>, tensor<4x3x3x2xf32>
    plan.return %0 : tensor<2x4x5x10xf32>
  }
  plan.kernel convolution_input_gradient @convolution_input_gradient(%dy: tensor<2x4x5x10xf32>, %w: tensor<4x3x3x2xf32>) -> tensor<2x6x9x11xf32> {
    %0 = train.convolution_input_gradient %dy, %w strides [2, 1] padding [1, 0] to [1, 1] dilation [1, 2] groups 2 : tensor<2x4x5x10xf32>, tensor<4x3x3x2xf32> -> tensor<2x6x9x11xf32>
    plan.return %0 : tensor<2x6x9x11xf32>
  }
  plan.kernel convolution_filter_gradient @convolution_filter_gradient(%x: tensor<2x6x9x11xf32>, %dy: tensor<2x4x5x10xf32>) -> tensor<4x3x3x2xf32> {
    %0 = train.convolution_filter_gradient %x, %dy strides [2, 1] padding [1, 0] to [1, 1] dilation [1, 2] groups 2 : tensor<2x6x9x11xf32>, tensor<2x4x5x10xf32> -> tensor<4x3x3x2xf32>
    plan.return %0 : tensor<4x3x3x2xf32>
  }
  plan.kernel convolution @convolution_1d(%x: tensor<3x2x40xf32>, %w: tensor<5x2x4xf32>) -> tensor<3x5x13xf32> {
    %0 = train.convolution %x, %w strides [3] padding [2] to [0] dilation [1] groups 1 : tensor<3x2x40xf32>, tensor<5x2x4xf32>
    plan.return %0 : tensor<3x5x13xf32>
  }
  plan.kernel convolution @convolution_3d(%x: tensor<1x2x4x5x6xf32>, %w: tensor<3x2x2x3x1xf32>) -> tensor<1x3x3x5x6xf32> {
    %0 = train.convolution %x, %w strides [1, 1, 1] padding [0, 1, 0] to [0, 1, 0] dilation [1, 1, 1] groups 1 : tensor<1x2x4x5x6xf32>, tensor<3x2x2x3x1xf32>
    plan.return %0 : tensor<1x3x3x5x6xf32>
  }
}
