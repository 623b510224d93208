// Where batches come from. A source writes a rank's rows of one global batch to
// where the device takes its inputs from; batch i is the same whatever came
// before and however many ranks there are.
#ifndef LOCKSTEP_RUNTIME_DATA_DATA_SOURCE_H
#define LOCKSTEP_RUNTIME_DATA_DATA_SOURCE_H

#include "runtime/artifact/artifact_generated.h"
#include "runtime/data/sample_order.h"
#include "runtime/support/dtype.h"
#include "runtime/support/status.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::runtime {

/// Where the values of an input go.
using InputPlaces = std::function<std::byte *(const artifact::InputT &)>;

class DataSource {
public:
  virtual ~DataSource() = default;

  /// Writes the inputs of the program for global batch `batch` (from 0). Error:
  /// a value that the model cannot take.
  virtual Status fill(int64_t batch, const InputPlaces &places) = 0;

  /// Batches until every sample was seen once, at least 1; 0: endless.
  virtual int64_t batchesPerEpoch() const = 0;

  /// "1200 windows of 1024 tokens in 3 files".
  virtual std::string describe() const = 0;
};

struct DataOptions {
  uint64_t seed = 0;
  bool shuffle = true; ///< not for step{i} files, whose order is theirs
  DType tokenType = DType::U16; ///< of headerless token files
};

/// What a source needs to know of the program it feeds.
struct DataTarget {
  const artifact::PlanT &plan;
  const artifact::ProgramT &program;
  int rank = 0;

  RowRule rows() const {
    return {plan.global_batch, int64_t(plan.ranks), rank,
            program.accumulation_steps};
  }
  const artifact::InputT *input(const std::string &name) const;
  /// The labels input when the labels follow from tokens, else null.
  const artifact::InputT *derivedLabels() const;
};

/// Opens what --data names: "synthetic", token files (a glob), NAME=file.npy or
/// NAME=file.safetensors, or one .safetensors file with samples first or with
/// step{i}.NAME entries. Errors: files, names, types and shapes that do not fit
/// the program's inputs.
StatusOr<std::unique_ptr<DataSource>>
openData(const std::vector<std::string> &specifications,
         const DataTarget &target, const DataOptions &options);

// The kinds of sources, for openData.
StatusOr<std::unique_ptr<DataSource>>
openTokenSource(const std::vector<std::string> &patterns,
                const DataTarget &target, const DataOptions &options);
StatusOr<std::unique_ptr<DataSource>>
openTensorSource(const std::vector<std::string> &specifications,
                 const DataTarget &target, const DataOptions &options);
std::unique_ptr<DataSource> createSyntheticSource(const DataTarget &target,
                                                  const DataOptions &options);

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_DATA_DATA_SOURCE_H
