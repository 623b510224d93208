// Collectives over Gloo's TCP transport, which connects through the control
// server. A thread runs them in the order of their starts, since Gloo's calls
// block; small ones, for which the computation often waits, have a thread and
// connections of their own, so that they never stand behind a bucket of
// gradients. Which one is small depends on the plan alone, so the order on each
// connection is the same on all ranks. What is awaited as soon as it has
// started runs on the thread that waits.
//
//   all_reduce      up to 16 KiB on 4 ranks or fewer an all_gather, reduced by
//                   every rank; up to 512 KiB on 2^k ranks Gloo's hypercube: 2
//                   log2 n steps, 2 (n-1)/n of the bytes on each rank's wire;
//                   else Gloo's ring: 2 (n-1) steps, the same bytes
//   all_gather      Gloo's ring: n-1 steps, (n-1)/n of the output's bytes
//   reduce_scatter  an all_reduce into scratch, then a copy of the own part
//                   (this Gloo has no plain one)
//   broadcast       Gloo's binomial tree: log2 n steps
#ifndef LOCKSTEP_RUNTIME_COMM_GLOO_COLLECTIVES_H
#define LOCKSTEP_RUNTIME_COMM_GLOO_COLLECTIVES_H

#include "runtime/comm/collectives.h"
#include "runtime/comm/control_client.h"

namespace lockstep::runtime {

/// Connects all ranks with each other, for every communicator of the plan that
/// this rank is a member of. Errors: a rank was lost on the way.
StatusOr<std::unique_ptr<Collectives>>
createGlooCollectives(const artifact::PlanT &plan, int rank,
                      ControlClient &control);

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_COMM_GLOO_COLLECTIVES_H
