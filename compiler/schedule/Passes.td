//===- Passes.td - Passes of the schedule stage ------------*- tablegen -*-===//
#ifndef LOCKSTEP_COMPILER_SCHEDULE_PASSES
#define LOCKSTEP_COMPILER_SCHEDULE_PASSES

include "mlir/Pass/PassBase.td"

def ScheduleRecomputePass : Pass<"lockstep-schedule-recompute", "::mlir::ModuleOp"> {
  let summary = "Computes saved values again where the arena is larger than the memory limit";
  let description = [{
    A value that is alive where a function needs most memory, and is read on both sides of it, is computed again for the later readers:
    by the part of its kernel that leads to it from that kernel's arguments and from other results that are kept (an activation from its saved input, a
    norm from its input and statistics), or by the whole kernel (products, attention). What that reads and would be gone is computed again, too. Values are
    chosen by bytes freed per predicted second, until the function fits, and no more of them than needed. A loop kernel that reads the same
    tensors anyway gives the value instead of a call of its own, as far as that fits. Calls get `plan.recomputed`: schedule runs
    them no earlier than what else their reader waits for. The function says in `plan.recompute` how many calls were added, how many values other
    kernels give, how many bytes less it needs, and the predicted seconds. Example: test/schedule/recompute.mlir.
  }];
  let dependentDialects = ["::lockstep::plan::PlanDialect", "::lockstep::train::TrainDialect"];
  let options = [Option<"memoryLimit", "memory-limit", "int64_t", "0", "Bytes of the arena per rank; 0: no limit">,
                 Option<"gpu", "gpu", "bool", "false", "Predict times of a GPU instead of a processor core">];
}

def ScheduleProgramsPass : Pass<"lockstep-schedule-programs", "::mlir::ModuleOp"> {
  let summary = "Orders kernel calls, places every value in one arena, and writes the programs";
  let description = [{
    Each function becomes a `plan.program`. Calls are ordered by list scheduling: collectives start right after their last input is computed and are
    waited for before their first use, which is put off while other work is ready; of two orders (the given one, and one that frees
    memory early) the one with the lower peak is taken. Values whose lifetimes do not meet share memory, new parameters replace the old ones in
    place, the inputs of a bucket are neighbours. Persistent tensors, inputs and scalars have one place in all programs. Without an order that
    fits `memory-limit` the pass fails and lists what takes most. Example: test/schedule/programs.mlir.
  }];
  let dependentDialects = ["::lockstep::plan::PlanDialect"];
  let options = [Option<"memoryLimit", "memory-limit", "int64_t", "0", "Bytes of the arena per rank; 0: no limit">];
}

def ScheduleVerifyCollectiveOrderPass : Pass<"lockstep-schedule-verify-collective-order", "::mlir::ModuleOp"> {
  let summary = "Proves that all roles start the collectives of a communicator in the same order";
  let description = [{
    For each entry and each communicator (a mesh and the axes), the programs of all roles must start the same sequence of collectives: equal in kind, reduction,
    element type and bytes. Ranks of one role run one program, so the proof costs as much as there are roles.
    Example: test/schedule/collective-order-errors.mlir.
  }];
}

def ScheduleVerifyOutputPass : Pass<"lockstep-schedule-verify-output", "::mlir::ModuleOp"> {
  let summary = "Verifies that only kernels, programs and meshes are left";
  let description = [{
    What emit relies on. Example: test/schedule/verify-output-errors.mlir.
  }];
}

#endif
