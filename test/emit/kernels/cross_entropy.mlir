// Loss and gradient over the logits, in their place, as the step has them: a
// row of a vocabulary is kept in shared memory on GPUs. Labels below 3; 1 is ignored.
module {
  plan.kernel loop @loss_and_gradient(%labels: tensor<5xi64>, %logits: tensor<5x50304xbf16>, %count: tensor<f32>) -> (tensor<5xf32>, tensor<5x50304xbf16>) {
    %0 = train.constant dense<1> : tensor<5xi64>
    %1 = train.compare eq %labels, %0 : tensor<5xi64>
    %2 = train.constant dense<0.000000e+00> : tensor<5xf32>
    %3 = train.convert %logits : tensor<5x50304xbf16> -> tensor<5x50304xf32>
    %4 = train.reduce max %3 dims [1] : tensor<5x50304xf32>
    %5 = train.broadcast_in_dim %4 dims [0] : tensor<5xf32> -> tensor<5x50304xf32>
    %6 = train.subtract %3, %5 : tensor<5x50304xf32>
    %7 = train.exponential %6 : tensor<5x50304xf32>
    %8 = train.reduce sum %7 dims [1] : tensor<5x50304xf32>
    %9 = train.log %8 : tensor<5xf32>
    %10 = train.iota dim 1 : tensor<5x50304xi64>
    %11 = train.broadcast_in_dim %labels dims [0] : tensor<5xi64> -> tensor<5x50304xi64>
    %12 = train.compare eq %10, %11 : tensor<5x50304xi64>
    %13 = train.constant dense<0.000000e+00> : tensor<5x50304xf32>
    %14 = train.select %12, %6, %13 : tensor<5x50304xi1>, tensor<5x50304xf32>
    %15 = train.reduce sum %14 dims [1] : tensor<5x50304xf32>
    %16 = train.subtract %9, %15 : tensor<5xf32>
    %17 = train.select %1, %2, %16 : tensor<5xi1>, tensor<5xf32>
    %18 = train.broadcast_in_dim %1 dims [0] : tensor<5xi1> -> tensor<5x50304xi1>
    %19 = train.add %4, %9 : tensor<5xf32>
    %20 = train.broadcast_in_dim %19 dims [0] : tensor<5xf32> -> tensor<5x50304xf32>
    %21 = train.subtract %3, %20 : tensor<5x50304xf32>
    %22 = train.exponential %21 : tensor<5x50304xf32>
    %23 = train.constant dense<1.000000e+00> : tensor<5x50304xf32>
    %24 = train.select %12, %23, %13 : tensor<5x50304xi1>, tensor<5x50304xf32>
    %25 = train.subtract %22, %24 : tensor<5x50304xf32>
    %26 = train.constant dense<1.000000e+00> : tensor<f32>
    %27 = train.divide %26, %count : tensor<f32>
    %28 = train.broadcast_in_dim %27 dims [] : tensor<f32> -> tensor<5x50304xf32>
    %29 = train.multiply %25, %28 : tensor<5x50304xf32>
    %30 = train.select %18, %13, %29 : tensor<5x50304xi1>, tensor<5x50304xf32>
    %31 = train.convert %30 : tensor<5x50304xf32> -> tensor<5x50304xbf16>
    plan.return %17, %31 : tensor<5xf32>, tensor<5x50304xbf16>
  }
  // Rows of several vectors at a time and some left over; f32, whose elements come alone.
  plan.kernel loop @softmax_kept(%x: tensor<3x20004xf32>) -> tensor<3x20004xf32> {
    %0 = train.reduce max %x dims [1] : tensor<3x20004xf32>
    %1 = train.broadcast_in_dim %0 dims [0] : tensor<3xf32> -> tensor<3x20004xf32>
    %2 = train.subtract %x, %1 : tensor<3x20004xf32>
    %3 = train.exponential %2 : tensor<3x20004xf32>
    %4 = train.reduce sum %3 dims [1] : tensor<3x20004xf32>
    %5 = train.broadcast_in_dim %4 dims [0] : tensor<3xf32> -> tensor<3x20004xf32>
    %6 = train.divide %3, %5 : tensor<3x20004xf32>
    plan.return %6 : tensor<3x20004xf32>
  }
  // Too long to keep: read again.
  plan.kernel loop @softmax_reread(%x: tensor<2x60001xf32>) -> tensor<2x60001xf32> {
    %0 = train.reduce max %x dims [1] : tensor<2x60001xf32>
    %1 = train.broadcast_in_dim %0 dims [0] : tensor<2xf32> -> tensor<2x60001xf32>
    %2 = train.subtract %x, %1 : tensor<2x60001xf32>
    %3 = train.exponential %2 : tensor<2x60001xf32>
    %4 = train.reduce sum %3 dims [1] : tensor<2x60001xf32>
    %5 = train.broadcast_in_dim %4 dims [0] : tensor<2xf32> -> tensor<2x60001xf32>
    %6 = train.divide %3, %5 : tensor<2x60001xf32>
    plan.return %6 : tensor<2x60001xf32>
  }
  // Nothing but the label's element is read; an odd number of columns and labels as i32.
  plan.kernel loop @picked(%labels: tensor<300xi32>, %x: tensor<300x33xf32>) -> tensor<300xf32> {
    %0 = train.convert %labels : tensor<300xi32> -> tensor<300xi64>
    %1 = train.iota dim 1 : tensor<300x33xi64>
    %2 = train.broadcast_in_dim %0 dims [0] : tensor<300xi64> -> tensor<300x33xi64>
    %3 = train.compare eq %1, %2 : tensor<300x33xi64>
    %4 = train.constant dense<0.000000e+00> : tensor<300x33xf32>
    %5 = train.select %3, %x, %4 : tensor<300x33xi1>, tensor<300x33xf32>
    %6 = train.reduce sum %5 dims [1] : tensor<300x33xf32>
    plan.return %6 : tensor<300xf32>
  }
}
