// Pointwise, views, sources of several tensors, reductions along rows, columns and in the middle.
module {
  plan.kernel loop @math(%x: tensor<7x9xf32>) -> (tensor<7x9xf32>, tensor<7x9xf32>, tensor<7x9xf32>, tensor<7x9xf32>, tensor<7x9xf32>, tensor<7x9xf32>, tensor<7x9xf32>, tensor<7x9xf32>) {
    %0 = train.exponential %x : tensor<7x9xf32>
    %1 = train.tanh %x : tensor<7x9xf32>
    %2 = train.erf %x : tensor<7x9xf32>
    %3 = train.log %x : tensor<7x9xf32>
    %4 = train.logistic %x : tensor<7x9xf32>
    %5 = train.sine %x : tensor<7x9xf32>
    %6 = train.cosine %x : tensor<7x9xf32>
    %7 = train.exponential_minus_one %x : tensor<7x9xf32>
    plan.return %0, %1, %2, %3, %4, %5, %6, %7 : tensor<7x9xf32>, tensor<7x9xf32>, tensor<7x9xf32>, tensor<7x9xf32>, tensor<7x9xf32>, tensor<7x9xf32>, tensor<7x9xf32>, tensor<7x9xf32>
  }
  plan.kernel loop @math_double(%x: tensor<63xf64>, %y: tensor<63xf64>) -> (tensor<63xf64>, tensor<63xf64>, tensor<63xf64>, tensor<63xf64>) {
    %a = train.abs %x : tensor<63xf64>
    %0 = train.power %a, %y : tensor<63xf64>
    %1 = train.atan2 %x, %y : tensor<63xf64>
    %2 = train.log_plus_one %a : tensor<63xf64>
    %3 = train.remainder %x, %y : tensor<63xf64>
    plan.return %0, %1, %2, %3 : tensor<63xf64>, tensor<63xf64>, tensor<63xf64>, tensor<63xf64>
  }
  plan.kernel loop @integers(%x: tensor<1000xi64>, %y: tensor<1000xi64>) -> (tensor<1000xi64>, tensor<1000xi64>, tensor<1000xi1>, tensor<1000xf32>) {
    %0 = train.floor_divide %x, %y : tensor<1000xi64>
    %1 = train.modulo %x, %y : tensor<1000xi64>
    %2 = train.compare lt %x, %y : tensor<1000xi64>
    %3 = train.convert %x : tensor<1000xi64> -> tensor<1000xf32>
    plan.return %0, %1, %2, %3 : tensor<1000xi64>, tensor<1000xi64>, tensor<1000xi1>, tensor<1000xf32>
  }
  plan.kernel loop @half(%x: tensor<8x63xbf16>, %y: tensor<8x63xf16>) -> (tensor<8xbf16>, tensor<8x63xf32>) {
    %0 = train.reduce sum %x dims [1] : tensor<8x63xbf16>
    %1 = train.convert %y : tensor<8x63xf16> -> tensor<8x63xf32>
    plan.return %0, %1 : tensor<8xbf16>, tensor<8x63xf32>
  }
  plan.kernel loop @one(%x: tensor<f32>, %y: tensor<1xf32>) -> tensor<1xf32> {
    %0 = train.reshape %x : tensor<f32> -> tensor<1xf32>
    %1 = train.add %0, %y : tensor<1xf32>
    plan.return %1 : tensor<1xf32>
  }
  plan.kernel loop @softmax(%x: tensor<9x1000xf32>) -> tensor<9x1000xf32> {
    %0 = train.reduce max %x dims [1] : tensor<9x1000xf32>
    %1 = train.broadcast_in_dim %0 dims [0] : tensor<9xf32> -> tensor<9x1000xf32>
    %2 = train.subtract %x, %1 : tensor<9x1000xf32>
    %3 = train.exponential %2 : tensor<9x1000xf32>
    %4 = train.reduce sum %3 dims [1] : tensor<9x1000xf32>
    %5 = train.broadcast_in_dim %4 dims [0] : tensor<9xf32> -> tensor<9x1000xf32>
    %6 = train.divide %3, %5 : tensor<9x1000xf32>
    plan.return %6 : tensor<9x1000xf32>
  }
  plan.kernel loop @channel_statistics(%x: tensor<3x8x7x9xf32>) -> (tensor<8xf32>, tensor<3x8x7x9xf32>) {
    %0 = train.reduce sum %x dims [0, 2, 3] : tensor<3x8x7x9xf32>
    %1 = train.broadcast_in_dim %0 dims [1] : tensor<8xf32> -> tensor<3x8x7x9xf32>
    %2 = train.subtract %x, %1 : tensor<3x8x7x9xf32>
    plan.return %0, %2 : tensor<8xf32>, tensor<3x8x7x9xf32>
  }
  plan.kernel loop @columns(%x: tensor<3x63x129xf32>, %b: tensor<129xf32>) -> (tensor<129xf32>, tensor<129xf32>, tensor<3x63x129xf32>) {
    %0 = train.broadcast_in_dim %b dims [2] : tensor<129xf32> -> tensor<3x63x129xf32>
    %1 = train.multiply %x, %0 : tensor<3x63x129xf32>
    %2 = train.reduce sum %1 dims [0, 1] : tensor<3x63x129xf32>
    %3 = train.reduce max %x dims [0, 1] : tensor<3x63x129xf32>
    plan.return %2, %3, %1 : tensor<129xf32>, tensor<129xf32>, tensor<3x63x129xf32>
  }
  plan.kernel loop @middle(%x: tensor<5x17x70xf32>) -> tensor<5x17x70xf32> {
    %0 = train.reduce max %x dims [1] : tensor<5x17x70xf32>
    %1 = train.broadcast_in_dim %0 dims [0, 2] : tensor<5x70xf32> -> tensor<5x17x70xf32>
    %2 = train.subtract %x, %1 : tensor<5x17x70xf32>
    %3 = train.exponential %2 : tensor<5x17x70xf32>
    %4 = train.reduce sum %3 dims [1] : tensor<5x17x70xf32>
    %5 = train.broadcast_in_dim %4 dims [0, 2] : tensor<5x70xf32> -> tensor<5x17x70xf32>
    %6 = train.divide %3, %5 : tensor<5x17x70xf32>
    plan.return %6 : tensor<5x17x70xf32>
  }
  plan.kernel loop @everything(%x: tensor<64x63xf32>) -> tensor<f32> {
    %0 = train.multiply %x, %x : tensor<64x63xf32>
    %1 = train.reduce sum %0 dims [0, 1] : tensor<64x63xf32>
    %2 = train.sqrt %1 : tensor<f32>
    plan.return %2 : tensor<f32>
  }
  plan.kernel loop @heads(%x: tensor<2x9x96xf32>) -> (tensor<2x4x9x8xf32>, tensor<2x9x96xf32>) {
    %0 = train.slice %x [0, 0, 32] to [2, 9, 64] step [1, 1, 1] : tensor<2x9x96xf32>
    %1 = train.reshape %0 : tensor<2x9x32xf32> -> tensor<2x9x4x8xf32>
    %2 = train.transpose %1 perm [0, 2, 1, 3] : tensor<2x9x4x8xf32>
    %3 = train.negate %x : tensor<2x9x96xf32>
    plan.return %2, %3 : tensor<2x4x9x8xf32>, tensor<2x9x96xf32>
  }
  plan.kernel loop @rotate(%x: tensor<3x5x16xf32>) -> tensor<3x5x16xf32> {
    %0 = train.slice %x [0, 0, 0] to [3, 5, 8] step [1, 1, 1] : tensor<3x5x16xf32>
    %1 = train.slice %x [0, 0, 8] to [3, 5, 16] step [1, 1, 1] : tensor<3x5x16xf32>
    %2 = train.negate %1 : tensor<3x5x8xf32>
    %3 = train.concatenate %2, %0 dim 2 : tensor<3x5x8xf32>, tensor<3x5x8xf32>
    plan.return %3 : tensor<3x5x16xf32>
  }
  plan.kernel loop @surround(%x: tensor<4x5xf32>, %y: tensor<4x3xf32>) -> tensor<12x11xf32> {
    %zero = train.constant dense<2.0> : tensor<f32>
    %0 = train.concatenate %y, %x, %y dim 1 : tensor<4x3xf32>, tensor<4x5xf32>, tensor<4x3xf32>
    %1 = train.pad %0, %zero low [1, 2] high [4, -2] interior [1, 0] : tensor<4x11xf32>, tensor<f32>
    %2 = train.reverse %1 dims [0] : tensor<12x11xf32>
    plan.return %2 : tensor<12x11xf32>
  }
  plan.kernel loop @odd_reshape(%x: tensor<6x10xf32>) -> tensor<15x4xf32> {
    %0 = train.transpose %x perm [1, 0] : tensor<6x10xf32>
    %1 = train.reshape %0 : tensor<10x6xf32> -> tensor<15x4xf32>
    plan.return %1 : tensor<15x4xf32>
  }
  plan.kernel loop @rows_of_table(%t: tensor<3x65xf32>, %i: tensor<4x7xi64>) -> tensor<4x7x65xf32> {
    %0 = train.gather %t[%i] dims [0] batch 0 : tensor<3x65xf32>, tensor<4x7xi64>
    plan.return %0 : tensor<4x7x65xf32>
  }
  plan.kernel loop @table(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = train.constant dense<[1.0, -2.0, 3.5, 0.0]> : tensor<4xf32>
    %1 = train.multiply %x, %0 : tensor<4xf32>
    plan.return %1 : tensor<4xf32>
  }
  plan.kernel loop @dropout(%x: tensor<9x64xf32>, %rng: tensor<2xi64>) -> tensor<9x64xf32> {
    %0 = train.dropout %x, %rng {rate = 0.3 : f64, id = 5 : i64} : tensor<9x64xf32>, tensor<2xi64>
    plan.return %0 : tensor<9x64xf32>
  }
  plan.kernel loop @picked(%x: tensor<9x40xf32>, %l: tensor<9xi64>) -> tensor<9xf32> {
    %0 = train.iota dim 1 : tensor<9x40xi64>
    %1 = train.broadcast_in_dim %l dims [0] : tensor<9xi64> -> tensor<9x40xi64>
    %2 = train.compare eq %0, %1 : tensor<9x40xi64>
    %3 = train.constant dense<0.0> : tensor<9x40xf32>
    %4 = train.select %2, %x, %3 : tensor<9x40xi1>, tensor<9x40xf32>
    %5 = train.reduce sum %4 dims [1] : tensor<9x40xf32>
    plan.return %5 : tensor<9xf32>
  }
}
