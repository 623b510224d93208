#include "runtime/executor/schedule.h"

#include <algorithm>
#include <cmath>

namespace lockstep::runtime {

double learningRate(const artifact::ScheduleT &schedule, double lr,
                    int64_t step) {
  int64_t warmup = schedule.warmup_steps;
  if (step < warmup)
    return lr * double(step + 1) / double(warmup);
  int64_t span = schedule.total_steps - warmup;
  double x = span > 0 ? std::min(1.0, double(step - warmup) / double(span)) : 1;
  double least = schedule.min_lr;
  switch (schedule.kind) {
  case artifact::ScheduleKind::Constant:
    return lr;
  case artifact::ScheduleKind::Linear:
    return least + (lr - least) * (1 - x);
  case artifact::ScheduleKind::Cosine:
    return least + (lr - least) * (1 + std::cos(M_PI * x)) / 2;
  }
  return lr;
}

double biasCorrection(double beta, int64_t step) {
  return 1 - std::pow(beta, double(step + 1));
}

} // namespace lockstep::runtime
