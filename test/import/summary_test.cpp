// An exported program in words.
#include "compiler/import/pt2/Reader.h"
#include "compiler/import/pt2/Summary.h"
#include "test/import/Pt2Fixture.h"

#include <catch2/catch.hpp>

using namespace lockstep;
using namespace lockstep::pt2;
using namespace lockstep::test;
using Catch::Matchers::Contains;

static std::string describe(const std::string &model,
                            const SummaryOptions &options = {}) {
  StatusOr<Pt2File> file = readPt2(modelPath(model));
  REQUIRE(file.ok());
  return describeProgram(file->program, options);
}

TEST_CASE("inputs, symbolic sizes and their ranges") {
  std::string text = describe("gpt2_dynamic.pt2");
  CHECK_THAT(text, Contains("pt2 archive, version 0, schema 8.20, torch 2.15"));
  CHECK_THAT(text, Contains("undecomposed graph"));
  CHECK_THAT(text, Contains("  input_ids               int64[s72, 64]\n"));
  CHECK_THAT(text, Contains("  s72 from 2 to 1024, exported with 8\n"));
  CHECK_THAT(text,
             Contains("  output:0                float32[s72, 64, 512]\n"));
}

TEST_CASE("tied parameters count once") {
  CHECK_THAT(describe("gpt2.pt2"),
             Contains("parameters: 29, 136,960 values, 547.8 KB, 1 tied\n") &&
                 Contains("tied to m.transformer.wte.weight\n"));
}

TEST_CASE("parameters without values say what to do") {
  CHECK_THAT(describe("full/gpt2_124m.pt2"),
             Contains("149 have no values: compile with --weights"));
  CHECK_THAT(describe("versions/mlp_torch2.6.pt2"),
             Contains("the values are pickled and not read"));
}

TEST_CASE("operators are counted") {
  CHECK_THAT(describe("mlp.pt2"), Contains("operators: 5 calls of 2\n"
                                           "       3  aten.linear.default\n"
                                           "       2  aten.relu.default\n"));
}

TEST_CASE("written buffers, in both forms of the graph") {
  for (const char *model : {"resnet18.pt2", "resnet18.core.pt2"}) {
    StatusOr<Pt2File> file = readPt2(modelPath(model));
    REQUIRE(file.ok());
    CHECK(mutatedBuffers(file->program).size() == 63);
    CHECK_THAT(describeProgram(file->program),
               Contains("buffers and constants: 63, 63 written"));
  }
  StatusOr<Pt2File> bert = readPt2(modelPath("bert.pt2"));
  REQUIRE(bert.ok());
  CHECK(mutatedBuffers(bert->program).empty());
}

TEST_CASE("a brief summary has totals only") {
  SummaryOptions brief;
  brief.tensors = brief.operators = false;
  std::string text = describe("full/gpt2_48_layers.pt2", brief);
  CHECK(std::count(text.begin(), text.end(), '\n') < 12);
}
