// RUN: not lockstep-opt %s --lockstep-partition-bucket=topology=%root/docs/topologies/cpu-2-ranks.json 2>&1 | FileCheck %s
// RUN: not lockstep-opt %s --lockstep-partition-bucket=topology=no-such-file.json 2>&1 | FileCheck %s --check-prefix=MISSING

// CHECK: error: {{.*}}cpu-2-ranks.json: the topology has 2 devices, but 4 ranks are asked for; describe more hosts, or pass fewer --ranks
// MISSING: error: no-such-file.json
dist.mesh @mesh ["data" = 4]
