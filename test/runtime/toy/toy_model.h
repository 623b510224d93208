// A small artifact made by hand: linear regression with momentum, on any number
// of ranks and accumulation steps. The runtime's tests run it; no compiler is
// needed.
#ifndef LOCKSTEP_TEST_RUNTIME_TOY_TOY_MODEL_H
#define LOCKSTEP_TEST_RUNTIME_TOY_TOY_MODEL_H

#include "runtime/artifact/artifact_writer.h"

#include <string>

namespace lockstep::runtime::testing {

struct ToyOptions {
  uint32_t ranks = 1;
  int64_t accumulation = 1;
  int64_t batch = 8;
  int64_t width = 5;
  std::string target = "x86-64-v3"; ///< name of the code section
};

/// The plan: inputs x [batch, width] and y [batch], parameter w, buffer seen,
/// optimizer state momentum_buffer.w; programs step and eval.
artifact::PlanT toyPlan(const ToyOptions &options);

/// Writes the artifact with weights 0, 1, 2, ... and the kernels' object.
Status writeToy(const ToyOptions &options, const std::string &path);

/// The same for a plan that was changed.
Status writeToy(artifact::PlanT &plan, const ToyOptions &options,
                const std::string &path);

/// What the model gives, in double: the losses of `steps` steps on batches
/// given row by row.
class ToyReference {
public:
  explicit ToyReference(const ToyOptions &options);
  double step(const std::vector<float> &x, const std::vector<float> &y,
              double lr, double momentum);

  std::vector<double> w, m;
  double gradNorm = 0;

private:
  ToyOptions options;
};

/// A new empty folder that is removed at the end.
class TemporaryFolder {
public:
  TemporaryFolder();
  ~TemporaryFolder();
  std::string path;
};

} // namespace lockstep::runtime::testing

#endif // LOCKSTEP_TEST_RUNTIME_TOY_TOY_MODEL_H
