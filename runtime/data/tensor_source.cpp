// Inputs from arrays: NAME=file.npy, NAME=file.safetensors and .safetensors
// files with samples first, or files with one entry step{i}.NAME per batch.
#include "runtime/artifact/types.h"
#include "runtime/data/convert.h"
#include "runtime/data/data_source.h"
#include "runtime/data/npy.h"
#include "runtime/safetensors/safetensors.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

namespace lockstep::runtime {

namespace {

/// An array in a mapped file.
struct Array {
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  const std::byte *data = nullptr;
  std::string path;
  std::shared_ptr<const void> keeper; ///< keeps the mapping
};

/// One input of the program with its array; `shift` > 0: the labels start that
/// many elements into the tokens' rows.
struct Feed {
  const artifact::InputT *input;
  std::vector<Array> arrays; ///< one, or one per step
  int64_t shift = 0;
};

using Arrays = std::map<std::string, Array>;

Array fromSafetensors(const std::shared_ptr<const SafetensorsFile> &file,
                      const SafetensorsTensor &tensor) {
  return {tensor.dtype, tensor.shape, tensor.data, file->path(), file};
}

/// Adds every array that one --data names, under the name of its input.
Status collect(const std::string &text, Arrays &arrays) {
  size_t equals = text.find('=');
  bool named = equals != std::string::npos && text.find('/') > equals;
  std::string name = named ? text.substr(0, equals) : "";
  std::string path = named ? text.substr(equals + 1) : text;
  bool npy = path.size() >= 4 && path.compare(path.size() - 4, 4, ".npy") == 0;
  if (npy && !named)
    return inputError("an array has no name of its own")
        .at(path)
        .remedy("give it as NAME=" + path);
  if (npy) {
    LOCKSTEP_ASSIGN_OR_RETURN(NpyArray array, openNpy(path));
    arrays[name] = {array.dtype, array.shape, array.data, path, array.file};
    return Status::success();
  }
  LOCKSTEP_ASSIGN_OR_RETURN(std::shared_ptr<const SafetensorsFile> file,
                            SafetensorsFile::open(path));
  if (!named) {
    for (const SafetensorsTensor &tensor : file->tensors())
      arrays[tensor.name] = fromSafetensors(file, tensor);
    return Status::success();
  }
  const SafetensorsTensor *tensor = file->find(name);
  if (!tensor && file->tensors().size() == 1)
    tensor = &file->tensors()[0];
  if (!tensor)
    return inputError("there is no tensor '" + name + "'").at(path);
  arrays[name] = fromSafetensors(file, *tensor);
  return Status::success();
}

/// "step12.x" gives 12 and "x".
bool splitStep(const std::string &name, int64_t &step, std::string &input) {
  if (name.rfind("step", 0) != 0)
    return false;
  size_t dot = name.find('.');
  if (dot == std::string::npos || dot == 4 || dot > 16 ||
      name.find_first_not_of("0123456789", 4) != dot)
    return false;
  step = atoll(name.c_str() + 4);
  input = name.substr(dot + 1);
  return true;
}

class TensorSource final : public DataSource {
public:
  TensorSource(const DataTarget &target, const DataOptions &options)
      : target(target), options(options), rows(target.rows()) {}

  Status bind(const Arrays &arrays);
  Status fill(int64_t batch, const InputPlaces &places) override;
  int64_t batchesPerEpoch() const override {
    return byStep ? steps : std::max<int64_t>(1, samples / rows.batch);
  }
  std::string describe() const override {
    return byStep ? std::to_string(steps) + " batches in their own order"
                  : std::to_string(samples) + " samples";
  }

private:
  Status bindInput(const artifact::InputT &input, const Arrays &arrays);
  Status missing(const std::string &name, const Arrays &arrays) const;
  Status checkArray(const Feed &feed, const Array &array);

  DataTarget target;
  DataOptions options;
  RowRule rows;
  std::vector<Feed> feeds;
  bool byStep = false;
  int64_t steps = 0, samples = 0;
};

Status TensorSource::missing(const std::string &name,
                             const Arrays &arrays) const {
  std::set<std::string> present;
  for (const auto &[key, array] : arrays) {
    int64_t step;
    std::string input = key;
    splitStep(key, step, input);
    present.insert(input);
  }
  std::string names, wanted;
  for (const std::string &key : present)
    names += (names.empty() ? "'" : ", '") + key + "'";
  for (const auto &input : target.program.inputs)
    wanted += (wanted.empty() ? "'" : ", '") + input->name + "'";
  return inputError("there is no data for input '" + name + "': the data has " +
                    names + ", but the model takes " + wanted)
      .at("--data")
      .remedy("rename the data, or give NAME=file for each input");
}

Status TensorSource::bind(const Arrays &arrays) {
  for (const auto &[name, array] : arrays) {
    int64_t step;
    std::string input;
    if (splitStep(name, step, input)) {
      byStep = true;
      steps = std::max(steps, step + 1);
    }
  }
  for (const auto &input : target.program.inputs)
    LOCKSTEP_RETURN_IF_ERROR(bindInput(*input, arrays));
  if (!byStep && !samples)
    return inputError("the data has no samples").at("--data");
  return Status::success();
}

Status TensorSource::bindInput(const artifact::InputT &input,
                               const Arrays &arrays) {
  Feed feed{&input, {}, 0};
  auto nameAt = [&](const std::string &name, int64_t step) {
    return byStep ? "step" + std::to_string(step) + "." + name : name;
  };
  std::string name = input.name;
  if (!arrays.count(nameAt(name, 0)) && &input == target.derivedLabels()) {
    name = target.plan.labels_of;
    feed.shift =
        target.plan.labels_rule == artifact::LabelsRule::NextToken ? 1 : 0;
  }
  for (int64_t step = 0; step < (byStep ? steps : 1); ++step) {
    auto found = arrays.find(nameAt(name, step));
    if (found == arrays.end())
      return missing(step ? nameAt(name, step) : input.name, arrays);
    LOCKSTEP_RETURN_IF_ERROR(checkArray(feed, found->second));
    feed.arrays.push_back(found->second);
  }
  feeds.push_back(std::move(feed));
  return Status::success();
}

Status TensorSource::checkArray(const Feed &feed, const Array &array) {
  const artifact::InputT &input = *feed.input;
  std::string where = "'" + input.name + "'";
  if (!convertible(array.dtype, toDType(input.dtype)))
    return inputError(where + " has elements of type " +
                      std::string(dtypeName(array.dtype)) +
                      ", but the model takes " + nameOf(input.dtype))
        .at(array.path)
        .remedy("convert the data");
  std::vector<int64_t> expected = input.global_shape, actual = array.shape;
  bool samplesFirst = !byStep && !input.whole;
  // Tokens may have the row's next token at the end, from which labels come.
  bool tokensOfLabels =
      target.derivedLabels() && input.name == target.plan.labels_of;
  if (feed.shift && !expected.empty())
    expected.back() += feed.shift;
  else if (tokensOfLabels && !actual.empty() && !expected.empty() &&
           actual.back() == expected.back() + 1)
    expected.back() += 1;
  if (samplesFirst && !actual.empty() && !expected.empty()) {
    if (samples && actual[0] != samples)
      return inputError(where + " has " + std::to_string(actual[0]) +
                        " samples, but another input has " +
                        std::to_string(samples))
          .at(array.path)
          .remedy("give every input the same number of samples");
    samples = actual[0];
    expected[0] = actual[0];
  }
  if (actual != expected)
    return inputError(where + " has shape " + shapeText(array.shape) +
                      ", expected " + (samplesFirst ? "[samples" : "[") +
                      [&] {
                        std::string rest;
                        for (size_t i = samplesFirst; i < expected.size(); ++i)
                          rest += (i ? ", " : "") + std::to_string(expected[i]);
                        return rest + "]";
                      }())
        .at(array.path)
        .remedy(feed.shift ? "give labels as an input of their own, or rows "
                             "one token longer"
                           : "reshape the data, or export the model for it");
  return Status::success();
}

Status TensorSource::fill(int64_t batch, const InputPlaces &places) {
  SampleOrder order(byStep ? rows.batch : samples, options.seed,
                    options.shuffle && !byStep);
  for (const Feed &feed : feeds) {
    const artifact::InputT &input = *feed.input;
    const Array &array = feed.arrays[byStep ? size_t(batch % steps) : 0];
    std::byte *memory = places(input);
    int64_t elements = elementsOf(input.local_shape);
    if (input.whole) {
      LOCKSTEP_RETURN_IF_ERROR(
          convertElements(array.data, array.dtype, input, memory, elements)
              .at(array.path));
      continue;
    }
    // Inputs may differ in rows when the batches are given whole.
    RowRule own = rows;
    own.batch = input.global_shape[0];
    int64_t perRow = elements / own.localRows();
    int64_t stride = elementsOf(array.shape) / array.shape[0];
    int64_t size = int64_t(dtypeSize(array.dtype));
    // Rows that are longer than the input end with the next token.
    int64_t inner = input.local_shape.size() > 1 ? input.local_shape.back() : 1;
    int64_t innerStride = stride / (perRow / inner);
    for (int64_t row = 0; row < own.localRows(); ++row) {
      int64_t position = own.globalRow(row);
      int64_t sample =
          byStep ? position : order.at(batch * rows.batch + position);
      for (int64_t part = 0; part < perRow / inner; ++part) {
        int64_t from = sample * stride + part * innerStride + feed.shift;
        std::byte *to =
            memory + (row * perRow + part * inner) * sizeOf(input.dtype);
        LOCKSTEP_RETURN_IF_ERROR(convertElements(array.data + from * size,
                                                 array.dtype, input, to, inner)
                                     .at("row " + std::to_string(sample))
                                     .at(array.path));
      }
    }
  }
  return Status::success();
}

} // namespace

StatusOr<std::unique_ptr<DataSource>>
openTensorSource(const std::vector<std::string> &specifications,
                 const DataTarget &target, const DataOptions &options) {
  Arrays arrays;
  for (const std::string &text : specifications)
    LOCKSTEP_RETURN_IF_ERROR(collect(text, arrays));
  auto source = std::make_unique<TensorSource>(target, options);
  LOCKSTEP_RETURN_IF_ERROR(source->bind(arrays));
  return std::unique_ptr<DataSource>(std::move(source));
}

} // namespace lockstep::runtime
