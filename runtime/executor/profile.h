// Time per kernel and per collective, for --profile.
#ifndef LOCKSTEP_RUNTIME_EXECUTOR_PROFILE_H
#define LOCKSTEP_RUNTIME_EXECUTOR_PROFILE_H

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

namespace lockstep::runtime {

class Profile {
public:
  using Clock = std::chrono::steady_clock;

  void add(const std::string &name, Clock::duration time, double flops,
           double bytes);
  void clear() { rows.clear(); }
  bool empty() const { return rows.empty(); }

  /// A table, slowest first: calls, total and mean time, share, GFLOP/s, GB/s.
  std::string table() const;

private:
  struct Row {
    int64_t calls = 0;
    Clock::duration time{};
    double flops = 0, bytes = 0;
  };
  std::map<std::string, Row> rows;
};

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_EXECUTOR_PROFILE_H
