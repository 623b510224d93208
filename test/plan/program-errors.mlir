// RUN: lockstep-opt %s --split-input-file --verify-diagnostics

plan.program @outside entry "step" role "all" arena_bytes 64 {
  // expected-error @below {{(C1) expected to end within the arena of 64 bytes, but ends at 80}}
  %a = plan.buffer temporary offset 64 : !plan.buffer<tensor<4xf32>>
}

// -----

plan.program @loop_outside entry "step" role "all" arena_bytes 64 {
  plan.loop 4 {
    // expected-error @below {{(C1) expected to end within the arena of 64 bytes, but ends at 112}}
    %a = plan.buffer temporary offset 0 stride 32 : !plan.buffer<tensor<4xf32>>
  }
}

// -----

plan.program @no_wait entry "step" role "all" arena_bytes 64 {
  %a = plan.buffer temporary offset 0 : !plan.buffer<tensor<4xf32>>
  // expected-error @below {{(C2) expected a wait for collective 3}}
  plan.collective_start all_reduce 3 reduction sum on @mesh ["data"] ins(%a : !plan.buffer<tensor<4xf32>>) outs(%a : !plan.buffer<tensor<4xf32>>)
}

// -----

plan.program @no_start entry "step" role "all" arena_bytes 64 {
  // expected-error @below {{(C2) expected a collective in flight, but 3 is not}}
  plan.collective_wait 3
}

// -----

plan.program @twice entry "step" role "all" arena_bytes 64 {
  %a = plan.buffer temporary offset 0 : !plan.buffer<tensor<4xf32>>
  plan.collective_start all_reduce 3 reduction sum on @mesh ["data"] ins(%a : !plan.buffer<tensor<4xf32>>) outs(%a : !plan.buffer<tensor<4xf32>>)
  plan.collective_wait 3
  // expected-error @below {{(C2) expected distinct collective ids, but 3 starts twice}}
  plan.collective_start all_reduce 3 reduction sum on @mesh ["data"] ins(%a : !plan.buffer<tensor<4xf32>>) outs(%a : !plan.buffer<tensor<4xf32>>)
  plan.collective_wait 3
}

// -----

plan.program @alignment entry "step" role "all" arena_bytes 64 {
  // expected-error @below {{(C1) expected an offset that is a multiple of 4 and a stride that is not negative, but got 2 and 0}}
  %a = plan.buffer temporary offset 2 : !plan.buffer<tensor<4xf32>>
}

// -----

plan.program @nameless entry "step" role "all" arena_bytes 64 {
  // expected-error @below {{(C2) expected a name for a persistent buffer}}
  %a = plan.buffer persistent offset 0 : !plan.buffer<tensor<4xf32>>
}

// -----

plan.program @stride entry "step" role "all" arena_bytes 64 {
  // expected-error @below {{(C3) expected an iteration stride only in a loop}}
  %a = plan.buffer temporary offset 0 stride 16 : !plan.buffer<tensor<4xf32>>
}

// -----

plan.kernel loop @id(%x: tensor<4xf32>) -> tensor<4xf32> {
  plan.return %x : tensor<4xf32>
}
plan.program @segments entry "step" role "all" arena_bytes 64 {
  %a = plan.buffer temporary offset 0 : !plan.buffer<tensor<4xf32>>
  // expected-error @below {{(C1) expected segments that divide 1 inputs and 1 outputs, but got 2}}
  plan.launch @id segments 2 ins(%a : !plan.buffer<tensor<4xf32>>) outs(%a : !plan.buffer<tensor<4xf32>>)
}

// -----

plan.program @launch_unknown entry "step" role "all" arena_bytes 64 {
  // expected-error @below {{(C2) expected a plan.kernel, but 'missing' is none}}
  plan.launch @missing
}

// -----

plan.program @no_reduction entry "step" role "all" arena_bytes 64 {
  %a = plan.buffer temporary offset 0 : !plan.buffer<tensor<4xf32>>
  // expected-error @below {{(C2) expected a reduction exactly for all_reduce and reduce_scatter}}
  plan.collective_start all_reduce 0 on @mesh ["data"] ins(%a : !plan.buffer<tensor<4xf32>>) outs(%a : !plan.buffer<tensor<4xf32>>)
  plan.collective_wait 0
}

// -----

plan.program @reduction_kind entry "step" role "all" arena_bytes 64 {
  %a = plan.buffer temporary offset 0 : !plan.buffer<tensor<4xf32>>
  // expected-error @below {{(C2) expected sum, max or min, but got product}}
  plan.collective_start all_reduce 0 reduction product on @mesh ["data"] ins(%a : !plan.buffer<tensor<4xf32>>) outs(%a : !plan.buffer<tensor<4xf32>>)
  plan.collective_wait 0
}

// -----

plan.program @counts entry "step" role "all" arena_bytes 64 {
  %a = plan.buffer temporary offset 0 : !plan.buffer<tensor<4xf32>>
  // expected-error @below {{(C1) expected as many inputs as outputs, but got 1 and 0}}
  plan.collective_start all_reduce 0 reduction sum on @mesh ["data"] ins(%a : !plan.buffer<tensor<4xf32>>)
  plan.collective_wait 0
}

// -----

plan.program @element_types entry "step" role "all" arena_bytes 64 {
  %a = plan.buffer temporary offset 0 : !plan.buffer<tensor<4xf32>>
  %b = plan.buffer temporary offset 0 : !plan.buffer<tensor<4xi32>>
  // expected-error @below {{(C1) expected one element type, but got 'tensor<4xf32>' and 'tensor<4xi32>'}}
  plan.collective_start all_reduce 0 reduction sum on @mesh ["data"] ins(%a : !plan.buffer<tensor<4xf32>>) outs(%b : !plan.buffer<tensor<4xi32>>)
  plan.collective_wait 0
}

// -----

plan.program @sizes entry "step" role "all" arena_bytes 64 {
  %a = plan.buffer temporary offset 0 : !plan.buffer<tensor<4xf32>>
  %b = plan.buffer temporary offset 16 : !plan.buffer<tensor<6xf32>>
  // expected-error @below {{(C1) expected sizes that fit all_gather, but got 'tensor<4xf32>' and 'tensor<6xf32>'}}
  plan.collective_start all_gather 0 on @mesh ["data"] ins(%a : !plan.buffer<tensor<4xf32>>) outs(%b : !plan.buffer<tensor<6xf32>>)
  plan.collective_wait 0
}

// -----

plan.program @no_steps entry "step" role "all" arena_bytes 64 {
  // expected-error @below {{(C1) expected at least 1 step, but got 0}}
  plan.loop 0 {
  }
}

// -----

plan.program @copy_sizes entry "step" role "all" arena_bytes 64 {
  %a = plan.buffer temporary offset 0 : !plan.buffer<tensor<4xf32>>
  %b = plan.buffer temporary offset 16 : !plan.buffer<tensor<6xf32>>
  // expected-error @below {{(C1) expected buffers of one size, but got 16 and 24 bytes}}
  plan.copy %a to %b : !plan.buffer<tensor<4xf32>>, !plan.buffer<tensor<6xf32>>
}

// -----

plan.program @copy_overlap entry "step" role "all" arena_bytes 64 {
  %a = plan.buffer temporary offset 0 : !plan.buffer<tensor<4xf32>>
  %b = plan.buffer temporary offset 8 : !plan.buffer<tensor<4xf32>>
  // expected-error @below {{(C1) expected buffers that do not overlap, but got offsets 0 and 8}}
  plan.copy %a to %b : !plan.buffer<tensor<4xf32>>, !plan.buffer<tensor<4xf32>>
}

// -----

// expected-error @below {{expected a static shape without encoding}}
func.func private @dynamic(!plan.buffer<tensor<?xf32>>)

// -----

// expected-error @below {{expected integers or floats}}
func.func private @index(!plan.buffer<tensor<4xindex>>)
