// The weight store: values of the archive, of safetensors files and of rules;
// ties, prefixes, and every way in which weights may be wrong.
#include "compiler/import/ExternalWeights.h"
#include "compiler/import/pt2/Weights.h"
#include "test/import/Pt2Fixture.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

using namespace lockstep;
using namespace lockstep::pt2;
using namespace lockstep::test;
using Catch::Matchers::Contains;
using Json = nlohmann::json;

namespace {
struct TemporaryFolder {
  std::string path = "weights_test." + std::to_string(getpid());
  TemporaryFolder() { mkdir(path.c_str(), 0777); }
  ~TemporaryFolder() {
    for (const std::string &file : files)
      std::remove(file.c_str());
    rmdir(path.c_str());
  }
  std::string file(const std::string &name) {
    files.push_back(path + "/" + name);
    return files.back();
  }
  std::vector<std::string> files;
};
} // namespace

static StatusOr<WeightStore> build(const std::string &path,
                                   const WeightOptions &options = {}) {
  StatusOr<Pt2File> file = readPt2(path);
  if (!file.ok())
    return file.status();
  return buildWeightStore(*file, options);
}

static std::string errorOf(const std::string &path,
                           const WeightOptions &options = {}) {
  StatusOr<WeightStore> store = build(path, options);
  return store.ok() ? "ok" : store.status().toString();
}

static WeightStore buildModel(const std::string &model,
                              const WeightOptions &options = {}) {
  StatusOr<WeightStore> store = build(modelPath(model), options);
  INFO(store.status().toString());
  REQUIRE(store.ok());
  return std::move(store).value();
}

static std::vector<std::byte> bytesOf(const WeightStore &store,
                                      const std::string &name) {
  const WeightEntry *entry = store.find(name);
  REQUIRE(entry);
  StatusOr<WeightBytes> value = store.load(*entry);
  INFO(value.status().toString());
  REQUIRE(value.ok());
  return {value->data, value->data + value->bytes};
}

/// The tensors of a file under other names, as bytes of a given dtype.
static void rewrite(const std::string &from, const std::string &to,
                    const std::function<std::string(std::string)> &rename) {
  auto file = SafetensorsFile::open(from);
  REQUIRE(file.ok());
  std::vector<SafetensorsTensor> tensors;
  for (SafetensorsTensor tensor : (*file)->tensors()) {
    tensor.name = rename(tensor.name);
    if (!tensor.name.empty())
      tensors.push_back(tensor);
  }
  REQUIRE(writeSafetensors(to, tensors).ok());
}

TEST_CASE("values of the archive") {
  // The same model, saved by 2.9 as raw records and by hand as safetensors.
  WeightStore store = buildModel("versions/mlp_torch2.9.pt2");
  auto start =
      SafetensorsFile::open(modelPath("versions/mlp.start.safetensors"));
  REQUIRE(start.ok());
  REQUIRE(store.entries().size() == 6);
  for (const WeightEntry &entry : store.entries()) {
    CHECK(entry.role == WeightEntry::Role::Parameter);
    CHECK(entry.requiresGrad);
    CHECK(entry.hasValue());
    const SafetensorsTensor *tensor = (*start)->find(entry.name);
    REQUIRE(tensor);
    CHECK(entry.shape == tensor->shape);
    CHECK(bytesOf(store, entry.name) ==
          std::vector<std::byte>(tensor->data, tensor->data + tensor->bytes));
  }
  CHECK(store.find("nothing") == nullptr);
}

TEST_CASE("strided views are made contiguous") {
  Pt2Fixture fixture("mlp.pt2");
  Json config = fixture.json("weights_config.json");
  Json &meta = config["config"]["0.weight"]["tensor_meta"];
  WeightStore plain = buildModel("mlp.pt2");
  std::vector<std::byte> before = bytesOf(plain, "0.weight");
  // Column-major: element (i, j) of 128x64 at i + 128 j.
  meta["strides"] = {{{"as_int", 1}}, {{"as_int", 128}}};
  fixture.setJson("weights_config.json", config);
  StatusOr<WeightStore> store = build(fixture.write());
  REQUIRE(store.ok());
  std::vector<std::byte> after = bytesOf(*store, "0.weight");
  REQUIRE(after.size() == before.size());
  bool equal = true;
  for (size_t i = 0; i < 128; ++i)
    for (size_t j = 0; j < 64; ++j)
      equal &= std::memcmp(&after[(i * 64 + j) * 4], &before[(i + 128 * j) * 4],
                           4) == 0;
  CHECK(equal);
}

TEST_CASE("shared records tie, shared empty records do not") {
  WeightStore gpt2 = buildModel("gpt2.pt2");
  size_t wte = 0, head = gpt2.find("m.lm_head.weight") - &gpt2.entries()[0];
  CHECK(gpt2.entries()[wte].name == "m.transformer.wte.weight");
  CHECK(gpt2.isTied(head));
  CHECK(gpt2.entries()[head].owner == wte);
  CHECK(gpt2.tiedNames(wte) == std::vector<std::string>{"m.lm_head.weight"});
  CHECK(bytesOf(gpt2, "m.lm_head.weight") ==
        bytesOf(gpt2, "m.transformer.wte.weight"));

  WeightOptions scratch;
  scratch.weights = "none";
  WeightStore untied = buildModel("full/gpt2_124m.pt2", scratch);
  for (size_t i = 0; i < untied.entries().size(); ++i)
    CHECK(!untied.isTied(i));
  scratch.ties = {"m.transformer.wte.weight=m.lm_head.weight"};
  WeightStore tied = buildModel("full/gpt2_124m.pt2", scratch);
  CHECK(tied.entries()[tied.entries().size() - 1].owner == 0);
}

TEST_CASE("tied names that the graph does not take are kept") {
  WeightStore store = buildModel("versions/gpt2_transformers4.57.pt2");
  const WeightEntry *head = store.find("m.lm_head.weight");
  REQUIRE(head);
  CHECK(!head->inGraph);
  CHECK(store.entries()[head->owner].name == "m.transformer.wte.weight");
  CHECK(bytesOf(store, "m.lm_head.weight").size() == 512 * 64 * 4);
  WeightOptions options;
  options.weights = modelPath("gpt2.final.safetensors");
  buildModel("versions/gpt2_transformers4.57.pt2", options);
}

TEST_CASE("bad ties") {
  auto tie = [](const std::string &text) {
    WeightOptions options;
    options.ties = {text};
    return errorOf(modelPath("mlp.pt2"), options);
  };
  CHECK_THAT(tie("a"), Contains("expected A=B"));
  CHECK_THAT(tie("=a"), Contains("expected A=B"));
  CHECK_THAT(tie("0.weight=9.weight"), Contains("no parameter '9.weight'"));
  CHECK_THAT(tie("0.weight=2.weight"), Contains("cannot be tied"));
  CHECK(tie("0.bias=2.bias") == "ok");
}

TEST_CASE("overlapping views are refused") {
  Pt2Fixture fixture("mlp.pt2");
  Json config = fixture.json("weights_config.json");
  config["config"]["2.bias"]["path_name"] = "weight_2";
  fixture.setJson("weights_config.json", config);
  CHECK_THAT(errorOf(fixture.write()),
             Contains("different views of the same values"));
}

TEST_CASE("training from scratch") {
  WeightOptions options;
  options.weights = "none";
  WeightStore store = buildModel("full/gpt2_124m.pt2", options);
  auto rule = [&](const char *name) {
    const WeightEntry *entry = store.find(name);
    REQUIRE(entry);
    CHECK(!entry->hasValue());
    return entry->init;
  };
  CHECK(rule("m.transformer.wte.weight").kind == InitRule::Kind::Normal);
  CHECK(rule("m.transformer.wte.weight").b == 0.02);
  CHECK(rule("m.transformer.h.0.ln_1.weight").kind == InitRule::Kind::Ones);
  CHECK(rule("m.transformer.h.0.ln_1.bias").kind == InitRule::Kind::Zeros);
  CHECK(rule("m.transformer.h.3.attn.c_attn.bias").kind ==
        InitRule::Kind::Zeros);
  CHECK(rule("m.transformer.h.3.attn.c_attn.weight").kind ==
        InitRule::Kind::Normal);
  // RMS norms are spelled out; buffers keep the archive's values.
  WeightStore llama = buildModel("full/llama_1.1b.pt2", options);
  for (const WeightEntry &entry : llama.entries()) {
    if (entry.role == WeightEntry::Role::Buffer)
      CHECK(entry.hasValue());
    else if (entry.name.find("norm") != std::string::npos)
      CHECK(entry.init.kind == InitRule::Kind::Ones);
    else
      CHECK(entry.init.kind == InitRule::Kind::Normal);
  }
  options.init = "uniform:0.5";
  CHECK(buildModel("mlp.pt2", options).find("0.weight")->init.a == -0.5);
  for (const char *bad : {"normal", "normal:", "normal:x", "normal:-1",
                          "normal:inf", "magic:1", ""}) {
    options.init = bad;
    CHECK_THAT(errorOf(modelPath("mlp.pt2"), options),
               Contains("is not understood"));
  }
}

TEST_CASE("files without values say what to do") {
  CHECK_THAT(errorOf(modelPath("full/gpt2_124m.pt2")),
             Contains("no values for 149 parameters") &&
                 Contains("--weights none"));
  CHECK_THAT(errorOf(modelPath("versions/mlp_torch2.6.pt2")),
             Contains("pickle (torch 2.6.0+cu124), which is never read") &&
                 Contains("--weights FILE.safetensors"));
  WeightOptions options;
  options.weights = modelPath("versions/mlp.start.safetensors");
  CHECK(errorOf(modelPath("versions/mlp_torch2.6.pt2"), options) == "ok");
  options.weights = "none";
  CHECK(errorOf(modelPath("versions/mlp_torch2.6.pt2"), options) == "ok");
}

TEST_CASE("an empty record of a buffer is an error") {
  Pt2Fixture fixture("full/resnet18_cpu.pt2");
  Json config = fixture.json("weights_config.json");
  config["config"]["bn1.running_mean"]["path_name"] =
      config["config"]["conv1.weight"]["path_name"];
  fixture.setJson("weights_config.json", config);
  WeightOptions options;
  options.weights = "none";
  CHECK_THAT(errorOf(fixture.write(), options),
             Contains("buffers without values: bn1.running_mean"));
}

TEST_CASE("pickled objects among the weights") {
  Pt2Fixture fixture("mlp.pt2");
  Json config = fixture.json("weights_config.json");
  config["config"]["0.weight"]["use_pickle"] = true;
  fixture.setJson("weights_config.json", config);
  CHECK_THAT(errorOf(fixture.write()),
             Contains("tensor subclasses") && Contains("0.weight"));
}

TEST_CASE("the archive's shapes must be the graph's") {
  Pt2Fixture fixture("mlp.pt2");
  Json config = fixture.json("weights_config.json");
  config["config"]["0.weight"]["tensor_meta"]["sizes"][0] = {{"as_int", 64}};
  fixture.setJson("weights_config.json", config);
  CHECK_THAT(errorOf(fixture.write()),
             Contains("parameter '0.weight' is stored as float32[64, 64], but "
                      "the graph takes float32[128, 64]"));
}

TEST_CASE("frozen parameters") {
  Pt2Fixture fixture("mlp.pt2");
  Json config = fixture.json("weights_config.json");
  config["config"]["0.weight"]["tensor_meta"]["requires_grad"] = false;
  fixture.setJson("weights_config.json", config);
  StatusOr<WeightStore> store = build(fixture.write());
  REQUIRE(store.ok());
  CHECK(!store->find("0.weight")->requiresGrad);
  CHECK(store->find("0.bias")->requiresGrad);
}

//===-- Given weights -----------------------------------------------------===//

TEST_CASE("prefixes are stripped on either side") {
  TemporaryFolder folder;
  std::string path = folder.file("a.safetensors");
  WeightOptions options;
  options.weights = path;
  const std::string final = modelPath("gpt2.final.safetensors");
  auto strip = [](const std::string &prefix) {
    return [prefix](std::string name) {
      return name.compare(0, prefix.size(), prefix) == 0
                 ? name.substr(prefix.size())
                 : std::string();
    };
  };
  rewrite(final, path, [](std::string name) { return name; });
  WeightStore same = buildModel("gpt2.pt2", options);
  std::vector<std::byte> expected = bytesOf(same, "m.transformer.wpe.weight");
  CHECK(same.notes().empty());

  rewrite(final, path, strip("m."));
  WeightStore stripped = buildModel("gpt2.pt2", options);
  CHECK(bytesOf(stripped, "m.transformer.wpe.weight") == expected);
  CHECK(stripped.notes().size() == 1);
  CHECK(stripped.find("m.transformer.wpe.weight")->externalName ==
        "transformer.wpe.weight");

  // As Hugging Face stores the bare GPT-2: no head, since it is tied.
  rewrite(final, path, strip("m.transformer."));
  WeightStore bare = buildModel("gpt2.pt2", options);
  CHECK(bytesOf(bare, "m.transformer.wpe.weight") == expected);
  CHECK(bytesOf(bare, "m.lm_head.weight") ==
        bytesOf(same, "m.transformer.wte.weight"));

  rewrite(final, path, [](std::string name) { return "module." + name; });
  CHECK(bytesOf(buildModel("gpt2.pt2", options), "m.transformer.wpe.weight") ==
        expected);
  rewrite(final, path,
          [](std::string name) { return "model" + name.substr(1); });
  CHECK(bytesOf(buildModel("gpt2.pt2", options), "m.transformer.wpe.weight") ==
        expected);
}

TEST_CASE("two ways to match are an error") {
  StatusOr<PrefixRule> rule = matchPrefixes(
      {"w", "b"}, {"encoder.w", "encoder.b", "decoder.w", "decoder.b"});
  CHECK_THAT(rule.status().toString(), Contains("in two ways"));
  CHECK(matchPrefixes({"w", "b"}, {"w", "b", "ema.w", "ema.b"})
            ->filePrefix.empty());
  CHECK(matchPrefixes({"w"}, {}).ok());
}

TEST_CASE("all missing and unexpected names are listed") {
  TemporaryFolder folder;
  std::string path = folder.file("a.safetensors");
  rewrite(modelPath("mlp.final.safetensors"), path, [](std::string name) {
    return name == "0.bias" ? "strange" : name == "4.weight" ? "" : name;
  });
  WeightOptions options;
  options.weights = path;
  CHECK_THAT(errorOf(modelPath("mlp.pt2"), options),
             Contains("missing: 0.bias, 4.weight; unexpected: strange"));
}

TEST_CASE("shapes and dtypes of given weights") {
  TemporaryFolder folder;
  std::string path = folder.file("a.safetensors");
  auto source = SafetensorsFile::open(modelPath("mlp.final.safetensors"));
  REQUIRE(source.ok());
  auto write = [&](const std::function<void(SafetensorsTensor &)> &change) {
    std::vector<SafetensorsTensor> tensors = (*source)->tensors();
    for (SafetensorsTensor &tensor : tensors)
      if (tensor.name == "0.bias")
        change(tensor);
    REQUIRE(writeSafetensors(path, tensors).ok());
    WeightOptions options;
    options.weights = path;
    return build(modelPath("mlp.pt2"), options);
  };
  CHECK_THAT(write([](SafetensorsTensor &tensor) { tensor.shape = {64, 2}; })
                 .status()
                 .toString(),
             Contains("'0.bias' is F32[64, 2] there, but the model has "
                      "F32[128]"));
  CHECK_THAT(write([](SafetensorsTensor &tensor) { tensor.dtype = DType::I32; })
                 .status()
                 .toString(),
             Contains("'0.bias' is I32[128] there"));
  // bfloat16 values are widened.
  std::vector<std::byte> narrow, wide;
  auto store = write([&](SafetensorsTensor &tensor) {
    narrow = *convertFloats(tensor.data, 128, DType::F32, DType::BF16);
    tensor.dtype = DType::BF16;
    tensor.data = narrow.data();
    tensor.bytes = narrow.size();
  });
  REQUIRE(store.ok());
  wide = *convertFloats(narrow.data(), 128, DType::BF16, DType::F32);
  CHECK(bytesOf(*store, "0.bias") == wide);
  CHECK(store->find("0.bias")->externalFile.empty());
  CHECK(store->find("0.weight")->externalFile == path);
}

TEST_CASE("a folder of Hugging Face") {
  TemporaryFolder folder;
  WeightOptions options;
  options.weights = folder.path;
  CHECK_THAT(errorOf(modelPath("mlp.pt2"), options),
             Contains("neither model.safetensors nor"));
  rewrite(modelPath("mlp.final.safetensors"), folder.file("p1.safetensors"),
          [](std::string name) { return name[0] == '0' ? name : ""; });
  rewrite(modelPath("mlp.final.safetensors"), folder.file("p2.safetensors"),
          [](std::string name) { return name[0] != '0' ? name : ""; });
  std::string index = folder.file("model.safetensors.index.json");
  Json map;
  for (const char *name :
       {"0.weight", "0.bias", "2.weight", "2.bias", "4.weight", "4.bias"})
    map[name] = name[0] == '0' ? "p1.safetensors" : "p2.safetensors";
  auto with = [&](const Json &weightMap) {
    std::ofstream(index) << Json{{"weight_map", weightMap}};
    return errorOf(modelPath("mlp.pt2"), options);
  };
  CHECK(with(map) == "ok");
  CHECK_THAT(with(3), Contains("expected an object 'weight_map'"));
  Json wrong = map;
  wrong["0.weight"] = "p2.safetensors";
  CHECK_THAT(with(wrong), Contains("but it does not"));
  wrong["0.weight"] = "../p1.safetensors";
  CHECK_THAT(with(wrong), Contains("not a file of the folder"));
  wrong["0.weight"] = "p3.safetensors";
  CHECK_THAT(with(wrong), Contains("p3.safetensors"));
}

TEST_CASE("conversions round to nearest even") {
  auto convert = [](float value, DType to) {
    auto bytes = convertFloats(reinterpret_cast<const std::byte *>(&value), 1,
                               DType::F32, to);
    auto back = convertFloats(bytes->data(), 1, to, DType::F32);
    float result;
    std::memcpy(&result, back->data(), 4);
    return result;
  };
  for (float value :
       {0.0f, -0.0f, 1.0f, -2.5f, 65504.0f, 6.1e-5f, 5.9604645e-8f})
    CHECK(convert(value, DType::F16) == Approx(value).epsilon(1e-3));
  CHECK(convert(65519.0f, DType::F16) == 65504.0f);
  CHECK(std::isinf(convert(65520.0f, DType::F16)));
  CHECK(convert(1.00048828125f, DType::F16) == 1.0f);         // a tie
  CHECK(convert(1.00146484375f, DType::F16) == 1.001953125f); // a tie
  CHECK(convert(2.9e-8f, DType::F16) == 0.0f);
  CHECK(convert(1.00390625f, DType::BF16) == 1.0f); // a tie
  CHECK(std::isnan(convert(NAN, DType::F16)));
  CHECK(std::isnan(convert(NAN, DType::BF16)));
  CHECK(std::isinf(convert(INFINITY, DType::BF16)));
  CHECK(convert(1.0f / 3, DType::F64) == 1.0f / 3);
}
