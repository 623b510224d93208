#include "runtime/executor/profile.h"

#include <algorithm>
#include <cstdio>
#include <vector>

namespace lockstep::runtime {

void Profile::add(const std::string &name, Clock::duration time, double flops,
                  double bytes, double floor) {
  Row &row = rows[name];
  row.calls += 1;
  row.time += time;
  row.flops += flops;
  row.bytes += bytes;
  row.floor += floor;
}

std::string Profile::table() const {
  std::vector<std::pair<std::string, Row>> sorted(rows.begin(), rows.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto &a, const auto &b) {
    return a.second.time != b.second.time ? a.second.time > b.second.time
                                          : a.first < b.first;
  });
  double total = 0;
  bool floors = false;
  for (const auto &[name, row] : sorted) {
    total += std::chrono::duration<double>(row.time).count();
    floors |= row.floor > 0;
  }
  std::string text =
      "   calls    total ms     mean us  share   GFLOP/s      GB/s  ";
  text += floors ? "floor   kernel\n" : "kernel\n";
  for (const auto &[name, row] : sorted) {
    double seconds = std::chrono::duration<double>(row.time).count();
    double perSecond = seconds > 0 ? 1e-9 / seconds : 0;
    char line[128];
    snprintf(line, sizeof(line), "%8lld %11.3f %11.2f %5.1f%% %9.2f %9.2f  ",
             static_cast<long long>(row.calls), seconds * 1e3,
             seconds * 1e6 / double(row.calls),
             total > 0 ? 100 * seconds / total : 0, row.flops * perSecond,
             row.bytes * perSecond);
    text += line;
    if (floors) {
      snprintf(line, sizeof(line), "%5.1f%%  ",
               seconds > 0 ? 100 * row.floor / seconds : 0);
      text += line;
    }
    text += name + "\n";
  }
  return text;
}

} // namespace lockstep::runtime
