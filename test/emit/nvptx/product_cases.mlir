// Products with every epilogue that plans have, small and odd enough to be evaluated; test/system/gpu_kernels.py runs them.
// RUN: rm -rf %t && gpu-kernels %s --target sm_90a --cases %t --shapes-only
// RUN: grep -o '"symbol":"gemm_[0-9]*"' %t/index.json | wc -l | FileCheck %s
// CHECK: 14

plan.kernel contraction @bias(%a: tensor<328x136xbf16>, %b: tensor<136x264xbf16>, %c: tensor<264xbf16>) -> tensor<328x264xbf16> {
  %d = train.dot_general %a, %b batch [] x [] contract [1] x [0] : tensor<328x136xbf16>, tensor<136x264xbf16>
  %s = train.convert %d : tensor<328x264xbf16> -> tensor<328x264xf32>
  %cw = train.convert %c : tensor<264xbf16> -> tensor<264xf32>
  %cb = train.broadcast_in_dim %cw dims [1] : tensor<264xf32> -> tensor<328x264xf32>
  %x = train.add %s, %cb : tensor<328x264xf32>
  %y = train.convert %x : tensor<328x264xf32> -> tensor<328x264xbf16>
  plan.return %y : tensor<328x264xbf16>
}

plan.kernel contraction @bias_gelu_saved(%a: tensor<328x136xbf16>, %b: tensor<136x264xbf16>, %c: tensor<264xbf16>) -> (tensor<328x264xbf16>, tensor<328x264xbf16>) {
  %d = train.dot_general %a, %b batch [] x [] contract [1] x [0] : tensor<328x136xbf16>, tensor<136x264xbf16>
  %s = train.convert %d : tensor<328x264xbf16> -> tensor<328x264xf32>
  %cw = train.convert %c : tensor<264xbf16> -> tensor<264xf32>
  %cb = train.broadcast_in_dim %cw dims [1] : tensor<264xf32> -> tensor<328x264xf32>
  %x = train.add %s, %cb : tensor<328x264xf32>
  %half = train.constant dense<0.5> : tensor<328x264xf32>
  %one = train.constant dense<1.0> : tensor<328x264xf32>
  %r = train.constant dense<0.707106769> : tensor<328x264xf32>
  %g1 = train.multiply %x, %r : tensor<328x264xf32>
  %g2 = train.erf %g1 : tensor<328x264xf32>
  %g3 = train.add %g2, %one : tensor<328x264xf32>
  %g4 = train.multiply %x, %half : tensor<328x264xf32>
  %f = train.multiply %g3, %g4 : tensor<328x264xf32>
  %y = train.convert %f : tensor<328x264xf32> -> tensor<328x264xbf16>
  %z = train.convert %x : tensor<328x264xf32> -> tensor<328x264xbf16>
  plan.return %y, %z : tensor<328x264xbf16>, tensor<328x264xbf16>
}

plan.kernel contraction @saved_bias_gelu_tanh(%a: tensor<328x136xbf16>, %b: tensor<136x264xbf16>, %c: tensor<264xbf16>) -> (tensor<328x264xbf16>, tensor<328x264xbf16>) {
  %d = train.dot_general %a, %b batch [] x [] contract [1] x [0] : tensor<328x136xbf16>, tensor<136x264xbf16>
  %s = train.convert %d : tensor<328x264xbf16> -> tensor<328x264xf32>
  %cw = train.convert %c : tensor<264xbf16> -> tensor<264xf32>
  %cb = train.broadcast_in_dim %cw dims [1] : tensor<264xf32> -> tensor<328x264xf32>
  %x = train.add %s, %cb : tensor<328x264xf32>
  %half = train.constant dense<0.5> : tensor<328x264xf32>
  %one = train.constant dense<1.0> : tensor<328x264xf32>
  %three = train.constant dense<3.0> : tensor<328x264xf32>
  %k = train.constant dense<4.471500e-02> : tensor<328x264xf32>
  %r = train.constant dense<0.797884583> : tensor<328x264xf32>
  %g1 = train.power %x, %three : tensor<328x264xf32>
  %g2 = train.multiply %g1, %k : tensor<328x264xf32>
  %g3 = train.add %g2, %x : tensor<328x264xf32>
  %g4 = train.multiply %g3, %r : tensor<328x264xf32>
  %g5 = train.tanh %g4 : tensor<328x264xf32>
  %g6 = train.add %g5, %one : tensor<328x264xf32>
  %g7 = train.multiply %g6, %x : tensor<328x264xf32>
  %f = train.multiply %g7, %half : tensor<328x264xf32>
  %y = train.convert %f : tensor<328x264xf32> -> tensor<328x264xbf16>
  %z = train.convert %x : tensor<328x264xf32> -> tensor<328x264xbf16>
  plan.return %z, %y : tensor<328x264xbf16>, tensor<328x264xbf16>
}

plan.kernel contraction @bias_gelu_tanh(%a: tensor<328x136xbf16>, %b: tensor<136x264xbf16>, %c: tensor<264xbf16>) -> tensor<328x264xbf16> {
  %d = train.dot_general %a, %b batch [] x [] contract [1] x [0] : tensor<328x136xbf16>, tensor<136x264xbf16>
  %s = train.convert %d : tensor<328x264xbf16> -> tensor<328x264xf32>
  %cw = train.convert %c : tensor<264xbf16> -> tensor<264xf32>
  %cb = train.broadcast_in_dim %cw dims [1] : tensor<264xf32> -> tensor<328x264xf32>
  %x = train.add %s, %cb : tensor<328x264xf32>
  %half = train.constant dense<0.5> : tensor<328x264xf32>
  %one = train.constant dense<1.0> : tensor<328x264xf32>
  %three = train.constant dense<3.0> : tensor<328x264xf32>
  %k = train.constant dense<4.471500e-02> : tensor<328x264xf32>
  %r = train.constant dense<0.797884583> : tensor<328x264xf32>
  %g1 = train.power %x, %three : tensor<328x264xf32>
  %g2 = train.multiply %g1, %k : tensor<328x264xf32>
  %g3 = train.add %g2, %x : tensor<328x264xf32>
  %g4 = train.multiply %g3, %r : tensor<328x264xf32>
  %g5 = train.tanh %g4 : tensor<328x264xf32>
  %g6 = train.add %g5, %one : tensor<328x264xf32>
  %g7 = train.multiply %g6, %x : tensor<328x264xf32>
  %f = train.multiply %g7, %half : tensor<328x264xf32>
  %y = train.convert %f : tensor<328x264xf32> -> tensor<328x264xbf16>
  plan.return %y : tensor<328x264xbf16>
}

plan.kernel contraction @silu(%a: tensor<328x136xbf16>, %b: tensor<136x264xbf16>) -> tensor<328x264xbf16> {
  %d = train.dot_general %a, %b batch [] x [] contract [1] x [0] : tensor<328x136xbf16>, tensor<136x264xbf16>
  %s = train.convert %d : tensor<328x264xbf16> -> tensor<328x264xf32>
  %g1 = train.logistic %s : tensor<328x264xf32>
  %f = train.multiply %g1, %s : tensor<328x264xf32>
  %y = train.convert %f : tensor<328x264xf32> -> tensor<328x264xbf16>
  plan.return %y : tensor<328x264xbf16>
}

plan.kernel contraction @bias_relu(%a: tensor<328x136xbf16>, %b: tensor<136x264xbf16>, %c: tensor<264xbf16>) -> tensor<328x264xbf16> {
  %d = train.dot_general %a, %b batch [] x [] contract [1] x [0] : tensor<328x136xbf16>, tensor<136x264xbf16>
  %s = train.convert %d : tensor<328x264xbf16> -> tensor<328x264xf32>
  %cw = train.convert %c : tensor<264xbf16> -> tensor<264xf32>
  %cb = train.broadcast_in_dim %cw dims [1] : tensor<264xf32> -> tensor<328x264xf32>
  %x = train.add %s, %cb : tensor<328x264xf32>
  %zero = train.constant dense<0.0> : tensor<328x264xf32>
  %f = train.maximum %x, %zero : tensor<328x264xf32>
  %y = train.convert %f : tensor<328x264xf32> -> tensor<328x264xbf16>
  plan.return %y : tensor<328x264xbf16>
}

plan.kernel contraction @gelu_gradient(%a: tensor<328x136xbf16>, %b: tensor<136x264xbf16>, %p: tensor<328x264xbf16>) -> tensor<328x264xbf16> {
  %d = train.dot_general %a, %b batch [] x [] contract [1] x [0] : tensor<328x136xbf16>, tensor<136x264xbf16>
  %s = train.convert %d : tensor<328x264xbf16> -> tensor<328x264xf32>
  %q = train.convert %p : tensor<328x264xbf16> -> tensor<328x264xf32>
  %half = train.constant dense<0.5> : tensor<328x264xf32>
  %one = train.constant dense<1.0> : tensor<328x264xf32>
  %r = train.constant dense<0.707106769> : tensor<328x264xf32>
  %n = train.constant dense<-0.5> : tensor<328x264xf32>
  %w = train.constant dense<0.398942292> : tensor<328x264xf32>
  %h1 = train.multiply %q, %r : tensor<328x264xf32>
  %h2 = train.erf %h1 : tensor<328x264xf32>
  %h3 = train.add %h2, %one : tensor<328x264xf32>
  %h4 = train.multiply %h3, %half : tensor<328x264xf32>
  %h5 = train.multiply %q, %q : tensor<328x264xf32>
  %h6 = train.multiply %h5, %n : tensor<328x264xf32>
  %h7 = train.exponential %h6 : tensor<328x264xf32>
  %h8 = train.multiply %h7, %w : tensor<328x264xf32>
  %h9 = train.multiply %h8, %q : tensor<328x264xf32>
  %h10 = train.add %h4, %h9 : tensor<328x264xf32>
  %f = train.multiply %h10, %s : tensor<328x264xf32>
  %y = train.convert %f : tensor<328x264xf32> -> tensor<328x264xbf16>
  plan.return %y : tensor<328x264xbf16>
}

plan.kernel contraction @silu_gradient(%a: tensor<328x136xbf16>, %b: tensor<136x264xbf16>, %p: tensor<328x264xbf16>) -> tensor<328x264xbf16> {
  %d = train.dot_general %a, %b batch [] x [] contract [1] x [0] : tensor<328x136xbf16>, tensor<136x264xbf16>
  %s = train.convert %d : tensor<328x264xbf16> -> tensor<328x264xf32>
  %q = train.convert %p : tensor<328x264xbf16> -> tensor<328x264xf32>
  %one = train.constant dense<1.0> : tensor<328x264xf32>
  %h1 = train.logistic %q : tensor<328x264xf32>
  %h2 = train.subtract %one, %h1 : tensor<328x264xf32>
  %h3 = train.multiply %h2, %q : tensor<328x264xf32>
  %h4 = train.add %h3, %one : tensor<328x264xf32>
  %h5 = train.multiply %h4, %h1 : tensor<328x264xf32>
  %f = train.multiply %s, %h5 : tensor<328x264xf32>
  %y = train.convert %f : tensor<328x264xf32> -> tensor<328x264xbf16>
  plan.return %y : tensor<328x264xbf16>
}

plan.kernel contraction @relu_gradient(%a: tensor<328x136xbf16>, %b: tensor<136x264xbf16>, %p: tensor<328x264xbf16>) -> tensor<328x264xbf16> {
  %d = train.dot_general %a, %b batch [] x [] contract [1] x [0] : tensor<328x136xbf16>, tensor<136x264xbf16>
  %s = train.convert %d : tensor<328x264xbf16> -> tensor<328x264xf32>
  %q = train.convert %p : tensor<328x264xbf16> -> tensor<328x264xf32>
  %zero = train.constant dense<0.0> : tensor<328x264xf32>
  %h = train.compare gt %q, %zero : tensor<328x264xf32>
  %f = train.select %h, %s, %zero : tensor<328x264xi1>, tensor<328x264xf32>
  %y = train.convert %f : tensor<328x264xf32> -> tensor<328x264xbf16>
  plan.return %y : tensor<328x264xbf16>
}

plan.kernel contraction @bias_residual(%a: tensor<328x136xbf16>, %b: tensor<136x264xbf16>, %c: tensor<264xbf16>, %p: tensor<328x264xbf16>) -> tensor<328x264xbf16> {
  %d = train.dot_general %a, %b batch [] x [] contract [1] x [0] : tensor<328x136xbf16>, tensor<136x264xbf16>
  %s = train.convert %d : tensor<328x264xbf16> -> tensor<328x264xf32>
  %cw = train.convert %c : tensor<264xbf16> -> tensor<264xf32>
  %cb = train.broadcast_in_dim %cw dims [1] : tensor<264xf32> -> tensor<328x264xf32>
  %x = train.add %s, %cb : tensor<328x264xf32>
  %q = train.convert %p : tensor<328x264xbf16> -> tensor<328x264xf32>
  %f = train.add %q, %x : tensor<328x264xf32>
  %y = train.convert %f : tensor<328x264xf32> -> tensor<328x264xbf16>
  plan.return %y : tensor<328x264xbf16>
}

plan.kernel contraction @weight_gradient(%a: tensor<256x1024xbf16>, %b: tensor<256x1032xbf16>) -> tensor<1024x1032xf32> {
  %d = train.dot_general %a, %b batch [] x [] contract [0] x [0] : tensor<256x1024xbf16>, tensor<256x1032xbf16>
  %w = train.convert %d : tensor<1024x1032xbf16> -> tensor<1024x1032xf32>
  plan.return %w : tensor<1024x1032xf32>
}

plan.kernel contraction @transposed(%a: tensor<256x1024xbf16>, %b: tensor<256x1032xbf16>) -> tensor<1032x1024xbf16> {
  %d = train.dot_general %a, %b batch [] x [] contract [0] x [0] : tensor<256x1024xbf16>, tensor<256x1032xbf16>
  %w = train.transpose %d perm [1, 0] : tensor<1024x1032xbf16>
  plan.return %w : tensor<1032x1024xbf16>
}

plan.kernel contraction @batched(%a: tensor<5x520x136xbf16>, %b: tensor<5x392x136xbf16>) -> tensor<5x520x392xbf16> {
  %d = train.dot_general %a, %b batch [0] x [0] contract [2] x [2] : tensor<5x520x136xbf16>, tensor<5x392x136xbf16>
  plan.return %d : tensor<5x520x392xbf16>
}

plan.kernel contraction @accumulated_wgrad(%sum: tensor<136x264xf32>, %a: tensor<328x136xbf16>, %b: tensor<328x264xbf16>) -> tensor<136x264xf32> {
  %d = train.dot_general %a, %b batch [] x [] contract [0] x [0] : tensor<328x136xbf16>, tensor<328x264xbf16>
  %w = train.convert %d : tensor<136x264xbf16> -> tensor<136x264xf32>
  %y = train.add %sum, %w : tensor<136x264xf32>
  plan.return %y : tensor<136x264xf32>
}
