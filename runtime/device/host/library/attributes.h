// Typed access to the attributes of a library kernel. Every attribute must be
// asked for: finish() rejects those that nobody knows.
#ifndef LOCKSTEP_RUNTIME_DEVICE_HOST_LIBRARY_ATTRIBUTES_H
#define LOCKSTEP_RUNTIME_DEVICE_HOST_LIBRARY_ATTRIBUTES_H

#include "runtime/artifact/artifact_generated.h"
#include "runtime/support/status.h"

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace lockstep::runtime {

using Ints = std::vector<int64_t>;

/// Remembers the first problem; accessors then give their defaults.
class Attributes {
public:
  explicit Attributes(const artifact::KernelT &kernel) : kernel(kernel) {}

  int64_t integer(const char *name, std::optional<int64_t> otherwise = {});
  /// `size` < 0: any size.
  Ints integers(const char *name, int64_t size,
                std::optional<Ints> otherwise = {});
  double number(const char *name, double otherwise);
  std::string text(const char *name, const char *otherwise);
  /// Reports a problem with an attribute's value.
  void reject(const char *name, const std::string &reason);

  bool good() const { return problem.ok(); }
  /// The first problem, an unknown attribute, or success.
  Status finish();

private:
  const artifact::AttributeT *find(const char *name);

  const artifact::KernelT &kernel;
  std::set<std::string> asked;
  Status problem;
};

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_DEVICE_HOST_LIBRARY_ATTRIBUTES_H
