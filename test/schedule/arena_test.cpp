//===- arena_test.cpp - Values that are alive together never overlap ------===//
#include "compiler/schedule/Arena.h"
#include <catch2/catch.hpp>
#include <random>

using namespace lockstep::schedule;

static std::vector<Lifetime> drawLifetimes(unsigned seed, int64_t count) {
  std::mt19937 random(seed);
  std::vector<Lifetime> lifetimes;
  for (int64_t i = 0; i < count; ++i) {
    int64_t first = random() % (2 * count), length = random() % 20;
    int64_t bytes = random() % 3 ? 1 + random() % 5000 : 1024;
    lifetimes.push_back({bytes, first, first + length});
  }
  return lifetimes;
}

TEST_CASE("live values have disjoint, aligned ranges within the arena") {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::vector<Lifetime> lifetimes = drawLifetimes(seed, 100);
    ArenaLayout layout = assignArena(lifetimes);
    REQUIRE(layout.offsets.size() == lifetimes.size());
    bool overlaps = false;
    for (size_t a = 0; a < lifetimes.size(); ++a) {
      REQUIRE(layout.offsets[a] % kAlignment == 0);
      REQUIRE(layout.offsets[a] + lifetimes[a].bytes <= layout.bytes);
      for (size_t b = 0; b < a; ++b) {
        bool together = lifetimes[a].first <= lifetimes[b].last &&
                        lifetimes[b].first <= lifetimes[a].last;
        bool disjoint =
            layout.offsets[a] + lifetimes[a].bytes <= layout.offsets[b] ||
            layout.offsets[b] + lifetimes[b].bytes <= layout.offsets[a];
        overlaps |= together && !disjoint;
      }
    }
    REQUIRE(!overlaps);
    REQUIRE(layout.bytes >= getPeak(lifetimes).first);
  }
}

TEST_CASE("the layout depends on the lifetimes alone") {
  std::vector<Lifetime> lifetimes = drawLifetimes(7, 300);
  REQUIRE(assignArena(lifetimes).offsets == assignArena(lifetimes).offsets);
}

TEST_CASE("memory of a dead value is used again") {
  ArenaLayout layout = assignArena({{1000, 0, 1}, {1000, 2, 3}, {64, 1, 2}});
  REQUIRE(layout.offsets[0] == layout.offsets[1]);
  REQUIRE(layout.bytes == alignUp(1000) + alignUp(64));
}

TEST_CASE("the peak is what is alive at the worst position") {
  auto [bytes, position] = getPeak({{256, 0, 4}, {512, 2, 3}, {64, 3, 5}});
  REQUIRE(bytes == 256 + 512 + kAlignment);
  REQUIRE(position == 3);
}
