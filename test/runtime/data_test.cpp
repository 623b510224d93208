#include "runtime/data/convert.h"
#include "runtime/data/data_source.h"
#include "runtime/data/npy.h"
#include "runtime/data/token_files.h"
#include "runtime/safetensors/safetensors.h"
#include "test/runtime/toy/toy_model.h"

#include <catch2/catch.hpp>

#include <cstring>
#include <fstream>
#include <set>

using namespace lockstep;
using namespace lockstep::runtime;
using namespace lockstep::runtime::testing;
using artifact::LabelsRule;

namespace {

void write(const std::string &path, const void *data, size_t bytes) {
  std::ofstream(path, std::ios::binary)
      .write(static_cast<const char *>(data), std::streamsize(bytes));
}

/// A plan with inputs `ids` [batch, length] and labels of the same shape.
struct TokenPlan {
  TokenPlan(uint32_t ranks, int64_t accumulation, LabelsRule rule,
            int64_t batch = 8, int64_t length = 4, int64_t vocabulary = 1000) {
    plan.ranks = ranks;
    plan.global_batch = batch;
    plan.labels_rule = rule;
    plan.labels = "labels";
    plan.labels_of = "ids";
    auto program = std::make_unique<artifact::ProgramT>();
    program->name = "step";
    program->accumulation_steps = accumulation;
    int64_t offset = 0;
    for (const char *name : {"ids", "labels"}) {
      if (rule == LabelsRule::NoLabels && name[0] == 'l')
        continue;
      auto input = std::make_unique<artifact::InputT>();
      input->name = name;
      input->dtype = artifact::DType::I64;
      input->global_shape = {batch, length};
      input->local_shape = {batch / ranks, length};
      input->bytes = batch / ranks * length * 8;
      input->offset = offset;
      input->vocabulary = vocabulary;
      input->is_labels = name[0] == 'l';
      input->ignore_index = -100;
      offset += input->bytes;
      program->inputs.push_back(std::move(input));
    }
    arena.resize(size_t(offset) / 8);
    plan.programs.push_back(std::move(program));
  }
  DataTarget target(int rank) const { return {plan, *plan.programs[0], rank}; }
  StatusOr<std::unique_ptr<DataSource>> open(std::vector<std::string> data,
                                             int rank = 0,
                                             DataOptions options = {}) const {
    return openData(data, target(rank), options);
  }
  /// Input `index`'s values of a batch, in local rows.
  std::vector<std::vector<int64_t>> fill(DataSource &source, int64_t batch,
                                         size_t index) {
    Status status = source.fill(batch, places());
    INFO(status.toString());
    REQUIRE(status.ok());
    const artifact::InputT &input = *plan.programs[0]->inputs[index];
    std::vector<std::vector<int64_t>> rows;
    for (int64_t row = 0; row < input.local_shape[0]; ++row) {
      auto begin =
          arena.begin() + input.offset / 8 + row * input.local_shape[1];
      rows.emplace_back(begin, begin + input.local_shape[1]);
    }
    return rows;
  }
  InputPlaces places() {
    return [this](const artifact::InputT &input) {
      return reinterpret_cast<std::byte *>(arena.data()) + input.offset;
    };
  }
  artifact::PlanT plan;
  std::vector<int64_t> arena;
};

/// Tokens 0, 1, 2, ... as headerless 16-bit numbers.
std::string writeTokens(const TemporaryFolder &folder, const char *name,
                        int64_t count, uint16_t first = 0) {
  std::vector<uint16_t> tokens;
  for (int64_t i = 0; i < count; ++i)
    tokens.push_back(uint16_t(first + i));
  std::string path = folder.path + "/" + name;
  write(path, tokens.data(), tokens.size() * 2);
  return path;
}

/// A global batch put together from the rows of all ranks.
std::vector<std::vector<int64_t>> gather(uint32_t ranks, int64_t accumulation,
                                         const std::string &data,
                                         int64_t batch) {
  std::vector<std::vector<int64_t>> all(8);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    TokenPlan plan(ranks, accumulation, LabelsRule::NextToken);
    DataOptions options;
    options.seed = 42;
    auto source = plan.open({data}, int(rank), options);
    REQUIRE(source.ok());
    auto rows = plan.fill(**source, batch, 0);
    RowRule rule = plan.target(int(rank)).rows();
    for (size_t i = 0; i < rows.size(); ++i)
      all[size_t(rule.globalRow(int64_t(i)))] = rows[i];
  }
  return all;
}

} // namespace

TEST_CASE("each epoch has every sample once, in another order") {
  for (int64_t size : {1, 2, 7, 64, 1000}) {
    SampleOrder order(size, 9, true);
    std::vector<int64_t> first, second;
    for (int64_t i = 0; i < size; ++i) {
      first.push_back(order.at(i));
      second.push_back(order.at(size + i));
    }
    CHECK(std::set<int64_t>(first.begin(), first.end()).size() == size_t(size));
    CHECK(std::set<int64_t>(second.begin(), second.end()).size() ==
          size_t(size));
    if (size > 2) {
      CHECK(first != second);
      CHECK(first != [&] {
        SampleOrder other(size, 10, true);
        std::vector<int64_t> values;
        for (int64_t i = 0; i < size; ++i)
          values.push_back(other.at(i));
        return values;
      }());
    }
  }
}

TEST_CASE("rows of all ranks and accumulation steps make the global batch") {
  for (int64_t ranks : {1, 2, 4})
    for (int64_t accumulation : {1, 2, 4}) {
      std::set<int64_t> rows;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        RowRule rule{16, ranks, rank, accumulation};
        for (int64_t i = 0; i < rule.localRows(); ++i) {
          int64_t micro = 16 / (ranks * accumulation), k = i / micro;
          CHECK(rule.globalRow(i) ==
                k * 16 / accumulation + rank * micro + i % micro);
          rows.insert(rule.globalRow(i));
        }
      }
      CHECK(rows.size() == 16);
    }
}

TEST_CASE("the order of samples is the same for any number of ranks") {
  TemporaryFolder folder;
  writeTokens(folder, "a.bin", 81);
  writeTokens(folder, "b.bin", 150, 300);
  std::string pattern = folder.path + "/*.bin";
  for (int64_t batch : {0, 1, 6, 100}) {
    auto one = gather(1, 1, pattern, batch);
    CHECK(gather(2, 1, pattern, batch) == one);
    CHECK(gather(4, 2, pattern, batch) == one);
    CHECK(gather(2, 4, pattern, batch) == one);
    CHECK(gather(8, 1, pattern, batch) == one);
  }
}

TEST_CASE("labels are the next tokens, or the same") {
  TemporaryFolder folder;
  std::string path = writeTokens(folder, "t.bin", 33);
  for (auto rule : {LabelsRule::NextToken, LabelsRule::SameTokens}) {
    TokenPlan plan(1, 1, rule);
    auto source = plan.open({path});
    REQUIRE(source.ok());
    CHECK((*source)->batchesPerEpoch() == 1);
    CHECK((*source)->describe() == "8 windows of 4 tokens in 1 file");
    auto ids = plan.fill(**source, 0, 0), labels = plan.fill(**source, 0, 1);
    for (size_t i = 0; i < ids.size(); ++i)
      for (size_t j = 0; j < ids[i].size(); ++j)
        CHECK(labels[i][j] ==
              ids[i][j] + (rule == LabelsRule::NextToken ? 1 : 0));
  }
}

TEST_CASE("token files with llm.c's headers and other types are read") {
  TemporaryFolder folder;
  std::vector<int32_t> header(256);
  header[1] = 1;
  header[2] = 40;
  auto check = [&](const std::string &path, DataOptions options = {}) {
    TokenPlan plan(1, 1, LabelsRule::NextToken);
    options.shuffle = false;
    auto source = plan.open({path}, 0, options);
    INFO(source.status().toString());
    REQUIRE(source.ok());
    CHECK(plan.fill(**source, 0, 0)[1] == std::vector<int64_t>{4, 5, 6, 7});
  };
  header[0] = 20240520;
  std::string bytes(reinterpret_cast<char *>(header.data()), 1024);
  for (uint16_t i = 0; i < 40; ++i)
    bytes.append(reinterpret_cast<char *>(&i), 2);
  write(folder.path + "/small", bytes.data(), bytes.size());
  check(folder.path + "/small");
  write(folder.path + "/cut", bytes.data(), bytes.size() - 2);
  TokenPlan plan(1, 1, LabelsRule::NextToken);
  CHECK(plan.open({folder.path + "/cut"}).status().toString() ==
        folder.path + "/cut: the header announces 40 tokens, but the file has "
                      "39; copy the file again");

  header[0] = 20240801;
  bytes.assign(reinterpret_cast<char *>(header.data()), 1024);
  for (uint32_t i = 0; i < 40; ++i)
    bytes.append(reinterpret_cast<char *>(&i), 4);
  write(folder.path + "/large", bytes.data(), bytes.size());
  check(folder.path + "/large");

  bytes.clear();
  for (char i = 0; i < 40; ++i)
    bytes += i;
  write(folder.path + "/text", bytes.data(), bytes.size());
  DataOptions options;
  options.tokenType = DType::U8;
  check(folder.path + "/text", options);
}

TEST_CASE("data that is too short or outside the vocabulary is named") {
  TemporaryFolder folder;
  std::string path = writeTokens(folder, "t.bin", 4);
  TokenPlan plan(1, 1, LabelsRule::NextToken, 8, 4, 30);
  CHECK(plan.open({path}).status().toString() ==
        path + ": the data is too short: a sample takes 5 tokens, but the "
               "longest file has 4; give more data, or export the model with "
               "shorter sequences");
  path = writeTokens(folder, "u.bin", 33);
  DataOptions options;
  options.shuffle = false;
  auto source = plan.open({path}, 0, options);
  REQUIRE(source.ok());
  Status status = (*source)->fill(0, plan.places());
  CHECK(status.toString() ==
        path + ": token 28 and on: value 30 of 'ids' at index 2 of its row is "
               "outside the vocabulary of 30; prepare the data with the "
               "model's own tokenizer or classes");
  CHECK(plan.open({folder.path + "/*.none"}).status().what() ==
        "no file matches");
}

TEST_CASE("token files cannot feed labels that come from the data") {
  TemporaryFolder folder;
  std::string path = writeTokens(folder, "t.bin", 100);
  TokenPlan plan(1, 1, LabelsRule::Data);
  plan.plan.labels_of = "ids";
  CHECK(plan.open({path}).status().toString() ==
        "--data: token files have only tokens, but the model also takes "
        "'labels'; compile with --labels next-token, or give each input as "
        "NAME=file.npy");
}

TEST_CASE("arrays are read with samples first") {
  TemporaryFolder folder;
  std::string header = "{'descr': '<i4', 'fortran_order': False, 'shape': "
                       "(16, 5), }";
  header.resize(117, ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00\x76\x00", 10);
  bytes += header;
  for (int32_t i = 0; i < 80; ++i)
    bytes.append(reinterpret_cast<char *>(&i), 4);
  write(folder.path + "/ids.npy", bytes.data(), bytes.size());
  auto array = openNpy(folder.path + "/ids.npy");
  REQUIRE(array.ok());
  CHECK(array->shape == std::vector<int64_t>{16, 5});
  CHECK(array->dtype == DType::I32);

  // Rows one longer than the input end with the next token.
  TokenPlan plan(2, 1, LabelsRule::NextToken);
  DataOptions options;
  options.shuffle = false;
  auto source = plan.open({"ids=" + folder.path + "/ids.npy"}, 1, options);
  INFO(source.status().toString());
  REQUIRE(source.ok());
  CHECK((*source)->batchesPerEpoch() == 2);
  CHECK(plan.fill(**source, 0, 0)[0] == std::vector<int64_t>{20, 21, 22, 23});
  CHECK(plan.fill(**source, 0, 1)[0] == std::vector<int64_t>{21, 22, 23, 24});
  CHECK(plan.fill(**source, 1, 0)[3] == std::vector<int64_t>{75, 76, 77, 78});

  TokenPlan longer(1, 1, LabelsRule::NextToken, 8, 7);
  CHECK(longer.open({"ids=" + folder.path + "/ids.npy"}).status().toString() ==
        folder.path + "/ids.npy: 'ids' has shape [16, 5], expected [samples, "
                      "7]; reshape the data, or export the model for it");
  write(folder.path + "/cut.npy", bytes.data(), bytes.size() - 1);
  CHECK(openNpy(folder.path + "/cut.npy").status().what() ==
        "the file is too short for its shape");
}

TEST_CASE("a file with an entry per step is read in its order") {
  TemporaryFolder folder;
  std::vector<std::vector<int64_t>> values;
  std::vector<SafetensorsTensor> tensors;
  for (int64_t i = 0; i < 12; ++i)
    values.push_back(std::vector<int64_t>(32, i));
  for (int64_t step = 0; step < 3; ++step)
    for (int64_t which = 0; which < 2; ++which) {
      const auto &data = values[size_t(2 * step + which)];
      tensors.push_back(
          {"step" + std::to_string(step) + (which ? ".labels" : ".ids"),
           DType::I64,
           {8, 4},
           reinterpret_cast<const std::byte *>(data.data()),
           32 * 8});
    }
  std::string path = folder.path + "/b.safetensors";
  REQUIRE(writeSafetensors(path, tensors).ok());
  TokenPlan plan(2, 2, LabelsRule::Data);
  auto source = plan.open({path}, 1);
  REQUIRE(source.ok());
  CHECK((*source)->batchesPerEpoch() == 3);
  for (int64_t batch : {0, 1, 2, 3}) {
    CHECK(plan.fill(**source, batch, 0)[0][0] == 2 * (batch % 3));
    CHECK(plan.fill(**source, batch, 1)[0][0] == 2 * (batch % 3) + 1);
  }
  TokenPlan other(1, 1, LabelsRule::Data);
  other.plan.programs[0]->inputs[1]->name = "y";
  CHECK(other.open({path}).status().toString() ==
        "--data: there is no data for input 'y': the data has 'ids', "
        "'labels', but the model takes 'ids', 'y'; rename the data, or give "
        "NAME=file for each input");
  TokenPlan floats(1, 1, LabelsRule::Data);
  floats.plan.programs[0]->inputs[0]->dtype = artifact::DType::F32;
  CHECK(floats.open({path}).status().toString() ==
        path + ": 'ids' has elements of type I64, but the model takes F32; "
               "convert the data");
}

TEST_CASE("labels may be the ignored index") {
  artifact::InputT input;
  input.name = "y";
  input.dtype = artifact::DType::I32;
  input.vocabulary = 10;
  input.is_labels = true;
  input.ignore_index = -100;
  int64_t values[2] = {-100, 9};
  int32_t out[2];
  auto convert = [&] {
    return convertElements(reinterpret_cast<std::byte *>(values), DType::I64,
                           input, reinterpret_cast<std::byte *>(out), 2);
  };
  CHECK(convert().ok());
  CHECK(out[0] == -100);
  values[0] = -1;
  CHECK(!convert().ok());
  input.vocabulary = 0;
  values[1] = int64_t(1) << 40;
  CHECK(convert().what() == "value 1099511627776 of 'y' does not fit I32");
}

TEST_CASE("indices may count from the end where the model lets them") {
  artifact::InputT input;
  input.name = "edges";
  input.dtype = artifact::DType::I64;
  input.vocabulary = 10;
  int64_t value = -1, out = 0;
  auto convert = [&] {
    return convertElements(reinterpret_cast<std::byte *>(&value), DType::I64,
                           input, reinterpret_cast<std::byte *>(&out), 1);
  };
  CHECK(!convert().ok());
  input.least = -10;
  CHECK(convert().ok());
  CHECK(out == -1);
  value = -10;
  CHECK(convert().ok());
  value = -11;
  CHECK(!convert().ok());
  value = 10;
  CHECK(!convert().ok());
}

TEST_CASE("synthetic data lies in the vocabulary and its labels match") {
  auto batchOf = [](uint32_t ranks, int rank, size_t index) {
    TokenPlan plan(ranks, 1, LabelsRule::NextToken, 8, 4, 50);
    auto source = plan.open({"synthetic"}, rank);
    REQUIRE(source.ok());
    return plan.fill(**source, 3, index);
  };
  auto ids = batchOf(1, 0, 0), labels = batchOf(1, 0, 1);
  std::set<int64_t> seen;
  for (size_t i = 0; i < ids.size(); ++i)
    for (size_t j = 0; j < 4; ++j) {
      CHECK(ids[i][j] >= 0);
      CHECK(ids[i][j] < 50);
      seen.insert(ids[i][j]);
      if (j + 1 < 4)
        CHECK(labels[i][j] == ids[i][j + 1]);
    }
  CHECK(seen.size() > 10);
  auto second = batchOf(2, 1, 0);
  CHECK(std::equal(second.begin(), second.end(), ids.begin() + 4));
}
