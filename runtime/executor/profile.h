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

  /// `floor`: seconds that the device needs at least, 0 when not known.
  void add(const std::string &name, Clock::duration time, double flops,
           double bytes, double floor = 0);
  void clear() { rows.clear(); }
  bool empty() const { return rows.empty(); }

  /// A table, slowest first: calls, total and mean time, share, GFLOP/s, GB/s,
  /// and, where floors are known, the floor in percent of the time.
  std::string table() const;

private:
  struct Row {
    int64_t calls = 0;
    Clock::duration time{};
    double flops = 0, bytes = 0, floor = 0;
  };
  std::map<std::string, Row> rows;
};

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_EXECUTOR_PROFILE_H
