// Gloo's connections between ranks, and how a collective of a plan is made of
// Gloo's calls. A channel performs one collective at a time; two channels have
// nothing in common, so that each may be used by a thread of its own.
#ifndef LOCKSTEP_RUNTIME_COMM_GLOO_CHANNEL_H
#define LOCKSTEP_RUNTIME_COMM_GLOO_CHANNEL_H

#include "runtime/comm/collectives.h"

#include <gloo/rendezvous/context.h>
#include <map>
#include <memory>

namespace lockstep::runtime {

class GlooChannel {
public:
  using Context = std::shared_ptr<gloo::rendezvous::Context>;

  /// Null contexts are of communicators that this rank is not in.
  void add(uint32_t communicator, Context context) {
    if (context)
      contexts[communicator] = std::move(context);
  }
  bool has(uint32_t communicator) const { return contexts.count(communicator); }

  /// Nothing for a communicator without a context. Throws what Gloo throws.
  void perform(const Collective &collective);

private:
  void performRange(const Collective &c, const CollectiveRange &range,
                    const Context &context);
  void allReduce(const Collective &c, const void *input, void *output,
                 int64_t bytes, const Context &context);
  void allGather(const void *input, int64_t inputBytes, void *output,
                 int64_t outputBytes, const Context &context);
  void exchangeAndReduce(const Collective &c, const void *input, void *output,
                         int64_t bytes, const Context &context);

  std::map<uint32_t, Context> contexts; ///< of the communicators we are in
  std::vector<uint8_t> scratch, gathered;
};

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_COMM_GLOO_CHANNEL_H
