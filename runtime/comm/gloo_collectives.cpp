#include "runtime/comm/gloo_collectives.h"
#include "runtime/comm/gloo_channel.h"

#include <condition_variable>
#include <deque>
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

using Context = GlooChannel::Context;

/// Up to this size a collective is small: it takes its latency, not more.
constexpr int64_t smallBytes = 64 * 1024;

/// Collectives that are performed one after another, over connections of their
/// own.
struct Lane {
  GlooChannel channel;
  std::deque<Collective> queue;
  bool busy = false; ///< one is being performed
  std::condition_variable queued, finished;
  std::thread thread;
};

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
  void work(Lane &lane);
  void performFirst(Lane &lane, std::unique_lock<std::mutex> &lock);
  Lane &laneOf(const Collective &collective);

  int ownRank, rankCount;
  std::shared_ptr<gloo::transport::Device> device;

  std::mutex mutex;
  /// Small ones of communicators that also have large ones, and all others.
  Lane small, others;
  std::multimap<uint32_t, Lane *> unfinished; ///< by id
  Status failure;
  bool closing = false;
};

GlooCollectives::~GlooCollectives() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    closing = true;
  }
  for (Lane *lane : {&small, &others}) {
    lane->queued.notify_all();
    if (lane->thread.joinable())
      lane->thread.join();
  }
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

/// Which sizes of collectives the communicators have.
struct Sizes {
  std::set<uint32_t> small, large;

  using Instructions = std::vector<std::unique_ptr<artifact::InstructionT>>;
  void add(const Instructions &instructions) {
    for (const auto &instruction : instructions) {
      if (const auto *start = instruction->operation.AsCollectiveStart()) {
        int64_t bytes = 0;
        for (size_t i = 0; i < start->inputs.size(); ++i)
          bytes +=
              std::max(start->inputs[i].bytes(), start->outputs[i].bytes());
        (bytes <= smallBytes ? small : large).insert(start->communicator);
      } else if (const auto *loop = instruction->operation.AsLoop()) {
        add(loop->body);
      }
    }
  }
};

void GlooCollectives::connect(const artifact::PlanT &plan,
                              ControlClient &control) {
  gloo::transport::tcp::attr attributes;
  attributes.hostname = control.localAddress();
  device = gloo::transport::tcp::CreateDevice(attributes);
  std::vector<uint32_t> all(static_cast<size_t>(rankCount));
  for (size_t i = 0; i < all.size(); ++i)
    all[i] = uint32_t(i);
  Context world = makeContext(all, "world/", control);
  others.channel.add(worldIndex, world);
  Sizes sizes;
  for (const auto &program : plan.programs)
    sizes.add(program->instructions);
  for (uint32_t c = 0; c < plan.communicators.size(); ++c)
    for (size_t g = 0; g < plan.communicators[c]->groups.size(); ++g) {
      const auto &members = plan.communicators[c]->groups[g]->ranks;
      std::string name = std::to_string(c) + "." + std::to_string(g) + "/";
      // A lane runs everything in order, so its communicators can share
      // contexts.
      others.channel.add(
          c, members == all ? world : makeContext(members, name, control));
      if (sizes.small.count(c) && sizes.large.count(c))
        small.channel.add(c, makeContext(members, "small/" + name, control));
    }
  for (Lane *lane : {&small, &others})
    lane->thread = std::thread([this, lane] { work(*lane); });
}

Lane &GlooCollectives::laneOf(const Collective &collective) {
  int64_t bytes = 0;
  for (const CollectiveRange &range : collective.ranges)
    bytes += std::max(range.inputBytes, range.outputBytes);
  return bytes <= smallBytes && small.channel.has(collective.communicator)
             ? small
             : others;
}

void GlooCollectives::start(Collective collective) {
  Lane &lane = laneOf(collective);
  bool wakes = !collective.awaitedNext;
  {
    std::lock_guard<std::mutex> lock(mutex);
    unfinished.insert({collective.id, &lane});
    lane.queue.push_back(std::move(collective));
  }
  if (wakes)
    lane.queued.notify_one();
}

/// A thread that has nothing else to do than to wait runs what is queued
/// itself: that saves two switches between threads when nothing overlaps.
Status GlooCollectives::wait(uint32_t id) {
  std::unique_lock<std::mutex> lock(mutex);
  for (;;) {
    auto found = unfinished.find(id);
    if (found == unfinished.end() || !failure.ok())
      return failure;
    Lane &lane = *found->second;
    if (!lane.busy && !lane.queue.empty())
      performFirst(lane, lock);
    else
      lane.finished.wait(lock);
  }
}

Status GlooCollectives::broadcast(void *data, int64_t bytes, int root) {
  Collective collective;
  collective.id = runtimeId;
  collective.kind = artifact::CollectiveKind::Broadcast;
  collective.communicator = worldIndex;
  collective.dtype = artifact::DType::U8;
  collective.root = uint32_t(root);
  collective.ranges = {{data, data, bytes, bytes}};
  collective.awaitedNext = true;
  start(std::move(collective));
  return wait(runtimeId);
}

Status GlooCollectives::barrier() {
  Collective collective;
  collective.id = runtimeId;
  collective.kind = artifact::CollectiveKind::Barrier;
  collective.communicator = worldIndex;
  collective.awaitedNext = true;
  start(std::move(collective));
  return wait(runtimeId);
}

void GlooCollectives::work(Lane &lane) {
  std::unique_lock<std::mutex> lock(mutex);
  for (;;) {
    lane.queued.wait(lock, [&] {
      return closing || !failure.ok() || (!lane.queue.empty() && !lane.busy);
    });
    if (closing || !failure.ok())
      return;
    performFirst(lane, lock);
  }
}

/// Runs the first collective of the queue, without the lock. One at a time, so
/// their order is that of the starts.
void GlooCollectives::performFirst(Lane &lane,
                                   std::unique_lock<std::mutex> &lock) {
  lane.busy = true;
  Collective collective = std::move(lane.queue.front());
  lane.queue.pop_front();
  lock.unlock();
  Status status;
  try {
    lane.channel.perform(collective);
  } catch (const std::exception &error) {
    status = rankLost("collective '" + collective.name +
                      "' failed: " + error.what());
  }
  lock.lock();
  lane.busy = false;
  unfinished.erase(unfinished.find(collective.id));
  lane.finished.notify_all();
  if (!lane.queue.empty())
    lane.queued.notify_one();
  if (status.ok() || !failure.ok())
    return;
  failure = std::move(status);
  for (Lane *each : {&small, &others}) {
    each->queued.notify_all();
    each->finished.notify_all();
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
