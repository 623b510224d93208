#include "runtime/comm/gloo_channel.h"
#include "runtime/artifact/types.h"

#include <cstring>
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>

namespace lockstep::runtime {

/// Up to this size an all_reduce goes over the hypercube, beyond it on the
/// ring.
static constexpr int64_t cubeBytes = 512 * 1024;

/// Up to this size, among so few ranks, each sends all it has to each other:
/// then latency is everything.
static constexpr int64_t exchangedBytes = 16 * 1024;
static constexpr int fewRanks = 4;

/// Calls body(T()) with a type of `bytes` bytes: Gloo moves elements by size.
template <typename Body> static void withElement(int64_t bytes, Body body) {
  switch (bytes) {
  case 1:
    return body(uint8_t());
  case 2:
    return body(uint16_t());
  case 4:
    return body(uint32_t());
  default:
    return body(uint64_t());
  }
}

static ReduceFunction getFunction(const Collective &c) {
  ReduceFunction function = reduceFunction(c.dtype, c.reduction);
  if (!function)
    throw gloo::InvalidOperationException(
        "elements of type " + nameOf(c.dtype) + " cannot be reduced");
  return function;
}

void GlooChannel::perform(const Collective &collective) {
  auto found = contexts.find(collective.communicator);
  if (found == contexts.end())
    return; // not a member
  if (collective.kind == artifact::CollectiveKind::Barrier) {
    gloo::BarrierOptions options(found->second);
    gloo::barrier(options);
    return;
  }
  for (const CollectiveRange &range : collective.ranges)
    performRange(collective, range, found->second);
}

void GlooChannel::allReduce(const Collective &c, const void *input,
                            void *output, int64_t bytes,
                            const Context &context) {
  ReduceFunction function = getFunction(c);
  int64_t size = sizeOf(c.dtype);
  if (context->size <= fewRanks && bytes <= exchangedBytes)
    return exchangeAndReduce(c, input, output, bytes, context);
  withElement(size, [&](auto element) {
    using T = decltype(element);
    gloo::AllreduceOptions options(context);
    options.setInput(static_cast<T *>(const_cast<void *>(input)),
                     size_t(bytes / size));
    options.setOutput(static_cast<T *>(output), size_t(bytes / size));
    // Fewer, larger messages: measured faster on a busy machine up to here.
    bool powerOfTwo = (context->size & (context->size - 1)) == 0;
    if (powerOfTwo && bytes <= cubeBytes)
      options.setAlgorithm(gloo::AllreduceOptions::Algorithm::BCUBE);
    options.setReduceFunction(function);
    gloo::allreduce(options);
  });
}

void GlooChannel::allGather(const void *input, int64_t inputBytes, void *output,
                            int64_t outputBytes, const Context &context) {
  gloo::AllgatherOptions options(context);
  options.setInput(static_cast<uint8_t *>(const_cast<void *>(input)),
                   size_t(inputBytes));
  options.setOutput(static_cast<uint8_t *>(output), size_t(outputBytes));
  gloo::allgather(options);
}

/// Every rank sends all that it has to the others at once and reduces on its
/// own, in the order of ranks: half of the messages that follow upon another.
void GlooChannel::exchangeAndReduce(const Collective &c, const void *input,
                                    void *output, int64_t bytes,
                                    const Context &context) {
  ReduceFunction function = getFunction(c);
  gathered.resize(size_t(bytes) * size_t(context->size));
  allGather(input, bytes, gathered.data(), int64_t(gathered.size()), context);
  size_t count = size_t(bytes / sizeOf(c.dtype));
  std::memcpy(output, gathered.data(), size_t(bytes));
  for (int rank = 1; rank < context->size; ++rank)
    function(output, output, gathered.data() + size_t(rank) * size_t(bytes),
             count);
}

void GlooChannel::performRange(const Collective &c,
                               const CollectiveRange &range,
                               const Context &context) {
  using Kind = artifact::CollectiveKind;
  if (!range.inputBytes)
    return;
  if (context->size == 1) {
    if (range.output != range.input)
      std::memcpy(range.output, range.input, size_t(range.inputBytes));
    return;
  }
  auto *input = static_cast<uint8_t *>(const_cast<void *>(range.input));
  auto *output = static_cast<uint8_t *>(range.output);
  switch (c.kind) {
  case Kind::AllReduce:
    return allReduce(c, input, output, range.inputBytes, context);
  case Kind::AllGather:
    return allGather(input, range.inputBytes, output, range.outputBytes,
                     context);
  case Kind::ReduceScatter: {
    scratch.resize(size_t(range.inputBytes));
    allReduce(c, input, scratch.data(), range.inputBytes, context);
    std::memcpy(output, scratch.data() + context->rank * range.outputBytes,
                size_t(range.outputBytes));
    return;
  }
  case Kind::Broadcast: {
    gloo::BroadcastOptions options(context);
    if (context->rank == int(c.root))
      options.setInput(input, size_t(range.inputBytes));
    options.setOutput(output, size_t(range.outputBytes));
    options.setRoot(int(c.root));
    return gloo::broadcast(options);
  }
  case Kind::Barrier:
    return;
  }
}

} // namespace lockstep::runtime
