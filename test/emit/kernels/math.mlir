// Elementary functions over ranges where their forms differ.
module {
  plan.kernel loop @exponentials(%x: tensor<4096xf32>) -> (tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>) {
    %c = train.constant dense<30.0> : tensor<4096xf32>
    %0 = train.exponential %x : tensor<4096xf32>
    %1 = train.multiply %x, %c : tensor<4096xf32>
    %2 = train.abs %1 : tensor<4096xf32>
    %3 = train.negate %2 : tensor<4096xf32>
    %4 = train.exponential %3 : tensor<4096xf32>
    %5 = train.exponential %1 : tensor<4096xf32>
    %6 = train.log %5 : tensor<4096xf32>
    plan.return %0, %4, %6 : tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>
  }
  plan.kernel loop @sigmoids(%x: tensor<4096xf32>) -> (tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>) {
    %c = train.constant dense<0.001> : tensor<4096xf32>
    %d = train.constant dense<10.0> : tensor<4096xf32>
    %0 = train.tanh %x : tensor<4096xf32>
    %1 = train.multiply %x, %c : tensor<4096xf32>
    %2 = train.tanh %1 : tensor<4096xf32>
    %3 = train.logistic %x : tensor<4096xf32>
    %4 = train.multiply %x, %d : tensor<4096xf32>
    %5 = train.logistic %4 : tensor<4096xf32>
    plan.return %0, %2, %3, %5 : tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>
  }
  plan.kernel loop @extremes(%x: tensor<256xf32>) -> (tensor<256xf32>, tensor<256xf32>, tensor<256xf32>, tensor<256xf32>) {
    %c = train.constant dense<1.0e38> : tensor<256xf32>
    %0 = train.multiply %x, %c : tensor<256xf32>
    %1 = train.multiply %0, %c : tensor<256xf32>
    %2 = train.exponential %1 : tensor<256xf32>
    %3 = train.tanh %1 : tensor<256xf32>
    %4 = train.logistic %1 : tensor<256xf32>
    %a = train.abs %1 : tensor<256xf32>
    %b = train.negate %a : tensor<256xf32>
    %5 = train.log %b : tensor<256xf32>
    %6 = train.exponential %5 : tensor<256xf32>
    plan.return %2, %3, %4, %6 : tensor<256xf32>, tensor<256xf32>, tensor<256xf32>, tensor<256xf32>
  }
  plan.kernel loop @others(%x: tensor<4096xf32>, %y: tensor<4096xf32>) -> (tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>) {
    %0 = train.erf %x : tensor<4096xf32>
    %1 = train.sine %x : tensor<4096xf32>
    %2 = train.abs %x : tensor<4096xf32>
    %3 = train.power %2, %y : tensor<4096xf32>
    %4 = train.remainder %x, %y : tensor<4096xf32>
    plan.return %0, %1, %3, %4 : tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>, tensor<4096xf32>
  }
}
