// The reader of .pt2 archives: every model, every container, every malformed
// input that a person or a bad disk produces.
#include "compiler/import/pt2/Archive.h"
#include "compiler/import/pt2/GraphReader.h"
#include "compiler/import/pt2/Reader.h"
#include "test/import/Pt2Fixture.h"

#include <catch2/catch.hpp>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

using namespace lockstep;
using namespace lockstep::pt2;
using namespace lockstep::test;
using Catch::Matchers::Contains;
using Json = nlohmann::json;

static Pt2File readModel(const std::string &name) {
  StatusOr<Pt2File> file = readPt2(modelPath(name));
  INFO(name << ": " << file.status().toString());
  REQUIRE(file.ok());
  return std::move(file).value();
}

/// The error line of a file that must not be readable.
static std::string errorOf(const std::string &path) {
  StatusOr<Pt2File> file = readPt2(path);
  if (file.ok())
    return "ok";
  CHECK(file.status().exitCode() == 1);
  CHECK(file.status().where().compare(0, path.size(), path) == 0);
  return file.status().toString();
}

TEST_CASE("all models are read") {
  for (const char *name : {"mlp",
                           "mlp.core",
                           "gpt2",
                           "gpt2_eager",
                           "gpt2_eager.core",
                           "gpt2_dynamic",
                           "llama",
                           "llama.core",
                           "bert",
                           "bert.core",
                           "resnet18",
                           "resnet18.core",
                           "vit",
                           "vit.core",
                           "gcn",
                           "gcn.core",
                           "moe",
                           "moe.core",
                           "full/bert_base",
                           "full/gpt2_124m",
                           "full/gpt2_48_layers",
                           "full/gpt2_cpu",
                           "full/llama_1.1b",
                           "full/resnet18_cpu",
                           "full/resnet50",
                           "versions/bert_torch2.9",
                           "versions/gpt2_transformers4.57",
                           "versions/llama_transformers4.57",
                           "versions/llama_transformers4.57.core",
                           "versions/mlp_torch2.9"}) {
    Pt2File file = readModel(std::string(name) + ".pt2");
    const ExportedProgram &program = file.program;
    CHECK(program.container == "pt2 archive, version 0");
    CHECK(program.weightsFormat == WeightsFormat::Raw);
    CHECK(program.schemaMajor == 8);
    CHECK(!program.graph.nodes.empty());
    size_t parameters = 0;
    for (const InputSpec &spec : program.inputSpecs) {
      CHECK(!spec.target.empty());
      parameters += spec.kind == InputSpec::Kind::Parameter;
    }
    size_t stored = 0;
    for (const StoredTensor &tensor : program.weights)
      stored += tensor.isParameter;
    // A strict export keeps one of two tied names as an input.
    CHECK(parameters <= stored);
  }
}

TEST_CASE("a small graph in all its parts") {
  Pt2File file = readModel("mlp.pt2");
  const ExportedProgram &program = file.program;
  const Graph &graph = program.graph;
  CHECK(program.torchVersion.substr(0, 4) == "2.15");
  CHECK(program.opsetVersion.at("aten") == 10);
  CHECK(program.verifiers == std::vector<std::string>{"TRAINING"});
  REQUIRE(graph.nodes.size() == 5);
  const Node &linear = graph.nodes[0];
  CHECK(linear.target == "torch.ops.aten.linear.default");
  CHECK(linear.input("weight")->tensorName() == "p_0_weight");
  CHECK(linear.input("alpha") == nullptr);
  CHECK(linear.inputs[0].kind == NamedArgument::Kind::Positional);
  REQUIRE(linear.outputs.size() == 1);
  const TensorMeta *meta = graph.tensor(linear.outputs[0].tensorName());
  REQUIRE(meta);
  CHECK(meta->dtype == ScalarType::F32);
  CHECK(meta->sizes[0].value == 32);
  CHECK(meta->sizes[1].value == 128);
  REQUIRE(program.inputSpecs.size() == 7);
  CHECK(program.inputSpecs[0].kind == InputSpec::Kind::Parameter);
  CHECK(program.inputSpecs[0].target == "0.weight");
  CHECK(program.inputSpecs[6].kind == InputSpec::Kind::UserInput);
  CHECK(program.inputSpecs[6].target == "input");
  CHECK(program.outputSpecs[0].kind == OutputSpec::Kind::UserOutput);
  auto frame = linear.metadata.innermostFrame();
  REQUIRE(frame);
  CHECK(frame->file == "torch/nn/modules/linear.py");
  CHECK(frame->function == "forward");
  CHECK(frame->code == "return F.linear(input, self.weight, self.bias)");
  auto modules = linear.metadata.modules();
  REQUIRE(modules.size() == 2);
  CHECK(modules[1].path == "0");
  CHECK(modules[1].type == "torch.nn.modules.linear.Linear");
}

TEST_CASE("the model's line stands for an operator, not PyTorch's") {
  Pt2File file = readModel("gpt2.pt2");
  for (const Node &node : file.program.graph.nodes)
    if (node.target == "torch.ops.aten.embedding.default") {
      CHECK_THAT(node.metadata.describe(),
                 Contains("modeling_gpt2.py") && Contains("self.wte"));
      return;
    }
  FAIL("no embedding");
}

TEST_CASE("a symbolic batch") {
  Pt2File file = readModel("gpt2_dynamic.pt2");
  const ExportedProgram &program = file.program;
  const TensorMeta *input = program.graph.tensor("input_ids");
  REQUIRE(input);
  REQUIRE(!input->sizes[0].isConcrete());
  CHECK(input->sizes[0].symbolic->expr.symbol == "s72");
  CHECK(*input->sizes[0].symbolic->hint == 8);
  CHECK(input->sizes[0].evaluate({{"s72", 4}}).value() == 4);
  CHECK(input->sizes[1].value == 64);
  CHECK(*program.rangeConstraints.at("s72").max == 1024);
  CHECK(program.graph.symIntValues.size() == 1);
}

static size_t countSubgraphs(const Graph &graph) {
  size_t count = 0;
  for (const Node &node : graph.nodes)
    for (const NamedArgument &input : node.inputs)
      if (const auto *subgraph = input.value.getIf<GraphArgument>()) {
        CHECK(subgraph->graph->outputs.size() == 2);
        count += 1 + countSubgraphs(*subgraph->graph);
      }
  return count;
}

TEST_CASE("subgraphs of higher-order operators") {
  // Rotary embedding without gradient, and in it a region without autocast.
  Pt2File file = readModel("versions/llama_transformers4.57.pt2");
  CHECK(countSubgraphs(file.program.graph) == 2);
}

TEST_CASE("buffers, their mutation, constants, frozen parameters") {
  Pt2File file = readModel("resnet18.core.pt2");
  size_t mutations = 0, buffers = 0;
  for (const OutputSpec &spec : file.program.outputSpecs)
    mutations += spec.kind == OutputSpec::Kind::BufferMutation;
  for (const InputSpec &spec : file.program.inputSpecs)
    buffers += spec.kind == InputSpec::Kind::Buffer;
  CHECK(mutations == 63);
  CHECK(buffers >= mutations);

  Pt2File llama = readModel("llama.pt2");
  for (const InputSpec &spec : llama.program.inputSpecs)
    if (spec.kind == InputSpec::Kind::Buffer)
      CHECK(!spec.persistent);
  CHECK(llama.program.constants.size() == 2);
}

TEST_CASE("weights without values, tied and empty records") {
  Pt2File tied = readModel("gpt2.pt2");
  std::string wte, head;
  for (const StoredTensor &tensor : tied.program.weights) {
    if (tensor.name == "m.transformer.wte.weight")
      wte = tensor.record;
    if (tensor.name == "m.lm_head.weight")
      head = tensor.record;
    CHECK(!tensor.isEmpty());
  }
  CHECK(wte == head);
  Pt2File empty = readModel("full/gpt2_124m.pt2");
  for (const StoredTensor &tensor : empty.program.weights)
    CHECK(tensor.isEmpty());
}

TEST_CASE("torch 2.6 keeps its weights in a pickle") {
  Pt2File file = readModel("versions/mlp_torch2.6.pt2");
  CHECK(file.program.container == "legacy archive, version 8.2");
  CHECK(file.program.weightsFormat == WeightsFormat::Pickled);
  CHECK(file.program.weights.empty());
  CHECK(file.program.inputSpecs.back().target == "input");
}

TEST_CASE("torch 2.8 has the new layout, with pickles") {
  Pt2Fixture fixture("mlp.pt2");
  fixture.remove("model_weights_config.json");
  fixture.remove("model_constants_config.json");
  fixture.records.emplace_back("mlp/data/weights/model.pt", "pickle");
  fixture.records.emplace_back("mlp/data/constants/model.pt", "pickle");
  StatusOr<Pt2File> file = readPt2(fixture.write());
  REQUIRE(file.ok());
  CHECK(file->program.weightsFormat == WeightsFormat::Pickled);
}

TEST_CASE("containers may be deflated, and their configs named as interim") {
  Pt2Fixture fixture("mlp.pt2");
  CHECK(errorOf(fixture.write(/*deflate=*/true)) == "ok");
  for (auto &[name, bytes] : fixture.records) {
    if (name == "mlp/data/weights/model_weights_config.json")
      name = "mlp/data/weights/model_model_param_config.json";
    if (name == "mlp/data/constants/model_constants_config.json")
      name = "mlp/data/constants/model_model_constants_config.json";
  }
  CHECK(errorOf(fixture.write()) == "ok");
}

TEST_CASE("unknown keys are tolerated") {
  Pt2Fixture fixture("mlp.pt2");
  Json model = fixture.json("model.json");
  model["new_field"] = {1, 2};
  model["graph_module"]["graph"]["nodes"][0]["new_field"] = nullptr;
  model["graph_module"]["graph"]["nodes"][0]["metadata"]["new"] = "x";
  fixture.setJson("model.json", model);
  CHECK(errorOf(fixture.write()) == "ok");
}

TEST_CASE("names of nested inputs") {
  Pt2Fixture fixture("bert.pt2");
  Json model = fixture.json("model.json");
  Json &signature = model["graph_module"]["module_call_graph"][0]["signature"];
  const std::string leaf =
      R"({"type": null, "context": null, "children_spec": []})";
  auto tree = [&](const std::string &args, const std::string &kwargs,
                  const std::string &keys) {
    return R"([1, {"type": "builtins.tuple", "context": "null", "children_spec": [)"
           R"({"type": "builtins.tuple", "context": "null", "children_spec": [)" +
           args + R"(]}, {"type": "builtins.dict", "context": ")" + keys +
           R"(", "children_spec": [)" + kwargs + "]}]}]";
  };
  auto names = [&] {
    fixture.setJson("model.json", model);
    StatusOr<Pt2File> file = readPt2(fixture.write());
    REQUIRE(file.ok());
    std::vector<std::string> result;
    for (const InputSpec &spec : file->program.inputSpecs)
      if (spec.kind == InputSpec::Kind::UserInput)
        result.push_back(spec.target);
    return result;
  };
  using Names = std::vector<std::string>;
  signature["in_spec"] = tree(leaf, leaf, R"([\"attention_mask\"])");
  CHECK(names() == Names{"input_ids", "attention_mask"});
  signature["forward_arg_names"] = {"batch"};
  signature["in_spec"] = tree(
      R"({"type": "builtins.dict", "context": "[\"ids\", \"mask\"]", "children_spec": [)" +
          leaf + "," + leaf + "]}",
      "", "[]");
  CHECK(names() == Names{"batch.ids", "batch.mask"});
  signature["in_spec"] = tree(
      R"({"type": "builtins.list", "context": "null", "children_spec": [)" +
          leaf + "," + leaf + "]}",
      "", "[]");
  CHECK(names() == Names{"batch.0", "batch.1"});
  // Another protocol: the placeholders' names.
  signature["in_spec"] = "[2, {}]";
  CHECK(names() == Names{"input_ids", "attention_mask"});
  signature["in_spec"] = "[1, ";
  fixture.setJson("model.json", model);
  CHECK_THAT(errorOf(fixture.write()), Contains("in_spec"));
}

//===-- Malformed containers ----------------------------------------------===//

TEST_CASE("files that are no archives") {
  Pt2Fixture fixture("mlp.pt2");
  CHECK_THAT(errorOf("missing.pt2"), Contains("cannot open the file"));
  CHECK_THAT(errorOf("."), Contains("."));
  CHECK_THAT(errorOf(fixture.writeRaw("")), Contains("zip archive"));
  CHECK_THAT(errorOf(fixture.writeRaw("hello world")),
             Contains("not a readable zip archive"));
  fixture.records = {{"model/data.pkl", "x"}, {"model/version", "3"}};
  CHECK_THAT(errorOf(fixture.write()), Contains("a pickle of torch.save"));
  fixture.records = {{"a/b", "x"}};
  CHECK_THAT(errorOf(fixture.write()),
             Contains("not an archive of torch.export"));
}

TEST_CASE("a cut-off file is refused wherever it is cut") {
  Pt2Fixture fixture("mlp.pt2");
  std::string whole = readFile(modelPath("mlp.pt2"));
  for (size_t part = 0; part < 64; ++part)
    CHECK(errorOf(fixture.writeRaw(
              whole.substr(0, whole.size() * part / 64))) != "ok");
  for (size_t missing = 1; missing < 200; ++missing)
    CHECK(errorOf(fixture.writeRaw(whole.substr(0, whole.size() - missing))) !=
          "ok");
}

TEST_CASE("a changed byte in a record is found by its checksum") {
  Pt2Fixture fixture("mlp.pt2");
  std::string whole = readFile(modelPath("mlp.pt2"));
  size_t inGraph = whole.find("\"graph_module\"");
  REQUIRE(inGraph != std::string::npos);
  whole[inGraph + 1] = 'G';
  CHECK_THAT(errorOf(fixture.writeRaw(whole)), Contains("CRC"));
  // A weight's: found when the weight is read.
  whole[inGraph + 1] = 'g';
  const std::string &weight = fixture.record("data/weights/weight_0");
  size_t position = whole.find(weight);
  REQUIRE(position != std::string::npos);
  whole[position + 1000] ^= 1;
  StatusOr<Pt2File> file = readPt2(fixture.writeRaw(whole));
  REQUIRE(file.ok());
  const Archive &archive = *file->archive;
  const Archive::Record *record =
      archive.find(archive.root() + "data/weights/weight_0");
  std::vector<std::byte> bytes(record->bytes);
  CHECK_THAT(archive.read(*record, bytes.data()).toString(), Contains("CRC"));
}

TEST_CASE("missing and wrong records") {
  auto without = [](const char *suffix) {
    Pt2Fixture fixture("mlp.pt2");
    fixture.remove(suffix);
    return errorOf(fixture.write());
  };
  CHECK_THAT(without("archive_format"),
             Contains("not an archive of torch.export"));
  CHECK_THAT(without("archive_version"), Contains("is missing"));
  CHECK_THAT(without("models/model.json"), Contains("no model in the archive"));
  CHECK_THAT(without("weights_config.json"), Contains("is missing"));
  CHECK_THAT(without("constants_config.json"), Contains("is missing"));
  CHECK_THAT(without("weight_3"),
             Contains("record 'data/weights/weight_3' is missing"));

  auto with = [](const char *suffix, const char *content) {
    Pt2Fixture fixture("mlp.pt2");
    fixture.record(suffix) = content;
    return errorOf(fixture.write());
  };
  CHECK_THAT(with("archive_format", "pt3"),
             Contains("archive format 'pt3' is not supported"));
  CHECK_THAT(with("archive_version", "1"),
             Contains("archive version '1' is not supported"));
  CHECK_THAT(with("byteorder", "big"),
             Contains("byte order 'big' is not supported"));
  CHECK_THAT(with("model.json", ""), Contains("malformed JSON"));
  CHECK_THAT(with("model.json", "{\"a\": 1"), Contains("malformed JSON"));
  CHECK_THAT(with("model.json", "[]"), Contains("expected an object"));
  CHECK_THAT(with("weights_config.json", "{"), Contains("malformed JSON"));
  CHECK_THAT(with("weights_config.json", "{}"),
             Contains("expected a field 'config'"));
  for (const char *name : {"a", "b"})
    CHECK_THAT(
        [&] {
          Pt2Fixture fixture("mlp.pt2");
          std::string model = fixture.record("models/model.json");
          fixture.remove("models/model.json");
          fixture.records.emplace_back("mlp/models/x.json", model);
          fixture.records.emplace_back(
              std::string("mlp/models/") + name + ".json", model);
          return errorOf(fixture.write());
        }(),
        Contains("expected one model in the archive"));
}

TEST_CASE("documents hold what their text says") {
  const char *text = R"({"z": [null, true, -7, 18446744073709551615, 0.25],
                        "a": "\u00e9\n\"", "": {}, "z": [[], {"k": 1}],
                        "b": 1, "c": 2, "d": 3, "e": 4, "f": 5, "g": 6, "h": 7,
                        "i": 8, "j": 9, "k": 10, "l": 11, "m": 12, "n": 13,
                        "o": 14, "a": [-7, 18446744073709551615, 0.25, null,
                        "\u00e9\n\""]})";
  StatusOr<JsonDocument> document = JsonDocument::parse(text, 3);
  REQUIRE(document.ok());
  // Sorted, and the last of equal keys counts, as with nlohmann's documents.
  CHECK(document->root().toText() == Json::parse(text).dump());
  CHECK(document->root().size() == 17);
  CHECK(document->root().find("q") == nullptr);
  const JsonValue &numbers = *document->root().find("a");
  int64_t integer = 0;
  CHECK(numbers[0].getInteger(integer));
  CHECK(integer == -7);
  CHECK_FALSE(numbers[1].getInteger(integer));
  CHECK(numbers[1].getNumber() == 18446744073709551615.0);
  CHECK(numbers[4].getText() == "\xc3\xa9\n\"");
  CHECK_FALSE(JsonDocument::parse(text, 2).ok());
  for (const char *wrong :
       {"", "{\"a\": 1", "[1,]", "1 2", "\"\xff\"", "1e999"})
    CHECK_FALSE(JsonDocument::parse(wrong, 9).ok());
}

TEST_CASE("deep nesting is refused in linear time") {
  Pt2Fixture fixture("mlp.pt2");
  fixture.record("model.json") = std::string(20'000'000, '[');
  CHECK_THAT(errorOf(fixture.write()), Contains("nested deeper than 256"));
  std::string deep = "{\"a\":";
  for (int i = 0; i < 100000; ++i)
    deep += "{\"a\":";
  fixture.record("model.json") = deep;
  CHECK_THAT(errorOf(fixture.write()), Contains("nested deeper than 256"));
  // Brackets in strings do not nest.
  fixture.record("model.json") =
      "{\"a\": \"" + std::string(1000, '[') + "\\\"[\"}";
  CHECK_THAT(errorOf(fixture.write()), Contains("expected a field"));
}

TEST_CASE("a hundred thousand unused values are read quickly") {
  Pt2Fixture fixture("mlp.pt2");
  Json model = fixture.json("model.json");
  Json &values = model["graph_module"]["graph"]["tensor_values"];
  Json meta = values.begin().value();
  for (int i = 0; i < 100000; ++i)
    values["unused_" + std::to_string(i)] = meta;
  fixture.setJson("model.json", model);
  std::string path = fixture.write();
  auto begin = std::chrono::steady_clock::now();
  CHECK(errorOf(path) == "ok");
  std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - begin;
  CHECK(seconds.count() < 10);
}

//===-- Malformed documents -----------------------------------------------===//

/// Decodes and verifies a document, without an archive.
static Status readDocument(const Json &document) {
  ExportedProgram program;
  GraphReader reader(program);
  LOCKSTEP_ASSIGN_OR_RETURN(JsonDocument read,
                            JsonDocument::parse(document.dump(), 256));
  LOCKSTEP_RETURN_IF_ERROR(reader.readProgram(JsonPlace(read.root())));
  LOCKSTEP_RETURN_IF_ERROR(verifyProgram(program));
  return nameUserInputs(program, 256);
}

/// Every value of a document, as a JSON pointer.
static void collectPointers(const Json &value, const Json::json_pointer &place,
                            std::vector<Json::json_pointer> &out) {
  out.push_back(place);
  if (value.is_object())
    for (const auto &[key, inner] : value.items())
      collectPointers(inner, place / key, out);
  if (value.is_array())
    for (size_t i = 0; i < value.size(); ++i)
      collectPointers(value[i], place / i, out);
}

TEST_CASE("a value of another type anywhere is an error or harmless") {
  Json model = Pt2Fixture("mlp.pt2").json("model.json");
  std::vector<Json::json_pointer> places;
  collectPointers(model, Json::json_pointer(), places);
  REQUIRE(places.size() > 400);
  size_t errors = 0, total = 0;
  for (const auto &place : places)
    for (const Json &wrong :
         {Json(), Json(42), Json(-1), Json(1.5), Json("x"), Json::array(),
          Json::object(), Json(true), Json(UINT64_MAX)}) {
      Json saved = model[place];
      if (saved.type() == wrong.type())
        continue;
      model[place] = wrong;
      Status status = readDocument(model);
      ++total;
      if (!status.ok()) {
        ++errors;
        CHECK(status.exitCode() == 1);
        CHECK(!status.what().empty());
      }
      model[place] = saved;
    }
  CHECK(readDocument(model).ok());
  // Most are fields that the reader needs; the rest are ones that it leaves.
  CHECK(errors > total * 6 / 10);
}

TEST_CASE("errors name the place and what was expected") {
  const Json model = Pt2Fixture("mlp.pt2").json("model.json");
  auto with = [&](const char *pointer, const Json &value) {
    Json changed = model;
    changed[Json::json_pointer(pointer)] = value;
    return readDocument(changed).toString();
  };
  auto without = [&](const char *parent, const char *name) {
    Json changed = model;
    changed[Json::json_pointer(parent)].erase(name);
    return readDocument(changed).toString();
  };
  const std::string graph = "/graph_module/graph", node = graph + "/nodes/0";
  CHECK(with("/schema_version/major", 9) ==
        "schema_version: schema version 9.20 is not supported; expected 8.x; "
        "export the model with torch 2.6 or later of the same schema");
  CHECK(with((node + "/inputs/0/arg").c_str(), {{"as_thing", 1}}) ==
        "graph_module.graph.nodes[0].inputs[0].arg: unknown kind 'as_thing' of "
        "an argument");
  CHECK(with((node + "/inputs/0/arg").c_str(),
             {{"as_int", 1}, {"as_float", 1}}) ==
        "graph_module.graph.nodes[0].inputs[0].arg: expected an object with "
        "exactly one field, but got object with 2 fields");
  CHECK(with((node + "/inputs/0/arg").c_str(), {{"as_int", "1"}}) ==
        "graph_module.graph.nodes[0].inputs[0].arg.as_int: expected an "
        "integer, but got string");
  CHECK(with((node + "/inputs/0/arg").c_str(),
             {{"as_tensor", {{"name", "nothing"}}}}) ==
        "graph: node 0 (torch.ops.aten.linear.default): value 'nothing' is "
        "used but not defined before");
  CHECK(with((node + "/outputs/0").c_str(),
             {{"as_tensor", {{"name", "input"}}}}) ==
        "graph: node 0 (torch.ops.aten.linear.default): value 'input' is "
        "defined twice");
  CHECK(
      with((node + "/outputs/0").c_str(), {{"as_tensor", {{"name", "new"}}}}) ==
      "graph: node 0 (torch.ops.aten.linear.default): value 'new' has no "
      "entry in the graph's tables");
  CHECK(without(node.c_str(), "target") ==
        "graph_module.graph.nodes[0]: expected a field 'target'");
  CHECK(without("/graph_module", "signature") ==
        "graph_module: expected a field 'signature'");
  const std::string meta = graph + "/tensor_values/linear";
  CHECK(with((meta + "/sizes/0").c_str(), {{"as_int", -4}}) ==
        "graph_module.graph.tensor_values.linear.sizes[0]: expected a number "
        "that is not negative, but got -4");
  CHECK(with((meta + "/dtype").c_str(), 99) ==
        "graph_module.graph.tensor_values.linear.dtype: unknown element type "
        "99");
  CHECK(with((meta + "/layout").c_str(), 99) ==
        "graph_module.graph.tensor_values.linear.layout: unknown layout 99");
  CHECK(with((meta + "/sizes").c_str(), Json::array()) ==
        "graph_module.graph.tensor_values.linear: expected as many strides as "
        "sizes, but got 2 and 0");
  CHECK_THAT(with((meta + "/sizes/0").c_str(),
                  {{"as_expr", {{"expr_str", "Foo(Integer(1))"}}}}),
             Contains("function 'Foo' is not supported"));
  const std::string specs = "/graph_module/signature/input_specs";
  CHECK(with((specs + "/0").c_str(), {{"secret", Json::object()}}) ==
        "graph_module.signature.input_specs[0]: unknown kind 'secret' of an "
        "input");
  CHECK(with((specs + "/0").c_str(), model[Json::json_pointer(specs + "/1")]) ==
        "the signature's input 0 is not the graph's");
  Json fewer = model;
  fewer[Json::json_pointer(specs)].erase(0);
  CHECK(readDocument(fewer).toString() ==
        "expected as many inputs in the signature as in the graph, but got 6 "
        "and 7");
}

TEST_CASE("every kind of argument is decoded") {
  auto decode = [](const char *text) {
    ExportedProgram program;
    StatusOr<JsonDocument> json = JsonDocument::parse(text, 9);
    REQUIRE(json.ok());
    Argument argument;
    Status status =
        GraphReader(program).readArgument(JsonPlace(json->root()), argument);
    INFO(text << ": " << status.toString());
    REQUIRE(status.ok());
    if (std::string_view(text).find("as_optional_tensor\"") ==
        std::string_view::npos)
      CHECK(*json->root().fields().begin()->key == argument.kindName());
    return argument;
  };
  CHECK(decode(R"({"as_none": true})").isNone());
  CHECK(decode(R"({"as_tensor": {"name": "a"}})").tensorName() == "a");
  CHECK(decode(R"({"as_tensors": [{"name": "a"}, {"name": "b"}]})")
            .getIf<std::vector<TensorArgument>>()
            ->at(1)
            .name == "b");
  CHECK(*decode(R"({"as_int": -5})").getIf<int64_t>() == -5);
  CHECK(
      decode(R"({"as_ints": [1, 2]})").getIf<std::vector<int64_t>>()->size() ==
      2);
  CHECK(std::isinf(*decode(R"({"as_float": "-Infinity"})").getIf<double>()));
  CHECK(*decode(R"({"as_float": 3})").getIf<double>() == 3);
  CHECK(decode(R"({"as_floats": [1.5]})").getIf<std::vector<double>>()->at(0) ==
        1.5);
  CHECK(*decode(R"({"as_string": "s"})").getIf<std::string>() == "s");
  CHECK(decode(R"({"as_strings": ["s"]})")
            .getIf<std::vector<std::string>>()
            ->size() == 1);
  CHECK(decode(R"({"as_sym_int": {"as_name": "s0"}})")
            .getIf<SymIntArgument>()
            ->name == "s0");
  CHECK(decode(R"({"as_sym_ints": [{"as_int": 3}, {"as_name": "s0"}]})")
            .getIf<std::vector<SymIntArgument>>()
            ->at(0)
            .value == 3);
  CHECK(*decode(R"({"as_scalar_type": 13})").getIf<ScalarType>() ==
        ScalarType::BF16);
  CHECK(*decode(R"({"as_memory_format": 2})").getIf<MemoryFormat>() ==
        MemoryFormat::ChannelsLast);
  CHECK(*decode(R"({"as_layout": 7})").getIf<Layout>() == Layout::Strided);
  CHECK(*decode(R"({"as_device": {"type": "cuda", "index": 1}})")
             .getIf<Device>()
             ->index == 1);
  CHECK(*decode(R"({"as_bool": true})").getIf<bool>());
  CHECK(decode(R"({"as_bools": [true]})").getIf<std::vector<bool>>()->size() ==
        1);
  CHECK(decode(R"({"as_sym_bool": {"as_bool": true}})")
            .getIf<SymBoolArgument>()
            ->value);
  decode(R"({"as_sym_bools": []})");
  CHECK(decode(R"({"as_optional_tensors": [{"as_none": true},
                                           {"as_tensor": {"name": "a"}}]})")
            .getIf<std::vector<OptionalTensorArgument>>()
            ->at(0)
            .isNone());
  CHECK(decode(R"({"as_optional_tensor": {"as_none": true}})").isNone());
  CHECK(decode(R"({"as_optional_tensor": {"as_tensor": {"name": "a"}}})")
            .tensorName() == "a");
  decode(R"({"as_custom_obj": {"name": "o", "class_fqn": "c"}})");
  CHECK(decode(R"({"as_operator": "torch.ops.aten.add.Tensor"})")
            .getIf<OperatorArgument>()
            ->target == "torch.ops.aten.add.Tensor");
  decode(R"({"as_sym_float": {"as_float": 1.0}})");
  decode(R"({"as_sym_floats": [{"as_name": "f"}]})");
  CHECK(decode(R"({"as_complex": {"real": 1.0, "imag": 2.0}})")
            .getIf<ComplexValue>()
            ->imag == 2);
  decode(R"({"as_nested_tensors": [[{"name": "a"}], []]})");
  CHECK(decode(R"({"as_int_lists": [[1], [2, 3]]})")
            .getIf<std::vector<std::vector<int64_t>>>()
            ->at(1)
            .size() == 2);
  decode(R"({"as_float_lists": [[1.0]]})");
  CHECK(decode(R"({"as_string_to_argument": {"k": {"as_int": 1}}})")
            .getIf<StringToArgument>()
            ->entries.size() == 1);
  decode(R"({"as_graph": {"name": "g", "graph": {"inputs": [], "outputs": [],
            "nodes": [], "tensor_values": {}}}})");
}

//===-- Stored tensors ----------------------------------------------------===//

TEST_CASE("a stored tensor must lie inside its record") {
  auto with = [](const char *field, const Json &value,
                 const char *content = nullptr) {
    Pt2Fixture fixture("mlp.pt2");
    Json config = fixture.json("weights_config.json");
    config[Json::json_pointer(std::string("/config/0.weight") + field)] = value;
    fixture.setJson("weights_config.json", config);
    if (content)
      fixture.record("weight_0") = content;
    return errorOf(fixture.write());
  };
  CHECK_THAT(with("/tensor_meta/sizes/0", {{"as_int", 129}}),
             Contains("needs 33024 bytes, but record 'weight_0' has 32768"));
  CHECK_THAT(with("/tensor_meta/storage_offset", {{"as_int", 1}}),
             Contains("needs 32772 bytes"));
  CHECK_THAT(with("/tensor_meta/strides/0", {{"as_int", 65}}),
             Contains("needs "));
  CHECK_THAT(with("/tensor_meta/storage_offset", {{"as_int", -1}}),
             Contains("not negative"));
  CHECK_THAT(with("/tensor_meta/sizes/0", {{"as_int", INT64_MAX}}),
             Contains("overflows"));
  CHECK_THAT(with("/tensor_meta/sizes/0",
                  {{"as_expr", {{"expr_str", "Symbol('s0')"}}}}),
             Contains("symbolic size"));
  CHECK_THAT(with("/tensor_meta/layout", 1), Contains("sparse"));
  CHECK_THAT(with("/tensor_meta", nullptr), Contains("expected an object"));
  CHECK_THAT(with("/path_name", "../x"), Contains("is missing"));
  CHECK_THAT(with("/path_name", 3), Contains("expected a string"));
  CHECK_THAT(with("/is_param", true, "short"),
             Contains("but record 'weight_0' has 5"));
  // No bytes at all: a model without values.
  CHECK(with("/is_param", true, "") == "ok");
  // An expanded view larger than any record.
  CHECK_THAT(with("/tensor_meta", {{"dtype", 7},
                                   {"sizes", {{{"as_int", 1LL << 40}}}},
                                   {"strides", {{{"as_int", 0}}}},
                                   {"storage_offset", {{"as_int", 0}}},
                                   {"requires_grad", true},
                                   {"device", {{"type", "cpu"}}},
                                   {"layout", 7}}),
             Contains("too large"));
}
