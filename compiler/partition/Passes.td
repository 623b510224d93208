//===- Passes.td - Passes of the stage partition -----------*- tablegen -*-===//
#ifndef LOCKSTEP_COMPILER_PARTITION_PASSES_TD
#define LOCKSTEP_COMPILER_PARTITION_PASSES_TD

include "mlir/Pass/PassBase.td"

class Partition_Pass<string flag> : Pass<"lockstep-partition-" # flag, "::mlir::ModuleOp"> {
  let dependentDialects = ["::lockstep::train::TrainDialect", "::lockstep::dist::DistDialect", "::mlir::func::FuncDialect"];
}

def DataParallelPass : Partition_Pass<"data-parallel"> {
  let summary = "Chooses the strategy: the batch is divided over all ranks, everything else is whole";
  let description = [{
    Creates `dist.mesh @mesh ["data" = ranks]`, and for every function whose arguments have roles sets `dist.sharding` on the arguments that hold
    the batch (dimension 0 of inputs and labels that are not `train.whole`) and on the results that must be whole (everything but
    outputs). With one rank nothing is divided. A batch that is not divisible by ranks times accumulation steps is an error.

    Another strategy is another pass in this place: what follows knows axes and dimensions, not this choice.

    Example: test/partition/data-parallel.mlir.
  }];
  let options = [Option<"ranks", "ranks", "int64_t", "1", "Ranks to compile for">];
}

def PropagatePass : Partition_Pass<"propagate"> {
  let summary = "Finds how every operation is divided, from the shardings of arguments and results";
  let description = [{
    Sharding rules by factors (dialects/train/ShardingRule.h), forward and then backward; see compiler/sharding/Propagation.h. Composites whose inner
    dimension is divided are expanded. Leaves `dist.operand_shardings` and `dist.result_shardings` on operations.

    Example: test/partition/propagate.mlir.
  }];
}

def LocalizePass : Partition_Pass<"localize"> {
  let summary = "Rewrites global shapes to those of one rank, with collectives where shardings differ";
  let description = [{
    Needs the attributes of lockstep-partition-propagate, and removes them. An all_gather or all_to_all is reported by a remark that names the operation that
    needs it.

    Example: test/partition/localize.mlir.
  }];
}

def BucketPass : Partition_Pass<"bucket"> {
  let summary = "Joins all-reduces into buckets sized by the network's latency and bandwidth";
  let description = [{
    All-reduces over the same axes, of one kind and element type, whose results are not needed before the last of them is ready, may share a message. For the
    order in which they become ready (times from the cost model), the dynamic program

        C(j) = min over i < j of max(C(i), r_j) + T(S_j - S_i)

    finds the buckets that finish first, where r_j is the time at which value j is ready, S the prefix sums of bytes, and T the
    topology's time of an all-reduce. Added is the computing that messages take away while they run: all of it on a CPU, 15 % on a GPU. The last buckets are small, since nothing hides them; those before are as large as is hidden anyway.
    Values that a later collective depends on, and so the computation waits for, share no message with values that only the update reads.

    Example: test/partition/bucket.mlir.
  }];
  let options = [
    Option<"topology", "topology", "std::string", "\"\"", "Topology file; empty: one box of CPU ranks">,
    Option<"maxBytes", "max-bytes", "int64_t", "268435456", "Largest bucket, in bytes">];
}

def VerifyPartitionOutputPass : Partition_Pass<"verify-output"> {
  let summary = "Checks that no shardings are left and that every rank issues the same collectives";
  let description = [{
    The boundary of the stage: no type has a sharding as encoding and no attribute of propagation is left; every collective is in straight-line code or in the
    body of `train.accumulate`, which runs equally often on all ranks. So all ranks, which run one program, issue
    the collectives of each communicator in the same order.

    Example: test/partition/verify-output.mlir.
  }];
}

#endif
