// The learning rate of a step, and the factors that Adam derives from it.
#ifndef LOCKSTEP_RUNTIME_EXECUTOR_SCHEDULE_H
#define LOCKSTEP_RUNTIME_EXECUTOR_SCHEDULE_H

#include "runtime/artifact/artifact_generated.h"

namespace lockstep::runtime {

/// The rate of step `step` (from 0). With W warm-up steps, T steps in all, M
/// the least rate: lr (step+1)/W while step < W; then, with x = min(1, (step-W)
/// / (T-W)), cosine gives M + (lr-M) (1 + cos(pi x)) / 2, linear M + (lr-M)
/// (1-x), constant lr.
double learningRate(const artifact::ScheduleT &schedule, double lr,
                    int64_t step);

/// 1 - beta^(step+1).
double biasCorrection(double beta, int64_t step);

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_EXECUTOR_SCHEDULE_H
