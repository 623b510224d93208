// RUN: lockstep-opt %s --lockstep-schedule-verify-output --verify-diagnostics

// expected-error @below {{expected only kernels, programs and meshes after schedule}}
func.func @step() {
  return
}
