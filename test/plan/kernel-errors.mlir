// RUN: lockstep-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{type of entry block argument #0('tensor<5xf32>') must match the type of the corresponding argument in function signature('tensor<4xf32>')}}
"plan.kernel"() <{kind = #plan<kernel_kind loop>, sym_name = "arguments", function_type = (tensor<4xf32>) -> ()}> ({
  ^bb0(%x: tensor<5xf32>):
    plan.return
}) : () -> ()

// -----

// expected-error @below {{(C2) expected static tensors without encoding, but got 'f32'}}
plan.kernel loop @scalar(%x: f32) {
  plan.return
}

// -----

func.func private @f()
plan.kernel loop @foreign(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{(C3) expected only train operations in a kernel}}
  func.call @f() : () -> ()
  plan.return %x : tensor<4xf32>
}

// -----

plan.kernel loop @anchor(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{(C4) expected no anchor of another kind in a loop kernel}}
  %y = train.cumulative sum %x dim 0 : tensor<4xf32>
  plan.return %y : tensor<4xf32>
}

// -----

// expected-error @below {{(C4) expected 1 anchor, but got 0}}
plan.kernel sort @no_anchor(%x: tensor<4xf32>) -> tensor<4xf32> {
  plan.return %x : tensor<4xf32>
}

// -----

// expected-error @below {{(C5) expected rank 0 or tensor<1xT> in an update kernel, but got 'tensor<4xf32>'}}
plan.kernel update @wide(%x: tensor<4xf32>) -> tensor<4xf32> {
  plan.return %x : tensor<4xf32>
}

// -----

plan.kernel loop @types(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = train.reshape %x : tensor<4xf32> -> tensor<2x2xf32>
  // expected-error @below {{expected operands of the kernel's result types}}
  plan.return %y : tensor<2x2xf32>
}

// -----

func.func @unknown(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{(C1) expected a plan.kernel, but 'missing' is none}}
  %y = plan.call @missing(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

plan.kernel loop @id(%x: tensor<4xf32>) -> tensor<4xf32> {
  plan.return %x : tensor<4xf32>
}
func.func @operand_type(%x: tensor<5xf32>) -> tensor<4xf32> {
  // expected-error @below {{(C1) expected 'tensor<4xf32>' for operand 0 of @id, but got 'tensor<5xf32>'}}
  %y = plan.call @id(%x) : (tensor<5xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

plan.kernel loop @id(%x: tensor<4xf32>) -> tensor<4xf32> {
  plan.return %x : tensor<4xf32>
}
func.func @operand_count() -> tensor<4xf32> {
  // expected-error @below {{(C1) expected 1 operands for @id, but got 0}}
  %y = plan.call @id() : () -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

plan.kernel update @sum(%x: tensor<1xf32>, %y: tensor<1xf32>) -> tensor<1xf32> {
  %z = train.add %x, %y : tensor<1xf32>
  plan.return %z : tensor<1xf32>
}
func.func @elements(%x: tensor<2x3xf32>, %y: tensor<5xf32>) -> tensor<6xf32> {
  // expected-error @below {{(C1) expected 'tensor<1xf32>' for operand 1 of @sum, but got 'tensor<5xf32>'}}
  %z = plan.call @sum(%x, %y) : (tensor<2x3xf32>, tensor<5xf32>) -> tensor<6xf32>
  return %z : tensor<6xf32>
}

// -----

func.func @view_range(%x: tensor<4xf32>) -> tensor<2xf32> {
  // expected-error @below {{(C1) expected elements within 4, but got 3 to 5}}
  %y = plan.view %x at 3 : tensor<4xf32> -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

func.func @view_type(%x: tensor<4xf32>) -> tensor<4xi32> {
  // expected-error @below {{(C2) expected element type 'f32', but got 'i32'}}
  %y = plan.view %x : tensor<4xf32> -> tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

func.func @join_size(%x: tensor<4xf32>) -> tensor<7xf32> {
  // expected-error @below {{(C1) expected a result of rank 1 with 8 elements, but got 'tensor<7xf32>'}}
  %y = plan.join %x, %x : tensor<4xf32>, tensor<4xf32> -> tensor<7xf32>
  return %y : tensor<7xf32>
}

// -----

func.func @join_type(%x: tensor<4xi32>) -> tensor<4xf32> {
  // expected-error @below {{(C1) expected element type 'f32', but got 'tensor<4xi32>'}}
  %y = plan.join %x : tensor<4xi32> -> tensor<4xf32>
  return %y : tensor<4xf32>
}
