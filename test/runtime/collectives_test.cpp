// Collectives over Gloo, with the ranks as threads of one process.
#include "runtime/comm/gloo_collectives.h"
#include "runtime/support/half.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <future>

using namespace lockstep;
using namespace lockstep::runtime;

namespace {

constexpr uint32_t kLarge = 1, kSmall = 2;
constexpr size_t kLargeCount = 1 << 18, kSmallCount = 100;

/// All-reduces of a large and a small value over all ranks.
artifact::PlanT makePlan(int ranks) {
  artifact::PlanT plan;
  plan.ranks = uint32_t(ranks);
  plan.communicators.push_back(std::make_unique<artifact::CommunicatorT>());
  plan.communicators[0]->groups.push_back(
      std::make_unique<artifact::RankGroupT>());
  for (int rank = 0; rank < ranks; ++rank)
    plan.communicators[0]->groups[0]->ranks.push_back(uint32_t(rank));
  plan.programs.push_back(std::make_unique<artifact::ProgramT>());
  for (auto [id, count] :
       {std::pair(kLarge, kLargeCount), std::pair(kSmall, kSmallCount)}) {
    artifact::CollectiveStartT start;
    start.id = id;
    start.inputs.emplace_back(0, int64_t(count * 4), 0);
    start.outputs = start.inputs;
    auto instruction = std::make_unique<artifact::InstructionT>();
    instruction->operation.Set(std::move(start));
    plan.programs[0]->instructions.push_back(std::move(instruction));
  }
  return plan;
}

template <typename T>
Collective makeSum(uint32_t id, artifact::DType dtype, std::vector<T> &values) {
  Collective collective;
  collective.id = id;
  collective.dtype = dtype;
  collective.name = "sum";
  auto bytes = int64_t(values.size() * sizeof(T));
  collective.ranges = {{values.data(), values.data(), bytes, bytes}};
  return collective;
}

/// A control server on some free port, and what its clients need to know.
struct Served {
  explicit Served(int ranks) {
    StatusOr<Socket> listener = Socket::listen(0);
    REQUIRE(listener.ok());
    identity.ranks = ranks;
    identity.basePort = listener->localPort();
    server = std::make_unique<ControlServer>(std::move(*listener), identity,
                                             ControlTimeouts());
  }
  auto join(int rank, std::function<void(int, const std::string &)> end) {
    return ControlClient::join("127.0.0.1", identity.basePort, 1, rank,
                               identity, {},
                               {std::move(end), [] { return RankPosition(); }});
  }

  RunIdentity identity;
  std::unique_ptr<ControlServer> server;
};

/// Calls `body(collectives)` on as many threads as there are ranks.
template <typename Body> void onRanks(int ranks, Body body) {
  artifact::PlanT plan = makePlan(ranks);
  Served served(ranks);
  std::vector<std::future<std::string>> results;
  for (int rank = 0; rank < ranks; ++rank)
    results.push_back(std::async(std::launch::async, [&, rank]() {
      auto control = served.join(rank, [](int, const std::string &) {});
      if (!control.ok())
        return control.status().toString();
      auto collectives = createGlooCollectives(plan, rank, **control);
      if (!collectives.ok())
        return collectives.status().toString();
      std::string wrong = body(**collectives);
      Status left = (*control)->leave();
      return wrong.empty() && !left.ok() ? left.toString() : wrong;
    }));
  for (auto &result : results)
    CHECK(result.get() == "");
}

} // namespace

TEST_CASE("a small collective does not stand behind a large one") {
  onRanks(2, [](Collectives &collectives) -> std::string {
    std::vector<float> large(kLargeCount, 1), small(kSmallCount, 2);
    // Rank 1 starts the large one only when it has the small one's result, for
    // which rank 0 is behind the large one's start.
    auto start = [&] {
      collectives.start(makeSum(kLarge, artifact::DType::F32, large));
    };
    if (collectives.rank() == 0)
      start();
    collectives.start(makeSum(kSmall, artifact::DType::F32, small));
    if (!collectives.wait(kSmall).ok())
      return "the small one failed";
    if (collectives.rank() == 1)
      start();
    if (!collectives.wait(kLarge).ok())
      return "the large one failed";
    if (small != std::vector<float>(kSmallCount, 4))
      return "the small sum is wrong";
    return large == std::vector<float>(kLargeCount, 2)
               ? ""
               : "the large sum is wrong";
  });
}

TEST_CASE("sums of every size are those of all ranks, the same on each") {
  for (int ranks : {2, 3, 4, 5})
    onRanks(ranks, [&](Collectives &collectives) -> std::string {
      for (bool awaitedNext : {false, true})
        for (size_t count : {1, 7, 4096, 4097, 100000, 200000}) {
          std::vector<float> values(count);
          std::vector<uint16_t> narrow(count);
          for (size_t i = 0; i < count; ++i) {
            values[i] = float(int(i % 1000) * (collectives.rank() + 1));
            narrow[i] = floatToBfloat16(float(collectives.rank() + 1));
          }
          Collective wide = makeSum(kLarge, artifact::DType::F32, values);
          Collective half = makeSum(kSmall, artifact::DType::BF16, narrow);
          wide.awaitedNext = awaitedNext;
          half.awaitedNext = awaitedNext;
          collectives.start(std::move(wide));
          if (!awaitedNext)
            collectives.start(std::move(half));
          if (!collectives.wait(kLarge).ok())
            return "the sum failed";
          if (awaitedNext)
            collectives.start(std::move(half));
          if (!collectives.wait(kSmall).ok())
            return "the narrow sum failed";
          int factor = ranks * (ranks + 1) / 2;
          for (size_t i = 0; i < count; ++i)
            if (values[i] != float(int(i % 1000) * factor) ||
                bfloat16ToFloat(narrow[i]) != float(factor))
              return "element " + std::to_string(i) + " of " +
                     std::to_string(count) + " is wrong";
        }
      return collectives.barrier().ok() ? "" : "the barrier failed";
    });
}

TEST_CASE("rank 0 hears last that the run has ended") {
  // Its process is the server's: what it would take down is to be told before.
  constexpr int ranks = 5;
  for (int failing = 0; failing < ranks; ++failing) {
    Served served(ranks);
    std::atomic<int> heard = 0, order[ranks] = {};
    std::string texts[ranks];
    std::vector<std::future<bool>> results;
    for (int rank = 0; rank < ranks; ++rank)
      results.push_back(std::async(std::launch::async, [&, rank] {
        std::promise<void> ended;
        auto control = served.join(rank, [&](int, const std::string &text) {
          texts[rank] = text;
          // A process on its way out: the connection closes a little later.
          if (rank != 0)
            std::this_thread::sleep_for(Milliseconds(20 * rank));
          order[rank] = ++heard;
          ended.set_value();
        });
        if (!control.ok())
          return false;
        if (rank == failing)
          (*control)->fail(1, "the disk is full");
        else
          ended.get_future().wait();
        return true;
      }));
    for (auto &result : results)
      CHECK(result.get());
    for (int rank = 0; rank < ranks; ++rank)
      if (rank != failing)
        CHECK(texts[rank] ==
              "rank " + std::to_string(failing) + ": the disk is full");
    if (failing != 0)
      CHECK(order[0] == ranks - 1);
  }
}
