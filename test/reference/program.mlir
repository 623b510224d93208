// RUN: lockstep-interpret %s --print | FileCheck %s
// RUN: not lockstep-interpret %s --entry overlap 2>&1 | FileCheck %s --check-prefix=OVERLAP
// RUN: not lockstep-interpret %s --entry early 2>&1 | FileCheck %s --check-prefix=EARLY

// A scheduled program runs in the memory that it names, on all ranks.

dist.mesh @mesh ["data" = 2]

plan.kernel loop @double(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = train.add %x, %x : tensor<4xf32>
  plan.return %y : tensor<4xf32>
}

plan.kernel loop @reversed(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = train.reverse %x dims [0] : tensor<4xf32>
  plan.return %y : tensor<4xf32>
}

// CHECK: count : tensor<4xf32> = 4 4 4 4
plan.program @step entry "step" role "all" arena_bytes 64 {
  %x = plan.buffer persistent "count" role <buffer> offset 0 : !plan.buffer<tensor<4xf32>>
  %one = plan.buffer input "running_var" role <buffer> offset 32 : !plan.buffer<tensor<4xf32>>
  plan.launch @double ins(%one : !plan.buffer<tensor<4xf32>>) outs(%x : !plan.buffer<tensor<4xf32>>)
  plan.collective_start all_reduce 0 reduction sum on @mesh ["data"] ins(%x : !plan.buffer<tensor<4xf32>>) outs(%x : !plan.buffer<tensor<4xf32>>)
  plan.collective_wait 0
}

// OVERLAP: output 0 of segment 0 overlaps input 0 of segment 0, which @reversed does not allow
plan.program @overlap entry "overlap" role "all" arena_bytes 64 {
  %x = plan.buffer persistent "x" role <buffer> offset 0 : !plan.buffer<tensor<4xf32>>
  plan.launch @reversed ins(%x : !plan.buffer<tensor<4xf32>>) outs(%x : !plan.buffer<tensor<4xf32>>)
}

// EARLY: writes bytes 0 to 16 while collective 3 is under way there
plan.program @early entry "early" role "all" arena_bytes 64 {
  %x = plan.buffer persistent "x" role <buffer> offset 0 : !plan.buffer<tensor<4xf32>>
  %y = plan.buffer temporary offset 16 : !plan.buffer<tensor<4xf32>>
  plan.collective_start all_reduce 3 reduction sum on @mesh ["data"] ins(%x : !plan.buffer<tensor<4xf32>>) outs(%y : !plan.buffer<tensor<4xf32>>)
  plan.fill %x : !plan.buffer<tensor<4xf32>>
  plan.collective_wait 3
}
