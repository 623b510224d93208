// Windows of token streams: the stream of each file is cut into windows of the
// model's length, and the windows of all files are drawn in a seeded order.
#include "runtime/artifact/types.h"
#include "runtime/data/convert.h"
#include "runtime/data/data_source.h"
#include "runtime/data/token_files.h"

#include <algorithm>

namespace lockstep::runtime {

namespace {

class TokenSource final : public DataSource {
public:
  TokenSource(const DataTarget &target, std::vector<TokenFile> files,
              const artifact::InputT &tokens, const artifact::InputT *labels,
              int64_t shift, const DataOptions &options);

  Status fill(int64_t batch, const InputPlaces &places) override;
  int64_t batchesPerEpoch() const override {
    return std::max<int64_t>(1, order.size() / rows.batch);
  }
  std::string describe() const override {
    return std::to_string(order.size()) + " windows of " +
           std::to_string(length) + " tokens in " +
           std::to_string(files.size()) +
           (files.size() == 1 ? " file" : " files");
  }

private:
  RowRule rows;
  std::vector<TokenFile> files;
  std::vector<int64_t> firstWindow; ///< of each file, and the total
  const artifact::InputT &tokens;
  const artifact::InputT *labels;
  int64_t shift, length;
  SampleOrder order;
};

int64_t windowsOf(const TokenFile &file, int64_t length, int64_t shift) {
  return std::max<int64_t>(0, (file.count - shift) / length);
}

std::vector<int64_t> firstWindows(const std::vector<TokenFile> &files,
                                  int64_t length, int64_t shift) {
  std::vector<int64_t> first = {0};
  for (const TokenFile &file : files)
    first.push_back(first.back() + windowsOf(file, length, shift));
  return first;
}

TokenSource::TokenSource(const DataTarget &target,
                         std::vector<TokenFile> opened,
                         const artifact::InputT &tokens,
                         const artifact::InputT *labels, int64_t shift,
                         const DataOptions &options)
    : rows(target.rows()), files(std::move(opened)),
      firstWindow(firstWindows(files, tokens.global_shape[1], shift)),
      tokens(tokens), labels(labels), shift(shift),
      length(tokens.global_shape[1]),
      order(firstWindow.back(), options.seed, options.shuffle) {}

Status TokenSource::fill(int64_t batch, const InputPlaces &places) {
  for (int64_t row = 0; row < rows.localRows(); ++row) {
    int64_t window = order.at(batch * rows.batch + rows.globalRow(row));
    size_t index = size_t(std::upper_bound(firstWindow.begin(),
                                           firstWindow.end(), window) -
                          firstWindow.begin()) -
                   1;
    const TokenFile &file = files[index];
    int64_t position = (window - firstWindow[index]) * length;
    auto copy = [&](const artifact::InputT &input, int64_t from) {
      int64_t size = int64_t(dtypeSize(file.dtype));
      return convertElements(file.tokens + from * size, file.dtype, input,
                             places(input) + row * length * sizeOf(input.dtype),
                             length)
          .at("token " + std::to_string(from) + " and on")
          .at(file.file->path());
    };
    LOCKSTEP_RETURN_IF_ERROR(copy(tokens, position));
    if (labels)
      LOCKSTEP_RETURN_IF_ERROR(copy(*labels, position + shift));
  }
  return Status::success();
}

} // namespace

StatusOr<std::unique_ptr<DataSource>>
openTokenSource(const std::vector<std::string> &patterns,
                const DataTarget &target, const DataOptions &options) {
  using Rule = artifact::LabelsRule;
  const artifact::PlanT &plan = target.plan;
  const artifact::InputT *labels = target.derivedLabels();
  const artifact::InputT *tokens = target.input(plan.labels_of);
  // Without labels the only input must be the tokens.
  if (!tokens && plan.labels_rule == Rule::NoLabels &&
      target.program.inputs.size() == 1)
    tokens = target.program.inputs[0].get();
  std::string others;
  for (const auto &input : target.program.inputs)
    if (input.get() != tokens && input.get() != labels)
      others += (others.empty() ? "'" : ", '") + input->name + "'";
  if (!tokens || !others.empty())
    return inputError(
               "token files have only tokens, but the model also takes " +
               (others.empty() ? std::string("other inputs") : others))
        .at("--data")
        .remedy(plan.labels_rule == Rule::Data
                    ? "compile with --labels next-token, or give each input as "
                      "NAME=file.npy"
                    : "give each input as NAME=file.npy");
  if (tokens->global_shape.size() != 2 || tokens->whole)
    return inputError("input '" + tokens->name + "' has shape " +
                      shapeText(tokens->global_shape) +
                      ", but token files need [batch, length]")
        .at("--data")
        .remedy("give each input as NAME=file.npy");

  std::vector<TokenFile> files;
  int64_t shift = plan.labels_rule == Rule::NextToken ? 1 : 0;
  int64_t length = tokens->global_shape[1], windows = 0;
  for (const std::string &pattern : patterns) {
    LOCKSTEP_ASSIGN_OR_RETURN(std::vector<std::string> paths,
                              expandGlob(pattern));
    for (const std::string &path : paths) {
      LOCKSTEP_ASSIGN_OR_RETURN(TokenFile file,
                                openTokenFile(path, options.tokenType));
      windows += windowsOf(file, length, shift);
      files.push_back(std::move(file));
    }
  }
  if (!windows)
    return inputError(
               "the data is too short: a sample takes " +
               std::to_string(length + shift) +
               " tokens, but the longest file has " +
               std::to_string(std::max_element(files.begin(), files.end(),
                                               [](auto &a, auto &b) {
                                                 return a.count < b.count;
                                               })
                                  ->count))
        .at(patterns[0])
        .remedy("give more data, or export the model with shorter sequences");
  return std::unique_ptr<DataSource>(new TokenSource(
      target, std::move(files), *tokens, labels, shift, options));
}

} // namespace lockstep::runtime
