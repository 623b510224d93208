//===- PlanDialect.td - What every rank executes -----------*- tablegen -*-===//
#ifndef LOCKSTEP_DIALECTS_PLAN_PLANDIALECT_TD
#define LOCKSTEP_DIALECTS_PLAN_PLANDIALECT_TD

include "mlir/IR/OpBase.td"

def PlanDialect : Dialect {
  let name = "plan";
  let summary = "What every rank executes";
  let description = [{
    The `plan` dialect has two levels. **Kernels on values** (made by fuse, removed by schedule): `plan.kernel` holds a region of `train`
    operations that runs as one kernel, `plan.call` uses it on tensors, `plan.view` and `plan.join` say that values share memory.
    **Programs on memory** (made by schedule, removed by emit): `plan.program` lists, for the ranks of one role, buffers of the arena
    and the launches, collectives and loops on them in the order of execution. Emit translates it one to one into the artifact.
  }];
  let cppNamespace = "::lockstep::plan";
  let dependentDialects = ["::lockstep::train::TrainDialect"];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
}

#endif
