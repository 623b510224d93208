// RUN: lockstep-opt %s --lockstep-fuse-verify-output --verify-diagnostics

func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{expected only kernel calls, views and collectives after fuse}}
  %0 = train.negate %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
