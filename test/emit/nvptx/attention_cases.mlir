// Attention in every form that plans have, small and odd enough to be evaluated; test/system/gpu_kernels.py runs them.
// RUN: rm -rf %t && gpu-kernels %s --target sm_90a --cases %t --shapes-only
// RUN: grep -o '"symbol":"attention_[a-z_]*' %t/index.json | sort | uniq -c | FileCheck %s
// CHECK: 14 "symbol":"attention_backward
// CHECK: 6 "symbol":"attention_convert
// CHECK: 10 "symbol":"attention_forward
// CHECK: 5 "symbol":"attention_key_bias
// CHECK: 12 "symbol":"attention_mask_pieces
// CHECK: 6 "symbol":"attention_prepare
// CHECK: 8 "symbol":"attention_query_gradient

plan.kernel attention @joined_causal(%x: tensor<2x200x576xbf16>) -> (tensor<2x200x3x64xbf16>, tensor<2x3x200xf32>) {
  %q0 = train.slice %x [0, 0, 0] to [2, 200, 192] step [1, 1, 1] : tensor<2x200x576xbf16>
  %q1 = train.reshape %q0 : tensor<2x200x192xbf16> -> tensor<2x200x3x64xbf16>
  %q = train.transpose %q1 perm [0, 2, 1, 3] : tensor<2x200x3x64xbf16>
  %k0 = train.slice %x [0, 0, 192] to [2, 200, 384] step [1, 1, 1] : tensor<2x200x576xbf16>
  %k1 = train.reshape %k0 : tensor<2x200x192xbf16> -> tensor<2x200x3x64xbf16>
  %k = train.transpose %k1 perm [0, 2, 1, 3] : tensor<2x200x3x64xbf16>
  %v0 = train.slice %x [0, 0, 384] to [2, 200, 576] step [1, 1, 1] : tensor<2x200x576xbf16>
  %v1 = train.reshape %v0 : tensor<2x200x192xbf16> -> tensor<2x200x3x64xbf16>
  %v = train.transpose %v1 perm [0, 2, 1, 3] : tensor<2x200x3x64xbf16>
  %o, %lse = train.attention %q, %k, %v scale 0.25 {causal} : (tensor<2x3x200x64xbf16>, tensor<2x3x200x64xbf16>, tensor<2x3x200x64xbf16>) -> (tensor<2x3x200x64xbf16>, tensor<2x3x200xf32>)
  %t = train.transpose %o perm [0, 2, 1, 3] : tensor<2x3x200x64xbf16>
  plan.return %t, %lse : tensor<2x200x3x64xbf16>, tensor<2x3x200xf32>
}

plan.kernel attention @full_lengths(%q: tensor<1x2x129x48xbf16>, %k: tensor<1x2x77x48xbf16>, %v: tensor<1x2x77x48xbf16>) -> (tensor<1x2x129x48xbf16>, tensor<1x2x129xf32>) {
  %o, %lse = train.attention %q, %k, %v scale 0.25 : (tensor<1x2x129x48xbf16>, tensor<1x2x77x48xbf16>, tensor<1x2x77x48xbf16>) -> (tensor<1x2x129x48xbf16>, tensor<1x2x129xf32>)
  plan.return %o, %lse : tensor<1x2x129x48xbf16>, tensor<1x2x129xf32>
}

plan.kernel attention @grouped_window(%q: tensor<1x4x300x128xbf16>, %k: tensor<1x2x300x128xbf16>, %v: tensor<1x2x300x128xbf16>) -> (tensor<1x4x300x128xbf16>, tensor<1x4x300xf32>) {
  %o, %lse = train.attention %q, %k, %v scale 0.25 {causal, window = 100 : i64} : (tensor<1x4x300x128xbf16>, tensor<1x2x300x128xbf16>, tensor<1x2x300x128xbf16>) -> (tensor<1x4x300x128xbf16>, tensor<1x4x300xf32>)
  plan.return %o, %lse : tensor<1x4x300x128xbf16>, tensor<1x4x300xf32>
}

plan.kernel attention @padded(%q: tensor<2x2x130x64xbf16>, %k: tensor<2x2x130x64xbf16>, %v: tensor<2x2x130x64xbf16>, %m: tensor<2x1x1x130xi1>) -> (tensor<2x2x130x64xbf16>, tensor<2x2x130xf32>) {
  %o, %lse = train.attention %q, %k, %v mask %m scale 0.25 : (tensor<2x2x130x64xbf16>, tensor<2x2x130x64xbf16>, tensor<2x2x130x64xbf16>, tensor<2x1x1x130xi1>) -> (tensor<2x2x130x64xbf16>, tensor<2x2x130xf32>)
  plan.return %o, %lse : tensor<2x2x130x64xbf16>, tensor<2x2x130xf32>
}

plan.kernel attention_gradient @joined_causal_gradient(%x: tensor<2x200x576xbf16>, %d0: tensor<2x200x3x64xbf16>, %o0: tensor<2x200x3x64xbf16>, %lse: tensor<2x3x200xf32>) -> (tensor<2x200x3x64xbf16>, tensor<2x200x3x64xbf16>, tensor<2x200x3x64xbf16>) {
  %q0 = train.slice %x [0, 0, 0] to [2, 200, 192] step [1, 1, 1] : tensor<2x200x576xbf16>
  %q1 = train.reshape %q0 : tensor<2x200x192xbf16> -> tensor<2x200x3x64xbf16>
  %q = train.transpose %q1 perm [0, 2, 1, 3] : tensor<2x200x3x64xbf16>
  %k0 = train.slice %x [0, 0, 192] to [2, 200, 384] step [1, 1, 1] : tensor<2x200x576xbf16>
  %k1 = train.reshape %k0 : tensor<2x200x192xbf16> -> tensor<2x200x3x64xbf16>
  %k = train.transpose %k1 perm [0, 2, 1, 3] : tensor<2x200x3x64xbf16>
  %v0 = train.slice %x [0, 0, 384] to [2, 200, 576] step [1, 1, 1] : tensor<2x200x576xbf16>
  %v1 = train.reshape %v0 : tensor<2x200x192xbf16> -> tensor<2x200x3x64xbf16>
  %v = train.transpose %v1 perm [0, 2, 1, 3] : tensor<2x200x3x64xbf16>
  %d = train.transpose %d0 perm [0, 2, 1, 3] : tensor<2x200x3x64xbf16>
  %o = train.transpose %o0 perm [0, 2, 1, 3] : tensor<2x200x3x64xbf16>
  %dq, %dk, %dv = train.attention_gradient %d, %q, %k, %v, %o, %lse scale 0.25 {causal} : (tensor<2x3x200x64xbf16>, tensor<2x3x200x64xbf16>, tensor<2x3x200x64xbf16>, tensor<2x3x200x64xbf16>, tensor<2x3x200x64xbf16>, tensor<2x3x200xf32>) -> (tensor<2x3x200x64xbf16>, tensor<2x3x200x64xbf16>, tensor<2x3x200x64xbf16>)
  %dq1 = train.transpose %dq perm [0, 2, 1, 3] : tensor<2x3x200x64xbf16>
  %dk1 = train.transpose %dk perm [0, 2, 1, 3] : tensor<2x3x200x64xbf16>
  %dv1 = train.transpose %dv perm [0, 2, 1, 3] : tensor<2x3x200x64xbf16>
  plan.return %dq1, %dk1, %dv1 : tensor<2x200x3x64xbf16>, tensor<2x200x3x64xbf16>, tensor<2x200x3x64xbf16>
}

plan.kernel attention_gradient @long_causal_gradient(%q: tensor<1x2x600x64xbf16>, %k: tensor<1x2x600x64xbf16>, %v: tensor<1x2x600x64xbf16>, %d: tensor<1x2x600x64xbf16>, %o: tensor<1x2x600x64xbf16>, %lse: tensor<1x2x600xf32>) -> (tensor<1x2x600x64xbf16>, tensor<1x2x600x64xbf16>, tensor<1x2x600x64xbf16>) {
  %dq, %dk, %dv = train.attention_gradient %d, %q, %k, %v, %o, %lse scale 0.25 {causal} : (tensor<1x2x600x64xbf16>, tensor<1x2x600x64xbf16>, tensor<1x2x600x64xbf16>, tensor<1x2x600x64xbf16>, tensor<1x2x600x64xbf16>, tensor<1x2x600xf32>) -> (tensor<1x2x600x64xbf16>, tensor<1x2x600x64xbf16>, tensor<1x2x600x64xbf16>)
  plan.return %dq, %dk, %dv : tensor<1x2x600x64xbf16>, tensor<1x2x600x64xbf16>, tensor<1x2x600x64xbf16>
}

plan.kernel attention_gradient @full_lengths_gradient(%q: tensor<1x2x129x48xbf16>, %k: tensor<1x2x77x48xbf16>, %v: tensor<1x2x77x48xbf16>, %d: tensor<1x2x129x48xbf16>, %o: tensor<1x2x129x48xbf16>, %lse: tensor<1x2x129xf32>) -> (tensor<1x2x129x48xbf16>, tensor<1x2x77x48xbf16>, tensor<1x2x77x48xbf16>) {
  %dq, %dk, %dv = train.attention_gradient %d, %q, %k, %v, %o, %lse scale 0.25 : (tensor<1x2x129x48xbf16>, tensor<1x2x129x48xbf16>, tensor<1x2x77x48xbf16>, tensor<1x2x77x48xbf16>, tensor<1x2x129x48xbf16>, tensor<1x2x129xf32>) -> (tensor<1x2x129x48xbf16>, tensor<1x2x77x48xbf16>, tensor<1x2x77x48xbf16>)
  plan.return %dq, %dk, %dv : tensor<1x2x129x48xbf16>, tensor<1x2x77x48xbf16>, tensor<1x2x77x48xbf16>
}

plan.kernel attention_gradient @wide_full_gradient(%q: tensor<1x2x130x128xbf16>, %k: tensor<1x1x200x128xbf16>, %v: tensor<1x1x200x128xbf16>, %d: tensor<1x2x130x128xbf16>, %o: tensor<1x2x130x128xbf16>, %lse: tensor<1x2x130xf32>) -> (tensor<1x2x130x128xbf16>, tensor<1x1x200x128xbf16>, tensor<1x1x200x128xbf16>) {
  %dq, %dk, %dv = train.attention_gradient %d, %q, %k, %v, %o, %lse scale 0.25 : (tensor<1x2x130x128xbf16>, tensor<1x2x130x128xbf16>, tensor<1x1x200x128xbf16>, tensor<1x1x200x128xbf16>, tensor<1x2x130x128xbf16>, tensor<1x2x130xf32>) -> (tensor<1x2x130x128xbf16>, tensor<1x1x200x128xbf16>, tensor<1x1x200x128xbf16>)
  plan.return %dq, %dk, %dv : tensor<1x2x130x128xbf16>, tensor<1x1x200x128xbf16>, tensor<1x1x200x128xbf16>
}

plan.kernel attention_gradient @grouped_window_gradient(%q: tensor<1x4x300x128xbf16>, %k: tensor<1x2x300x128xbf16>, %v: tensor<1x2x300x128xbf16>, %d: tensor<1x4x300x128xbf16>, %o: tensor<1x4x300x128xbf16>, %lse: tensor<1x4x300xf32>) -> (tensor<1x4x300x128xbf16>, tensor<1x2x300x128xbf16>, tensor<1x2x300x128xbf16>) {
  %dq, %dk, %dv = train.attention_gradient %d, %q, %k, %v, %o, %lse scale 0.25 {causal, window = 100 : i64} : (tensor<1x4x300x128xbf16>, tensor<1x4x300x128xbf16>, tensor<1x2x300x128xbf16>, tensor<1x2x300x128xbf16>, tensor<1x4x300x128xbf16>, tensor<1x4x300xf32>) -> (tensor<1x4x300x128xbf16>, tensor<1x2x300x128xbf16>, tensor<1x2x300x128xbf16>)
  plan.return %dq, %dk, %dv : tensor<1x4x300x128xbf16>, tensor<1x2x300x128xbf16>, tensor<1x2x300x128xbf16>
}

plan.kernel attention_gradient @padded_gradient(%q: tensor<2x2x130x64xbf16>, %k: tensor<2x2x130x64xbf16>, %v: tensor<2x2x130x64xbf16>, %d: tensor<2x2x130x64xbf16>, %o: tensor<2x2x130x64xbf16>, %lse: tensor<2x2x130xf32>, %m: tensor<2x1x1x130xi1>) -> (tensor<2x2x130x64xbf16>, tensor<2x2x130x64xbf16>, tensor<2x2x130x64xbf16>) {
  %dq, %dk, %dv = train.attention_gradient %d, %q, %k, %v, %o, %lse mask %m scale 0.25 : (tensor<2x2x130x64xbf16>, tensor<2x2x130x64xbf16>, tensor<2x2x130x64xbf16>, tensor<2x2x130x64xbf16>, tensor<2x2x130x64xbf16>, tensor<2x2x130xf32>, tensor<2x1x1x130xi1>) -> (tensor<2x2x130x64xbf16>, tensor<2x2x130x64xbf16>, tensor<2x2x130x64xbf16>)
  plan.return %dq, %dk, %dv : tensor<2x2x130x64xbf16>, tensor<2x2x130x64xbf16>, tensor<2x2x130x64xbf16>
}

plan.kernel attention_gradient @padded_long_gradient(%q: tensor<1x2x530x64xbf16>, %k: tensor<1x2x530x64xbf16>, %v: tensor<1x2x530x64xbf16>, %d: tensor<1x2x530x64xbf16>, %o: tensor<1x2x530x64xbf16>, %lse: tensor<1x2x530xf32>, %m: tensor<1x1x1x530xi1>) -> (tensor<1x2x530x64xbf16>, tensor<1x2x530x64xbf16>, tensor<1x2x530x64xbf16>) {
  %dq, %dk, %dv = train.attention_gradient %d, %q, %k, %v, %o, %lse mask %m scale 0.25 : (tensor<1x2x530x64xbf16>, tensor<1x2x530x64xbf16>, tensor<1x2x530x64xbf16>, tensor<1x2x530x64xbf16>, tensor<1x2x530x64xbf16>, tensor<1x2x530xf32>, tensor<1x1x1x530xi1>) -> (tensor<1x2x530x64xbf16>, tensor<1x2x530x64xbf16>, tensor<1x2x530x64xbf16>)
  plan.return %dq, %dk, %dv : tensor<1x2x530x64xbf16>, tensor<1x2x530x64xbf16>, tensor<1x2x530x64xbf16>
}

plan.kernel attention @shared_mask(%q: tensor<2x3x130x64xbf16>, %k: tensor<2x3x130x64xbf16>, %v: tensor<2x3x130x64xbf16>, %m: tensor<1x1x130x130xi1>) -> (tensor<2x3x130x64xbf16>, tensor<2x3x130xf32>) {
  %o, %lse = train.attention %q, %k, %v mask %m scale 0.25 : (tensor<2x3x130x64xbf16>, tensor<2x3x130x64xbf16>, tensor<2x3x130x64xbf16>, tensor<1x1x130x130xi1>) -> (tensor<2x3x130x64xbf16>, tensor<2x3x130xf32>)
  plan.return %o, %lse : tensor<2x3x130x64xbf16>, tensor<2x3x130xf32>
}

plan.kernel attention @causal_bias_of_heads(%q: tensor<2x4x200x64xbf16>, %k: tensor<2x2x200x64xbf16>, %v: tensor<2x2x200x64xbf16>, %m: tensor<1x4x200x200xf32>) -> (tensor<2x4x200x64xbf16>, tensor<2x4x200xf32>) {
  %o, %lse = train.attention %q, %k, %v mask %m scale 0.25 {causal} : (tensor<2x4x200x64xbf16>, tensor<2x2x200x64xbf16>, tensor<2x2x200x64xbf16>, tensor<1x4x200x200xf32>) -> (tensor<2x4x200x64xbf16>, tensor<2x4x200xf32>)
  plan.return %o, %lse : tensor<2x4x200x64xbf16>, tensor<2x4x200xf32>
}

plan.kernel attention @wide_bias(%q: tensor<2x2x77x128xbf16>, %k: tensor<2x1x140x128xbf16>, %v: tensor<2x1x140x128xbf16>, %m: tensor<2x1x77x140xbf16>) -> (tensor<2x2x77x128xbf16>, tensor<2x2x77xf32>) {
  %o, %lse = train.attention %q, %k, %v mask %m scale 0.25 : (tensor<2x2x77x128xbf16>, tensor<2x1x140x128xbf16>, tensor<2x1x140x128xbf16>, tensor<2x1x77x140xbf16>) -> (tensor<2x2x77x128xbf16>, tensor<2x2x77xf32>)
  plan.return %o, %lse : tensor<2x2x77x128xbf16>, tensor<2x2x77xf32>
}

plan.kernel attention @bias_of_keys(%q: tensor<2x2x130x64xbf16>, %k: tensor<2x2x90x64xbf16>, %v: tensor<2x2x90x64xbf16>, %m: tensor<2x1x1x90xf32>) -> (tensor<2x2x130x64xbf16>, tensor<2x2x130xf32>) {
  %o, %lse = train.attention %q, %k, %v mask %m scale 0.25 : (tensor<2x2x130x64xbf16>, tensor<2x2x90x64xbf16>, tensor<2x2x90x64xbf16>, tensor<2x1x1x90xf32>) -> (tensor<2x2x130x64xbf16>, tensor<2x2x130xf32>)
  plan.return %o, %lse : tensor<2x2x130x64xbf16>, tensor<2x2x130xf32>
}

plan.kernel attention @widest(%q: tensor<1x4x200x256xbf16>, %k: tensor<1x2x200x256xbf16>, %v: tensor<1x2x200x256xbf16>) -> (tensor<1x4x200x256xbf16>, tensor<1x4x200xf32>) {
  %o, %lse = train.attention %q, %k, %v scale 0.25 {causal} : (tensor<1x4x200x256xbf16>, tensor<1x2x200x256xbf16>, tensor<1x2x200x256xbf16>) -> (tensor<1x4x200x256xbf16>, tensor<1x4x200xf32>)
  plan.return %o, %lse : tensor<1x4x200x256xbf16>, tensor<1x4x200xf32>
}

plan.kernel attention @widest_mask(%q: tensor<2x2x130x160xbf16>, %k: tensor<2x2x70x160xbf16>, %v: tensor<2x2x70x160xbf16>, %m: tensor<2x1x130x70xi1>) -> (tensor<2x2x130x160xbf16>, tensor<2x2x130xf32>) {
  %o, %lse = train.attention %q, %k, %v mask %m scale 0.25 : (tensor<2x2x130x160xbf16>, tensor<2x2x70x160xbf16>, tensor<2x2x70x160xbf16>, tensor<2x1x130x70xi1>) -> (tensor<2x2x130x160xbf16>, tensor<2x2x130xf32>)
  plan.return %o, %lse : tensor<2x2x130x160xbf16>, tensor<2x2x130xf32>
}

plan.kernel attention_gradient @shared_mask_gradient(%q: tensor<2x3x130x64xbf16>, %k: tensor<2x3x130x64xbf16>, %v: tensor<2x3x130x64xbf16>, %d: tensor<2x3x130x64xbf16>, %o: tensor<2x3x130x64xbf16>, %lse: tensor<2x3x130xf32>, %m: tensor<1x1x130x130xi1>) -> (tensor<2x3x130x64xbf16>, tensor<2x3x130x64xbf16>, tensor<2x3x130x64xbf16>) {
  %dq, %dk, %dv = train.attention_gradient %d, %q, %k, %v, %o, %lse mask %m scale 0.25 : (tensor<2x3x130x64xbf16>, tensor<2x3x130x64xbf16>, tensor<2x3x130x64xbf16>, tensor<2x3x130x64xbf16>, tensor<2x3x130x64xbf16>, tensor<2x3x130xf32>, tensor<1x1x130x130xi1>) -> (tensor<2x3x130x64xbf16>, tensor<2x3x130x64xbf16>, tensor<2x3x130x64xbf16>)
  plan.return %dq, %dk, %dv : tensor<2x3x130x64xbf16>, tensor<2x3x130x64xbf16>, tensor<2x3x130x64xbf16>
}

plan.kernel attention_gradient @causal_bias_of_heads_gradient(%q: tensor<2x4x200x64xbf16>, %k: tensor<2x2x200x64xbf16>, %v: tensor<2x2x200x64xbf16>, %d: tensor<2x4x200x64xbf16>, %o: tensor<2x4x200x64xbf16>, %lse: tensor<2x4x200xf32>, %m: tensor<1x4x200x200xf32>) -> (tensor<2x4x200x64xbf16>, tensor<2x2x200x64xbf16>, tensor<2x2x200x64xbf16>) {
  %dq, %dk, %dv = train.attention_gradient %d, %q, %k, %v, %o, %lse mask %m scale 0.25 {causal} : (tensor<2x4x200x64xbf16>, tensor<2x4x200x64xbf16>, tensor<2x2x200x64xbf16>, tensor<2x2x200x64xbf16>, tensor<2x4x200x64xbf16>, tensor<2x4x200xf32>, tensor<1x4x200x200xf32>) -> (tensor<2x4x200x64xbf16>, tensor<2x2x200x64xbf16>, tensor<2x2x200x64xbf16>)
  plan.return %dq, %dk, %dv : tensor<2x4x200x64xbf16>, tensor<2x2x200x64xbf16>, tensor<2x2x200x64xbf16>
}

plan.kernel attention_gradient @wide_bias_gradient(%q: tensor<2x2x77x128xbf16>, %k: tensor<2x1x140x128xbf16>, %v: tensor<2x1x140x128xbf16>, %d: tensor<2x2x77x128xbf16>, %o: tensor<2x2x77x128xbf16>, %lse: tensor<2x2x77xf32>, %m: tensor<2x1x77x140xbf16>) -> (tensor<2x2x77x128xbf16>, tensor<2x1x140x128xbf16>, tensor<2x1x140x128xbf16>) {
  %dq, %dk, %dv = train.attention_gradient %d, %q, %k, %v, %o, %lse mask %m scale 0.25 : (tensor<2x2x77x128xbf16>, tensor<2x2x77x128xbf16>, tensor<2x1x140x128xbf16>, tensor<2x1x140x128xbf16>, tensor<2x2x77x128xbf16>, tensor<2x2x77xf32>, tensor<2x1x77x140xbf16>) -> (tensor<2x2x77x128xbf16>, tensor<2x1x140x128xbf16>, tensor<2x1x140x128xbf16>)
  plan.return %dq, %dk, %dv : tensor<2x2x77x128xbf16>, tensor<2x1x140x128xbf16>, tensor<2x1x140x128xbf16>
}

plan.kernel attention_gradient @bias_of_keys_gradient(%q: tensor<2x2x130x64xbf16>, %k: tensor<2x2x90x64xbf16>, %v: tensor<2x2x90x64xbf16>, %d: tensor<2x2x130x64xbf16>, %o: tensor<2x2x130x64xbf16>, %lse: tensor<2x2x130xf32>, %m: tensor<2x1x1x90xf32>) -> (tensor<2x2x130x64xbf16>, tensor<2x2x90x64xbf16>, tensor<2x2x90x64xbf16>) {
  %dq, %dk, %dv = train.attention_gradient %d, %q, %k, %v, %o, %lse mask %m scale 0.25 : (tensor<2x2x130x64xbf16>, tensor<2x2x130x64xbf16>, tensor<2x2x90x64xbf16>, tensor<2x2x90x64xbf16>, tensor<2x2x130x64xbf16>, tensor<2x2x130xf32>, tensor<2x1x1x90xf32>) -> (tensor<2x2x130x64xbf16>, tensor<2x2x90x64xbf16>, tensor<2x2x90x64xbf16>)
  plan.return %dq, %dk, %dv : tensor<2x2x130x64xbf16>, tensor<2x2x90x64xbf16>, tensor<2x2x90x64xbf16>
}

plan.kernel attention_gradient @widest_gradient(%q: tensor<1x4x200x256xbf16>, %k: tensor<1x2x200x256xbf16>, %v: tensor<1x2x200x256xbf16>, %d: tensor<1x4x200x256xbf16>, %o: tensor<1x4x200x256xbf16>, %lse: tensor<1x4x200xf32>) -> (tensor<1x4x200x256xbf16>, tensor<1x2x200x256xbf16>, tensor<1x2x200x256xbf16>) {
  %dq, %dk, %dv = train.attention_gradient %d, %q, %k, %v, %o, %lse scale 0.25 {causal} : (tensor<1x4x200x256xbf16>, tensor<1x4x200x256xbf16>, tensor<1x2x200x256xbf16>, tensor<1x2x200x256xbf16>, tensor<1x4x200x256xbf16>, tensor<1x4x200xf32>) -> (tensor<1x4x200x256xbf16>, tensor<1x2x200x256xbf16>, tensor<1x2x200x256xbf16>)
  plan.return %dq, %dk, %dv : tensor<1x4x200x256xbf16>, tensor<1x2x200x256xbf16>, tensor<1x2x200x256xbf16>
}

plan.kernel attention_gradient @widest_mask_gradient(%q: tensor<2x2x130x160xbf16>, %k: tensor<2x2x70x160xbf16>, %v: tensor<2x2x70x160xbf16>, %d: tensor<2x2x130x160xbf16>, %o: tensor<2x2x130x160xbf16>, %lse: tensor<2x2x130xf32>, %m: tensor<2x1x130x70xi1>) -> (tensor<2x2x130x160xbf16>, tensor<2x2x70x160xbf16>, tensor<2x2x70x160xbf16>) {
  %dq, %dk, %dv = train.attention_gradient %d, %q, %k, %v, %o, %lse mask %m scale 0.25 : (tensor<2x2x130x160xbf16>, tensor<2x2x130x160xbf16>, tensor<2x2x70x160xbf16>, tensor<2x2x70x160xbf16>, tensor<2x2x130x160xbf16>, tensor<2x2x130xf32>, tensor<2x1x130x70xi1>) -> (tensor<2x2x130x160xbf16>, tensor<2x2x70x160xbf16>, tensor<2x2x70x160xbf16>)
  plan.return %dq, %dk, %dv : tensor<2x2x130x160xbf16>, tensor<2x2x70x160xbf16>, tensor<2x2x70x160xbf16>
}

plan.kernel attention_gradient @long_shared_mask_gradient(%q: tensor<1x2x530x64xbf16>, %k: tensor<1x2x530x64xbf16>, %v: tensor<1x2x530x64xbf16>, %d: tensor<1x2x530x64xbf16>, %o: tensor<1x2x530x64xbf16>, %lse: tensor<1x2x530xf32>, %m: tensor<1x1x530x530xi1>) -> (tensor<1x2x530x64xbf16>, tensor<1x2x530x64xbf16>, tensor<1x2x530x64xbf16>) {
  %dq, %dk, %dv = train.attention_gradient %d, %q, %k, %v, %o, %lse mask %m scale 0.25 : (tensor<1x2x530x64xbf16>, tensor<1x2x530x64xbf16>, tensor<1x2x530x64xbf16>, tensor<1x2x530x64xbf16>, tensor<1x2x530x64xbf16>, tensor<1x2x530xf32>, tensor<1x1x530x530xi1>) -> (tensor<1x2x530x64xbf16>, tensor<1x2x530x64xbf16>, tensor<1x2x530x64xbf16>)
  plan.return %dq, %dk, %dv : tensor<1x2x530x64xbf16>, tensor<1x2x530x64xbf16>, tensor<1x2x530x64xbf16>
}
