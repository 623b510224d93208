//===- DeviceTime.h - Predicts how long work takes ----------------------*- C++
//-*-===//
//
// The roofline: an operation takes as long as its arithmetic or its memory
// traffic, whichever is longer, after a fixed launch time. Rates are what the
// device sustains, not its peak.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_COST_DEVICETIME_H
#define LOCKSTEP_COMPILER_COST_DEVICETIME_H

#include "dialects/train/ShardingRule.h"

namespace lockstep {

struct DeviceRates {
  /// Floating-point operations per second; a fused multiply-add counts two.
  double flopsPerSecond = 0;
  /// Memory traffic, bytes per second, reads and writes together.
  double bytesPerSecond = 0;
  /// Seconds that one kernel costs before it does anything.
  double launchSeconds = 0;
};

/// Seconds for one kernel that does this work.
double getDeviceTime(const train::OpCost &cost, const DeviceRates &rates);

/// Work done one after the other.
inline train::OpCost operator+(const train::OpCost &a, const train::OpCost &b) {
  return {a.flops + b.flops, a.bytesRead + b.bytesRead,
          a.bytesWritten + b.bytesWritten};
}

} // namespace lockstep

#endif
