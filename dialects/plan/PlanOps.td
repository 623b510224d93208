//===- PlanOps.td - All operations of the plan dialect -----*- tablegen -*-===//
#ifndef LOCKSTEP_DIALECTS_PLAN_PLANOPS_TD
#define LOCKSTEP_DIALECTS_PLAN_PLANOPS_TD

include "dialects/plan/PlanKernelOps.td"
include "dialects/plan/PlanProgramOps.td"

#endif
