// RUN: lockstep-opt %s --split-input-file --verify-diagnostics --lockstep-autodiff-verify-output

// expected-error @below {{expected a function @step}}
module {
}

// -----

// expected-error @below {{expected no @forward after autodiff}}
module {
  func.func private @forward()
}

// -----

module {
  // expected-error @below {{expected a role and a name of argument 0}}
  func.func @step(%x: tensor<f32>) {
    return
  }
}

// -----

module {
  // expected-error @below {{expected result 0 to replace an argument 'parameter:w' of type 'tensor<2xf32>'}}
  func.func @step(%w: tensor<2xf32> {train.role = #train.role<buffer>, train.name = "w"})
      -> (tensor<2xf32> {train.role = #train.role<parameter>, train.name = "w"}) {
    return %w : tensor<2xf32>
  }
}

// -----

module {
  // expected-error @below {{expected a metric 'loss' among the results}}
  func.func @step(%w: tensor<2xf32> {train.role = #train.role<parameter>, train.name = "w"})
      -> (tensor<2xf32> {train.role = #train.role<parameter>, train.name = "w"}) {
    return %w : tensor<2xf32>
  }
}
