// Kernels with plain loops of their own.
module {
  plan.kernel scatter @embedding_gradient(%i: tensor<5x4xi64>, %u: tensor<5x4x70xf32>) -> tensor<3x70xf32> {
    %0 = train.constant dense<0.0> : tensor<3x70xf32>
    %1 = train.scatter add %0[%i], %u dims [0] batch 0 : tensor<3x70xf32>, tensor<5x4x70xf32>, tensor<5x4xi64>
    plan.return %1 : tensor<3x70xf32>
  }
  plan.kernel scatter @along_last(%x: tensor<6x3xf32>, %i: tensor<6x2xi64>, %u: tensor<6x2xf32>) -> tensor<6x3xf32> {
    %0 = train.scatter replace %x[%i], %u dims [1] batch 1 : tensor<6x3xf32>, tensor<6x2xf32>, tensor<6x2xi64>
    plan.return %0 : tensor<6x3xf32>
  }
  plan.kernel scan @running_sum(%x: tensor<3x9x5xf32>) -> tensor<3x9x5xf32> {
    %0 = train.cumulative sum %x dim 1 {reverse} : tensor<3x9x5xf32>
    plan.return %0 : tensor<3x9x5xf32>
  }
  plan.kernel scan @largest(%x: tensor<3x9x5xf32>) -> tensor<3x5xi64> {
    %0 = train.arg_reduce max %x dim 1 : tensor<3x9x5xf32>
    plan.return %0 : tensor<3x5xi64>
  }
  plan.kernel window @pool(%x: tensor<2x3x9x8xf32>) -> tensor<2x3x5x4xf32> {
    %0 = train.reduce_window max %x window [3, 3] strides [2, 2] padding [1, 1] to [1, 1] dilation [1, 1] : tensor<2x3x9x8xf32>
    plan.return %0 : tensor<2x3x5x4xf32>
  }
  plan.kernel window @pool_gradient(%x: tensor<2x3x9x8xf32>, %dy: tensor<2x3x5x4xf32>) -> tensor<2x3x9x8xf32> {
    %0 = train.reduce_window_gradient max %x, %dy window [3, 3] strides [2, 2] padding [1, 1] to [1, 1] dilation [1, 1] : tensor<2x3x9x8xf32>, tensor<2x3x5x4xf32>
    plan.return %0 : tensor<2x3x9x8xf32>
  }
}
