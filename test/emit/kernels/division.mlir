// Integer division by 0 and of the least number by -1: neither may trap. Divisors are 0, 1 and 2 less 1; dividends are the least number, or near it.
module {
  plan.kernel loop @least_i8(%x: tensor<67xi8>, %y: tensor<67xi8>) -> (tensor<67xi8>, tensor<67xi8>, tensor<67xi8>, tensor<67xi8>) {
    %one = train.constant dense<1> : tensor<67xi8>
    %least = train.constant dense<-128> : tensor<67xi8>
    %divisor = train.subtract %y, %one : tensor<67xi8>
    %dividend = train.add %least, %x : tensor<67xi8>
    %0 = train.divide %dividend, %divisor : tensor<67xi8>
    %1 = train.remainder %dividend, %divisor : tensor<67xi8>
    %2 = train.floor_divide %dividend, %divisor : tensor<67xi8>
    %3 = train.modulo %dividend, %divisor : tensor<67xi8>
    plan.return %0, %1, %2, %3 : tensor<67xi8>, tensor<67xi8>, tensor<67xi8>, tensor<67xi8>
  }
  plan.kernel loop @least_i16(%x: tensor<67xi16>, %y: tensor<67xi16>) -> (tensor<67xi16>, tensor<67xi16>, tensor<67xi16>, tensor<67xi16>) {
    %one = train.constant dense<1> : tensor<67xi16>
    %least = train.constant dense<-32768> : tensor<67xi16>
    %divisor = train.subtract %y, %one : tensor<67xi16>
    %dividend = train.add %least, %x : tensor<67xi16>
    %0 = train.divide %dividend, %divisor : tensor<67xi16>
    %1 = train.remainder %dividend, %divisor : tensor<67xi16>
    %2 = train.floor_divide %dividend, %divisor : tensor<67xi16>
    %3 = train.modulo %dividend, %divisor : tensor<67xi16>
    plan.return %0, %1, %2, %3 : tensor<67xi16>, tensor<67xi16>, tensor<67xi16>, tensor<67xi16>
  }
  plan.kernel loop @least_i32(%x: tensor<67xi32>, %y: tensor<67xi32>) -> (tensor<67xi32>, tensor<67xi32>, tensor<67xi32>, tensor<67xi32>) {
    %one = train.constant dense<1> : tensor<67xi32>
    %least = train.constant dense<-2147483648> : tensor<67xi32>
    %divisor = train.subtract %y, %one : tensor<67xi32>
    %dividend = train.add %least, %x : tensor<67xi32>
    %0 = train.divide %dividend, %divisor : tensor<67xi32>
    %1 = train.remainder %dividend, %divisor : tensor<67xi32>
    %2 = train.floor_divide %dividend, %divisor : tensor<67xi32>
    %3 = train.modulo %dividend, %divisor : tensor<67xi32>
    plan.return %0, %1, %2, %3 : tensor<67xi32>, tensor<67xi32>, tensor<67xi32>, tensor<67xi32>
  }
  plan.kernel loop @least_i64(%x: tensor<67xi64>, %y: tensor<67xi64>) -> (tensor<67xi64>, tensor<67xi64>, tensor<67xi64>, tensor<67xi64>) {
    %one = train.constant dense<1> : tensor<67xi64>
    %least = train.constant dense<-9223372036854775808> : tensor<67xi64>
    %divisor = train.subtract %y, %one : tensor<67xi64>
    %dividend = train.add %least, %x : tensor<67xi64>
    %0 = train.divide %dividend, %divisor : tensor<67xi64>
    %1 = train.remainder %dividend, %divisor : tensor<67xi64>
    %2 = train.floor_divide %dividend, %divisor : tensor<67xi64>
    %3 = train.modulo %dividend, %divisor : tensor<67xi64>
    plan.return %0, %1, %2, %3 : tensor<67xi64>, tensor<67xi64>, tensor<67xi64>, tensor<67xi64>
  }
  plan.kernel loop @least_ui8(%x: tensor<67xui8>, %y: tensor<67xui8>) -> (tensor<67xui8>, tensor<67xui8>, tensor<67xui8>, tensor<67xui8>) {
    %0 = train.divide %x, %y : tensor<67xui8>
    %1 = train.remainder %x, %y : tensor<67xui8>
    %2 = train.floor_divide %x, %y : tensor<67xui8>
    %3 = train.modulo %x, %y : tensor<67xui8>
    plan.return %0, %1, %2, %3 : tensor<67xui8>, tensor<67xui8>, tensor<67xui8>, tensor<67xui8>
  }
}
