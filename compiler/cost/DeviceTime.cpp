//===- DeviceTime.cpp - Predicts how long work takes
//-----------------------------===//
#include "compiler/cost/DeviceTime.h"
#include <algorithm>
#include <cassert>

double lockstep::getDeviceTime(const train::OpCost &cost,
                               const DeviceRates &rates) {
  assert(rates.flopsPerSecond > 0 && rates.bytesPerSecond > 0 &&
         "a device computes and moves data");
  double arithmetic = cost.flops / rates.flopsPerSecond;
  double traffic = (cost.bytesRead + cost.bytesWritten) / rates.bytesPerSecond;
  return rates.launchSeconds + std::max(arithmetic, traffic);
}
