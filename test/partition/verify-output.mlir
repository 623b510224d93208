// RUN: lockstep-opt %s --lockstep-partition-verify-output -split-input-file -verify-diagnostics

// expected-error @+1 {{expected local types after partition, but got 'tensor<8xf32, #dist.sharding<[["data"]]>>'}}
func.func @encoding(%x: tensor<8xf32, #dist.sharding<[["data"]]>>) {
  return
}

// -----

// expected-error @+1 {{expected no 'dist.sharding' on argument 0 after partition}}
func.func @argument(%x: tensor<8xf32> {dist.sharding = #dist.sharding<[["data"]]>}) {
  return
}

// -----

func.func @operation(%x: tensor<8xf32>) {
  // expected-error @+1 {{expected no attribute 'dist.operand_shardings' after partition}}
  %0 = train.negate %x {dist.operand_shardings = []} : tensor<8xf32>
  return
}
