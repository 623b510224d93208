// RUN: lockstep-opt %s --split-input-file --lockstep-schedule-verify-collective-order --verify-diagnostics

// Two roles that start a communicator's collectives in different orders would wait for each other for ever.
plan.program @first entry "step" role "a" arena_bytes 64 {
  %a = plan.buffer temporary offset 0 : !plan.buffer<tensor<4xf32>>
  %b = plan.buffer temporary offset 16 : !plan.buffer<tensor<8xf32>>
  // expected-note @below {{role 'a' has it here}}
  plan.collective_start all_reduce 0 reduction sum on @mesh ["data"] ins(%a : !plan.buffer<tensor<4xf32>>) outs(%a : !plan.buffer<tensor<4xf32>>)
  plan.collective_start all_reduce 1 reduction sum on @mesh ["data"] ins(%b : !plan.buffer<tensor<8xf32>>) outs(%b : !plan.buffer<tensor<8xf32>>)
  plan.collective_wait 0
  plan.collective_wait 1
}
plan.program @second entry "step" role "b" arena_bytes 64 {
  %a = plan.buffer temporary offset 0 : !plan.buffer<tensor<4xf32>>
  %b = plan.buffer temporary offset 16 : !plan.buffer<tensor<8xf32>>
  // expected-error @below {{expected all_reduce sum of 16 bytes of f32 as collective 0 of [@mesh, ["data"]] in role 'b', but got all_reduce sum of 32 bytes of f32}}
  plan.collective_start all_reduce 0 reduction sum on @mesh ["data"] ins(%b : !plan.buffer<tensor<8xf32>>) outs(%b : !plan.buffer<tensor<8xf32>>)
  plan.collective_start all_reduce 1 reduction sum on @mesh ["data"] ins(%a : !plan.buffer<tensor<4xf32>>) outs(%a : !plan.buffer<tensor<4xf32>>)
  plan.collective_wait 0
  plan.collective_wait 1
}

// -----

// Different communicators and different entries have orders of their own.
plan.program @first entry "step" role "a" arena_bytes 64 {
  %a = plan.buffer temporary offset 0 : !plan.buffer<tensor<4xf32>>
  plan.collective_start all_reduce 0 reduction sum on @mesh ["data"] ins(%a : !plan.buffer<tensor<4xf32>>) outs(%a : !plan.buffer<tensor<4xf32>>)
  plan.collective_wait 0
  plan.collective_start all_reduce 1 reduction max on @mesh ["model"] ins(%a : !plan.buffer<tensor<4xf32>>) outs(%a : !plan.buffer<tensor<4xf32>>)
  plan.collective_wait 1
}
plan.program @second entry "step" role "b" arena_bytes 64 {
  %a = plan.buffer temporary offset 0 : !plan.buffer<tensor<4xf32>>
  plan.collective_start all_reduce 0 reduction max on @mesh ["model"] ins(%a : !plan.buffer<tensor<4xf32>>) outs(%a : !plan.buffer<tensor<4xf32>>)
  plan.collective_wait 0
  plan.collective_start all_reduce 1 reduction sum on @mesh ["data"] ins(%a : !plan.buffer<tensor<4xf32>>) outs(%a : !plan.buffer<tensor<4xf32>>)
  plan.collective_wait 1
}
plan.program @third entry "eval" role "a" arena_bytes 64 {
}

// -----

// A role that lacks a collective.
plan.program @first entry "step" role "a" arena_bytes 64 {
  %a = plan.buffer temporary offset 0 : !plan.buffer<tensor<4xf32>>
  plan.loop 2 {
    // expected-note @below {{role 'a' has it here}}
    plan.collective_start all_reduce 0 reduction sum on @mesh ["data"] ins(%a : !plan.buffer<tensor<4xf32>>) outs(%a : !plan.buffer<tensor<4xf32>>)
    plan.collective_wait 0
  }
}
// expected-error @below {{expected all_reduce sum of 16 bytes of f32 in a loop of 2 as collective 0 of [@mesh, ["data"]] in role 'b', but got no collective}}
plan.program @second entry "step" role "b" arena_bytes 64 {
}
