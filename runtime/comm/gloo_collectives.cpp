#include "runtime/comm/gloo_collectives.h"
#include "runtime/artifact/types.h"

#include <condition_variable>
#include <cstring>
#include <deque>
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/rendezvous/context.h>
#include <gloo/transport/tcp/device.h>
#include <mutex>
#include <set>
#include <thread>

namespace lockstep::runtime {

namespace {

/// Ids of collectives outside programs.
constexpr uint32_t runtimeId = UINT32_MAX;
/// Index of the communicator of all ranks, which no plan names.
constexpr uint32_t worldIndex = UINT32_MAX;

/// Up to this size an all_reduce goes over the hypercube, beyond it on the
/// ring.
constexpr int64_t cubeBytes = 512 * 1024;

/// A lost rank is found by the control server, so Gloo shall wait.
constexpr std::chrono::milliseconds patience = std::chrono::hours(24 * 7);

/// Gloo's store, served by the control server.
class ControlStore final : public gloo::rendezvous::Store {
public:
  ControlStore(ControlClient &control, std::string prefix)
      : control(control), prefix(std::move(prefix)) {}
  void set(const std::string &key, const std::vector<char> &data) override {
    check(control.set(prefix + key, std::string(data.begin(), data.end())));
  }
  std::vector<char> get(const std::string &key) override {
    StatusOr<std::string> value = control.get(prefix + key);
    if (!value.ok())
      check(value.status());
    return {value->begin(), value->end()};
  }
  void wait(const std::vector<std::string> &keys) override {
    for (const std::string &key : keys)
      get(key);
  }
  void wait(const std::vector<std::string> &keys,
            const std::chrono::milliseconds &) override {
    wait(keys);
  }

private:
  static void check(const Status &status) {
    if (!status.ok())
      throw gloo::IoException(status.toString());
  }
  ControlClient &control;
  std::string prefix;
};

using Context = std::shared_ptr<gloo::rendezvous::Context>;

/// Calls body(T()) with a type of `bytes` bytes: Gloo moves elements by size.
template <typename Body> void withElement(int64_t bytes, Body body) {
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

class GlooCollectives final : public Collectives {
public:
  GlooCollectives(int rank, int ranks) : ownRank(rank), rankCount(ranks) {}
  ~GlooCollectives() override;

  /// Throws what Gloo throws.
  void connect(const artifact::PlanT &plan, ControlClient &control);

  int rank() const override { return ownRank; }
  int ranks() const override { return rankCount; }
  void start(Collective collective) override;
  Status wait(uint32_t id) override;
  Status broadcast(void *data, int64_t bytes, int root) override;
  Status barrier() override;

private:
  Context makeContext(const std::vector<uint32_t> &members,
                      const std::string &prefix, ControlClient &control);
  void work();
  void performFirst(std::unique_lock<std::mutex> &lock);
  void perform(const Collective &collective);
  void performRange(const Collective &c, const CollectiveRange &range,
                    const Context &context);
  void allReduce(const Collective &c, const void *input, void *output,
                 int64_t bytes, const Context &context);

  int ownRank, rankCount;
  std::shared_ptr<gloo::transport::Device> device;
  std::map<uint32_t, Context> contexts; ///< of the communicators we are in
  std::vector<uint8_t> scratch;

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Collective> queue;
  std::multiset<uint32_t> unfinished;
  Status failure;
  bool busy = false; ///< a collective is being performed
  bool closing = false;
  std::thread thread;
};

GlooCollectives::~GlooCollectives() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    closing = true;
  }
  changed.notify_all();
  if (thread.joinable())
    thread.join();
}

Context GlooCollectives::makeContext(const std::vector<uint32_t> &members,
                                     const std::string &prefix,
                                     ControlClient &control) {
  for (size_t i = 0; i < members.size(); ++i) {
    if (int(members[i]) != ownRank)
      continue;
    auto context = std::make_shared<gloo::rendezvous::Context>(
        int(i), int(members.size()));
    context->setTimeout(patience);
    ControlStore store(control, prefix);
    context->connectFullMesh(store, device);
    return context;
  }
  return nullptr;
}

void GlooCollectives::connect(const artifact::PlanT &plan,
                              ControlClient &control) {
  gloo::transport::tcp::attr attributes;
  attributes.hostname = control.localAddress();
  device = gloo::transport::tcp::CreateDevice(attributes);
  std::vector<uint32_t> all(static_cast<size_t>(rankCount));
  for (size_t i = 0; i < all.size(); ++i)
    all[i] = uint32_t(i);
  Context world = makeContext(all, "world/", control);
  contexts[worldIndex] = world;
  for (uint32_t c = 0; c < plan.communicators.size(); ++c)
    for (size_t g = 0; g < plan.communicators[c]->groups.size(); ++g) {
      const auto &members = plan.communicators[c]->groups[g]->ranks;
      // Everything runs in order on one thread, so contexts can be shared.
      Context context =
          members == all
              ? world
              : makeContext(members,
                            std::to_string(c) + "." + std::to_string(g) + "/",
                            control);
      if (context)
        contexts[c] = context;
    }
  thread = std::thread([this] { work(); });
}

void GlooCollectives::start(Collective collective) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    unfinished.insert(collective.id);
    queue.push_back(std::move(collective));
  }
  changed.notify_all();
}

/// A thread that has nothing else to do than to wait runs what is queued
/// itself: that saves two switches between threads when nothing overlaps.
Status GlooCollectives::wait(uint32_t id) {
  std::unique_lock<std::mutex> lock(mutex);
  while (unfinished.count(id) && failure.ok()) {
    if (!busy && !queue.empty())
      performFirst(lock);
    else
      changed.wait(lock);
  }
  return failure;
}

Status GlooCollectives::broadcast(void *data, int64_t bytes, int root) {
  Collective collective;
  collective.id = runtimeId;
  collective.kind = artifact::CollectiveKind::Broadcast;
  collective.communicator = worldIndex;
  collective.dtype = artifact::DType::U8;
  collective.root = uint32_t(root);
  collective.ranges = {{data, data, bytes, bytes}};
  start(std::move(collective));
  return wait(runtimeId);
}

Status GlooCollectives::barrier() {
  Collective collective;
  collective.id = runtimeId;
  collective.kind = artifact::CollectiveKind::Barrier;
  collective.communicator = worldIndex;
  start(std::move(collective));
  return wait(runtimeId);
}

void GlooCollectives::work() {
  std::unique_lock<std::mutex> lock(mutex);
  for (;;) {
    changed.wait(lock, [&] {
      return closing || !failure.ok() || (!queue.empty() && !busy);
    });
    if (closing || !failure.ok())
      return;
    performFirst(lock);
  }
}

/// Runs the first collective of the queue, without the lock. One at a time, so
/// their order is that of the starts.
void GlooCollectives::performFirst(std::unique_lock<std::mutex> &lock) {
  busy = true;
  Collective collective = std::move(queue.front());
  queue.pop_front();
  lock.unlock();
  Status status;
  try {
    perform(collective);
  } catch (const std::exception &error) {
    status = rankLost("collective '" + collective.name +
                      "' failed: " + error.what());
  }
  lock.lock();
  busy = false;
  if (!status.ok() && failure.ok())
    failure = std::move(status);
  unfinished.erase(unfinished.find(collective.id));
  changed.notify_all();
}

void GlooCollectives::perform(const Collective &collective) {
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

void GlooCollectives::allReduce(const Collective &c, const void *input,
                                void *output, int64_t bytes,
                                const Context &context) {
  ReduceFunction function = reduceFunction(c.dtype, c.reduction);
  if (!function)
    throw gloo::InvalidOperationException(
        "elements of type " + nameOf(c.dtype) + " cannot be reduced");
  int64_t size = sizeOf(c.dtype);
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

void GlooCollectives::performRange(const Collective &c,
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
  case Kind::AllGather: {
    gloo::AllgatherOptions options(context);
    options.setInput(input, size_t(range.inputBytes));
    options.setOutput(output, size_t(range.outputBytes));
    return gloo::allgather(options);
  }
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

} // namespace

StatusOr<std::unique_ptr<Collectives>>
createGlooCollectives(const artifact::PlanT &plan, int rank,
                      ControlClient &control) {
  auto collectives = std::make_unique<GlooCollectives>(rank, int(plan.ranks));
  try {
    collectives->connect(plan, control);
  } catch (const std::exception &error) {
    return rankLost(std::string("cannot connect the ranks: ") + error.what());
  }
  return std::unique_ptr<Collectives>(std::move(collectives));
}

} // namespace lockstep::runtime
