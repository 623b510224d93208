#include "runtime/data/data_source.h"

#include <algorithm>

namespace lockstep::runtime {

const artifact::InputT *DataTarget::input(const std::string &name) const {
  for (const auto &input : program.inputs)
    if (input->name == name)
      return input.get();
  return nullptr;
}

const artifact::InputT *DataTarget::derivedLabels() const {
  using Rule = artifact::LabelsRule;
  bool derived = plan.labels_rule == Rule::NextToken ||
                 plan.labels_rule == Rule::SameTokens;
  return derived ? input(plan.labels) : nullptr;
}

static bool endsWith(const std::string &text, const std::string &end) {
  return text.size() >= end.size() &&
         text.compare(text.size() - end.size(), end.size(), end) == 0;
}

/// NAME=file, where NAME is one of the inputs or looks like one.
static bool isNamed(const std::string &text) {
  size_t equals = text.find('=');
  return equals != std::string::npos && equals > 0 && text.find('/') > equals;
}

StatusOr<std::unique_ptr<DataSource>>
openData(const std::vector<std::string> &specifications,
         const DataTarget &target, const DataOptions &options) {
  auto isTensor = [](const std::string &text) {
    return isNamed(text) || endsWith(text, ".safetensors") ||
           endsWith(text, ".npy");
  };
  size_t tensors = size_t(
      std::count_if(specifications.begin(), specifications.end(), isTensor));
  if (specifications.size() == 1 && specifications[0] == "synthetic")
    return createSyntheticSource(target, options);
  if (tensors == specifications.size())
    return openTensorSource(specifications, target, options);
  if (tensors == 0)
    return openTokenSource(specifications, target, options);
  return inputError("token files and NAME=file cannot be mixed")
      .at("--data")
      .remedy("give all inputs as NAME=file, or all as token files");
}

} // namespace lockstep::runtime
