// Made-up batches: tokens and classes within the vocabulary, normal floats,
// labels that match. For timing and for trying things out.
#include "runtime/artifact/types.h"
#include "runtime/data/convert.h"
#include "runtime/data/data_source.h"
#include "runtime/support/normal_numbers.h"
#include "runtime/support/philox.h"

#include <vector>

namespace lockstep::runtime {

namespace {

class SyntheticSource final : public DataSource {
public:
  SyntheticSource(const DataTarget &target, const DataOptions &options)
      : target(target), rows(target.rows()), seed(options.seed) {}

  Status fill(int64_t batch, const InputPlaces &places) override {
    for (const auto &input : target.program.inputs)
      LOCKSTEP_RETURN_IF_ERROR(fillInput(*input, batch, places(*input)));
    return Status::success();
  }
  int64_t batchesPerEpoch() const override { return 0; }
  std::string describe() const override { return "synthetic data"; }

private:
  Status fillInput(const artifact::InputT &input, int64_t batch,
                   std::byte *memory);
  DataTarget target;
  RowRule rows;
  uint64_t seed;
};

Status SyntheticSource::fillInput(const artifact::InputT &input, int64_t batch,
                                  std::byte *memory) {
  // Derived labels read the tokens' stream, one further for next-token.
  bool derived = &input == target.derivedLabels();
  const std::string &name = derived ? target.plan.labels_of : input.name;
  int64_t shift =
      derived && target.plan.labels_rule == artifact::LabelsRule::NextToken;
  uint64_t stream = streamOf(name);
  const artifact::InputT *tokens = derived ? target.input(name) : &input;
  int64_t vocabulary = tokens ? tokens->vocabulary : input.vocabulary;
  RowRule own = rows;
  own.batch = input.whole ? own.ranks : input.global_shape[0];
  int64_t localRows = own.localRows();
  int64_t perRow = elementsOf(input.local_shape) / localRows;
  DType dtype = toDType(input.dtype);
  bool floating = convertible(DType::F32, dtype);
  std::vector<float> floats;
  std::vector<int64_t> integers;
  for (int64_t row = 0; row < localRows; ++row) {
    // One element more per row, which next-token labels end with.
    int64_t sample = input.whole ? 0 : batch * own.batch + own.globalRow(row);
    uint64_t first = uint64_t(sample * (perRow + 1) + shift);
    std::byte *to = memory + row * perRow * sizeOf(input.dtype);
    integers.clear();
    if (floating) {
      floats.resize(size_t(perRow));
      normalNumbers(seed, stream, first, perRow, floats.data());
    }
    for (int64_t i = 0; i < perRow && !floating; ++i) {
      if (vocabulary > 0)
        integers.push_back(int64_t(
            uniformAt(seed, stream, first + uint64_t(i)) * double(vocabulary)));
      else
        integers.push_back(1); // a mask: everything counts
    }
    const auto *source =
        floating ? reinterpret_cast<const std::byte *>(floats.data())
                 : reinterpret_cast<const std::byte *>(integers.data());
    LOCKSTEP_RETURN_IF_ERROR(convertElements(
        source, floating ? DType::F32 : DType::I64, input, to, perRow));
  }
  return Status::success();
}

} // namespace

std::unique_ptr<DataSource> createSyntheticSource(const DataTarget &target,
                                                  const DataOptions &options) {
  return std::make_unique<SyntheticSource>(target, options);
}

} // namespace lockstep::runtime
