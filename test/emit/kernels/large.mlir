// Sizes at which a GPU's kernels take their other forms: rows of a block, tall
// columns, many tiles; and updates of several tensors.
module {
  plan.kernel loop @softmax_block(%x: tensor<9x5000xf32>) -> tensor<9x5000xf32> {
    %0 = train.reduce max %x dims [1] : tensor<9x5000xf32>
    %1 = train.broadcast_in_dim %0 dims [0] : tensor<9xf32> -> tensor<9x5000xf32>
    %2 = train.subtract %x, %1 : tensor<9x5000xf32>
    %3 = train.exponential %2 : tensor<9x5000xf32>
    %4 = train.reduce sum %3 dims [1] : tensor<9x5000xf32>
    %5 = train.broadcast_in_dim %4 dims [0] : tensor<9xf32> -> tensor<9x5000xf32>
    %6 = train.divide %3, %5 : tensor<9x5000xf32>
    plan.return %6 : tensor<9x5000xf32>
  }
  plan.kernel loop @softmax_warp(%x: tensor<3001x128xf32>) -> tensor<3001x128xf32> {
    %0 = train.reduce max %x dims [1] : tensor<3001x128xf32>
    %1 = train.broadcast_in_dim %0 dims [0] : tensor<3001xf32> -> tensor<3001x128xf32>
    %2 = train.subtract %x, %1 : tensor<3001x128xf32>
    %3 = train.exponential %2 : tensor<3001x128xf32>
    %4 = train.reduce sum %3 dims [1] : tensor<3001x128xf32>
    %5 = train.broadcast_in_dim %4 dims [0] : tensor<3001xf32> -> tensor<3001x128xf32>
    %6 = train.divide %3, %5 : tensor<3001x128xf32>
    plan.return %6 : tensor<3001x128xf32>
  }
  plan.kernel loop @softmax_part(%x: tensor<501x6xf32>) -> tensor<501x6xf32> {
    %0 = train.reduce max %x dims [1] : tensor<501x6xf32>
    %1 = train.broadcast_in_dim %0 dims [0] : tensor<501xf32> -> tensor<501x6xf32>
    %2 = train.subtract %x, %1 : tensor<501x6xf32>
    %3 = train.exponential %2 : tensor<501x6xf32>
    %4 = train.reduce sum %3 dims [1] : tensor<501x6xf32>
    %5 = train.broadcast_in_dim %4 dims [0] : tensor<501xf32> -> tensor<501x6xf32>
    %6 = train.divide %3, %5 : tensor<501x6xf32>
    plan.return %6 : tensor<501x6xf32>
  }
  // A row-level result over a row-level argument.
  plan.kernel loop @running_mean(%x: tensor<40x3000xf32>, %m: tensor<40xf32>) -> tensor<40xf32> {
    %0 = train.reduce sum %x dims [1] : tensor<40x3000xf32>
    %1 = train.add %0, %m : tensor<40xf32>
    plan.return %1 : tensor<40xf32>
  }
  plan.kernel loop @integer_rows(%x: tensor<7x700xi64>, %c: tensor<7x700xi1>) -> (tensor<7xi64>, tensor<7xi1>, tensor<7xi64>) {
    %0 = train.reduce sum %x dims [1] : tensor<7x700xi64>
    %1 = train.reduce or %c dims [1] : tensor<7x700xi1>
    %2 = train.reduce max %x dims [1] : tensor<7x700xi64>
    plan.return %0, %1, %2 : tensor<7xi64>, tensor<7xi1>, tensor<7xi64>
  }
  plan.kernel loop @double_rows(%x: tensor<7x70xf64>) -> tensor<7xf64> {
    %0 = train.multiply %x, %x : tensor<7x70xf64>
    %1 = train.reduce sum %0 dims [1] : tensor<7x70xf64>
    plan.return %1 : tensor<7xf64>
  }
  plan.kernel loop @tall_columns(%x: tensor<4000x100xf32>) -> (tensor<100xf32>, tensor<4000x100xf32>) {
    %0 = train.negate %x : tensor<4000x100xf32>
    %1 = train.reduce sum %0 dims [0] : tensor<4000x100xf32>
    plan.return %1, %0 : tensor<100xf32>, tensor<4000x100xf32>
  }
  plan.kernel loop @few_columns(%x: tensor<3x1000x2xf32>) -> (tensor<3x2xf32>, tensor<3x2xf32>) {
    %0 = train.reduce sum %x dims [1] : tensor<3x1000x2xf32>
    %1 = train.reduce min %x dims [1] : tensor<3x1000x2xf32>
    plan.return %0, %1 : tensor<3x2xf32>, tensor<3x2xf32>
  }
  plan.kernel loop @statistics(%x: tensor<4x6x50xf32>) -> (tensor<6xf32>, tensor<6xf32>) {
    %0 = train.multiply %x, %x : tensor<4x6x50xf32>
    %1 = train.reduce sum %x dims [0, 2] : tensor<4x6x50xf32>
    %2 = train.reduce sum %0 dims [0, 2] : tensor<4x6x50xf32>
    plan.return %1, %2 : tensor<6xf32>, tensor<6xf32>
  }
  plan.kernel loop @short_floats(%x: tensor<64x48xbf16>, %y: tensor<64x48xf16>) -> (tensor<64x48xbf16>, tensor<64x48xf32>) {
    %0 = train.add %x, %x : tensor<64x48xbf16>
    %1 = train.convert %y : tensor<64x48xf16> -> tensor<64x48xf32>
    plan.return %0, %1 : tensor<64x48xbf16>, tensor<64x48xf32>
  }
  plan.kernel loop @division(%x: tensor<999xi64>, %y: tensor<999xi64>, %a: tensor<999xi32>) -> (tensor<999xi64>, tensor<999xi64>, tensor<999xi64>, tensor<999xi32>) {
    %0 = train.divide %x, %y : tensor<999xi64>
    %1 = train.remainder %x, %y : tensor<999xi64>
    %2 = train.floor_divide %x, %y : tensor<999xi64>
    %3 = train.modulo %a, %a : tensor<999xi32>
    plan.return %0, %1, %2, %3 : tensor<999xi64>, tensor<999xi64>, tensor<999xi64>, tensor<999xi32>
  }
  plan.kernel scatter @many_tiles(%i: tensor<700xi64>, %u: tensor<700x33xf32>) -> tensor<2500x33xf32> {
    %0 = train.constant dense<0.0> : tensor<2500x33xf32>
    %1 = train.scatter add %0[%i], %u dims [0] batch 0 : tensor<2500x33xf32>, tensor<700x33xf32>, tensor<700xi64>
    plan.return %1 : tensor<2500x33xf32>
  }
  plan.kernel scatter @single_elements(%x: tensor<50xf32>, %i: tensor<900xi64>, %u: tensor<900xf32>) -> tensor<50xf32> {
    %1 = train.scatter add %x[%i], %u dims [0] batch 0 : tensor<50xf32>, tensor<900xf32>, tensor<900xi64>
    plan.return %1 : tensor<50xf32>
  }
  plan.kernel scatter @two_indices(%x: tensor<4x5x600xf32>, %i: tensor<30xi64>, %j: tensor<30xi32>, %u: tensor<30x600xf32>) -> tensor<4x5x600xf32> {
    %1 = train.scatter max %x[%i, %j], %u dims [0, 1] batch 0 : tensor<4x5x600xf32>, tensor<30x600xf32>, tensor<30xi64>, tensor<30xi32>
    plan.return %1 : tensor<4x5x600xf32>
  }
  plan.kernel scan @running_sum_last(%x: tensor<6x203xf32>) -> tensor<6x203xf32> {
    %0 = train.cumulative sum %x dim 1 : tensor<6x203xf32>
    plan.return %0 : tensor<6x203xf32>
  }
  plan.kernel scan @running_count(%x: tensor<6x64xi64>) -> tensor<6x64xi64> {
    %0 = train.cumulative sum %x dim 1 {reverse} : tensor<6x64xi64>
    plan.return %0 : tensor<6x64xi64>
  }
  plan.kernel scan @first_smallest(%x: tensor<9x210xi64>) -> tensor<9xi64> {
    %0 = train.arg_reduce min %x dim 1 : tensor<9x210xi64>
    plan.return %0 : tensor<9xi64>
  }
  plan.kernel window @mean_gradient(%x: tensor<1x2x9x8xf32>, %dy: tensor<1x2x4x4xf32>) -> tensor<1x2x9x8xf32> {
    %0 = train.reduce_window_gradient sum %x, %dy window [3, 2] strides [2, 2] padding [0, 0] to [0, 0] dilation [1, 1] : tensor<1x2x9x8xf32>, tensor<1x2x4x4xf32>
    plan.return %0 : tensor<1x2x9x8xf32>
  }
  plan.kernel update @momentum(%p: tensor<1xf32>, %g: tensor<1xf32>, %m: tensor<1xf32>, %lr: tensor<f32>) -> (tensor<1xf32>, tensor<1xf32>) {
    %0 = train.constant dense<0.9> : tensor<1xf32>
    %1 = train.multiply %m, %0 : tensor<1xf32>
    %2 = train.add %1, %g : tensor<1xf32>
    %3 = train.broadcast_in_dim %lr dims [] : tensor<f32> -> tensor<1xf32>
    %4 = train.multiply %2, %3 : tensor<1xf32>
    %5 = train.subtract %p, %4 : tensor<1xf32>
    plan.return %5, %2 : tensor<1xf32>, tensor<1xf32>
  }
}
