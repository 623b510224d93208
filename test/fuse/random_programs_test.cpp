//===- random_programs_test.cpp - Fuse and schedule keep what a program says
//-===//
//
// Draws programs of train operations that mix shapes, views, reductions, norms
// and products, so that values meet in kernels in all ways that the grouping
// allows, and runs each in the interpreter as it is, after fuse, and after
// schedule in the memory of the arena (where a buffer that was overwritten too
// early shows).
//
//===----------------------------------------------------------------------===//
#include "compiler/driver/Registration.h"
#include "compiler/fuse/Passes.h"
#include "compiler/reference/Feeds.h"
#include "compiler/schedule/Passes.h"
#include "dialects/plan/Plan.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include <catch2/catch.hpp>
#include <random>

using namespace mlir;
using namespace lockstep;

namespace {

using Shape = std::vector<int64_t>;

struct Value {
  std::string name;
  Shape shape;
};

std::string getType(const Shape &shape, const char *element = "f32") {
  std::string text = "tensor<";
  for (int64_t size : shape)
    text += std::to_string(size) + "x";
  return text + element + ">";
}

std::string getList(const Shape &values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i)
    text += (i ? ", " : "") + std::to_string(values[i]);
  return text + "]";
}

int64_t count(const Shape &shape) {
  int64_t elements = 1;
  for (int64_t size : shape)
    elements *= size;
  return elements;
}

/// Writes one program; every value is bounded, so that no rounding grows.
class ProgramWriter {
public:
  explicit ProgramWriter(unsigned seed) : random(seed) {}

  std::string write(int operations) {
    std::string arguments;
    for (Shape shape : {Shape{6, 8}, {6, 8}, {8}, {6}, {2, 3, 8}, {8, 4}, {}}) {
      std::string name = "%arg" + std::to_string(values.size());
      arguments +=
          (values.empty() ? "" : ", ") + name + ": " + getType(shape) +
          " {train.role = #train.role<input>, train.whole, train.name = \"a" +
          std::to_string(values.size()) + "\"}";
      values.push_back({name, shape});
    }
    while (operations > 0)
      operations -= addOperation();
    // The last values, and some from the middle, are results.
    std::string results, types, operands;
    size_t written = 0;
    for (size_t i = 7; i < values.size(); ++i) {
      if (i + 3 < values.size() && draw(4))
        continue;
      results += (written ? ", " : "") + getType(values[i].shape) +
                 " {train.role = #train.role<metric>, train.name = \"r" +
                 std::to_string(i) + "\"}";
      operands += (written ? ", " : "") + values[i].name;
      types += (written++ ? ", " : "") + getType(values[i].shape);
    }
    return "func.func @step(" + arguments + ") -> (" + results + ") {\n" +
           body + "  return " + operands + " : " + types + "\n}\n";
  }

private:
  int64_t draw(int64_t limit) {
    return static_cast<int64_t>(random() % static_cast<unsigned>(limit));
  }
  /// Prefers recent values, so that chains form.
  const Value &pick() {
    size_t recent = std::min<size_t>(values.size(), 6);
    return draw(3) ? values[values.size() - 1 - draw(recent)]
                   : values[draw(values.size())];
  }
  const Value *pickLike(const Shape &shape) {
    for (int attempt = 0; attempt < 20; ++attempt)
      if (const Value &value = pick(); value.shape == shape)
        return &value;
    return nullptr;
  }
  std::string add(const std::string &text, const Shape &shape) {
    std::string name = "%v" + std::to_string(next++);
    body += "  " + name + " = train." + text + "\n";
    values.push_back({name, shape});
    return name;
  }

  int addOperation() {
    Value x = pick();
    std::string type = getType(x.shape);
    auto rank = static_cast<int64_t>(x.shape.size());
    switch (draw(15)) {
    case 0:
    case 1: {
      const char *names[] = {"tanh", "logistic", "sine", "negate", "abs"};
      add(std::string(names[draw(5)]) + " " + x.name + " : " + type, x.shape);
      return 1;
    }
    case 2:
    case 3:
    case 4: {
      const char *names[] = {"add", "subtract", "maximum", "minimum"};
      const Value *y = pickLike(x.shape);
      if (!y)
        return 0;
      add(std::string(names[draw(4)]) + " " + x.name + ", " + y->name + " : " +
              type,
          x.shape);
      add("tanh %v" + std::to_string(next - 1) + " : " + type, x.shape);
      return 1;
    }
    case 5:
    case 6: {
      if (rank == 0)
        return 0;
      Shape dims, shape;
      for (int64_t i = 0; i < rank; ++i)
        (draw(2) ? dims : shape).push_back(i);
      Shape kept;
      for (int64_t i : shape)
        kept.push_back(x.shape[i]);
      if (dims.empty())
        return 0;
      add(std::string("reduce ") + (draw(3) ? "sum " : "max ") + x.name +
              " dims " + getList(dims) + " : " + type,
          kept);
      add("logistic %v" + std::to_string(next - 1) + " : " + getType(kept),
          kept);
      return 1;
    }
    case 7:
    case 8: {
      // To the shape of another value, along dimensions of the same size.
      Shape to = pick().shape, dims;
      size_t at = 0;
      for (size_t i = 0; i < to.size() && at < x.shape.size(); ++i)
        if (to[i] == x.shape[at]) {
          dims.push_back(static_cast<int64_t>(i));
          ++at;
        }
      if (at != x.shape.size() || to == x.shape)
        return 0;
      add("broadcast_in_dim " + x.name + " dims " + getList(dims) + " : " +
              type + " -> " + getType(to),
          to);
      return 1;
    }
    case 9: {
      Shape to = pick().shape;
      if (count(to) != count(x.shape) || to == x.shape)
        to = {count(x.shape)};
      add("reshape " + x.name + " : " + type + " -> " + getType(to), to);
      return 1;
    }
    case 10: {
      if (rank < 2)
        return 0;
      Shape permutation, to;
      for (int64_t i = 0; i < rank; ++i)
        permutation.push_back(rank - 1 - i);
      for (int64_t i : permutation)
        to.push_back(x.shape[i]);
      add("transpose " + x.name + " perm " + getList(permutation) + " : " +
              type,
          to);
      return 1;
    }
    case 11: {
      if (rank == 0 || x.shape[0] < 2)
        return 0;
      Shape starts(rank, 0), limits = x.shape, steps(rank, 1), to = x.shape;
      starts[0] = 1;
      to[0] -= 1;
      add("slice " + x.name + " " + getList(starts) + " to " + getList(limits) +
              " step " + getList(steps) + " : " + type,
          to);
      return 1;
    }
    case 12: {
      const Value *y = pickLike(x.shape);
      if (rank == 0 || !y || count(x.shape) > 200)
        return 0;
      Shape to = x.shape;
      to[rank - 1] *= 2;
      add("concatenate " + x.name + ", " + y->name + " dim " +
              std::to_string(rank - 1) + " : " + type + ", " + type,
          to);
      return 1;
    }
    case 13: {
      if (rank == 0)
        return 0;
      add("softmax " + x.name + " dim " + std::to_string(draw(rank)) + " : " +
              type,
          x.shape);
      return 1;
    }
    default: {
      // A product with a small matrix of the program's.
      if (rank != 2 || x.shape[1] != 8)
        return 0;
      add("dot_general " + x.name +
              ", %arg5 batch [] x [] contract [1] x [0] : " + type +
              ", tensor<8x4xf32>",
          {x.shape[0], 4});
      add("tanh %v" + std::to_string(next - 1) + " : " +
              getType({x.shape[0], 4}),
          {x.shape[0], 4});
      return 1;
    }
    }
  }

  std::mt19937 random;
  std::vector<Value> values;
  std::string body;
  int next = 0;
};

Feeds run(ModuleOp module, const Feeds &feeds) {
  FailureOr<Operation *> entry = findEntry(module, "step");
  REQUIRE(succeeded(entry));
  EntrySignature signature = getEntrySignature(*entry);
  auto arguments = distributeFeeds(signature, feeds, 1, 1);
  REQUIRE(arguments.ok());
  auto results = runEntry(*entry, 1, *arguments);
  REQUIRE(succeeded(results));
  return collectResults(signature, *results, 1, {});
}

} // namespace

TEST_CASE("random programs compute the same after fuse and after schedule") {
  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  for (unsigned seed = 0; seed < 600; ++seed) {
    std::string text = ProgramWriter(seed).write(10 + seed % 40);
    INFO("seed " << seed << "\n" << text);
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    REQUIRE(module);
    FailureOr<Operation *> entry = findEntry(*module, "step");
    REQUIRE(succeeded(entry));
    RandomOptions options;
    options.seed = seed;
    Feeds feeds = drawFeeds(getEntrySignature(*entry), options);
    Feeds expected = run(*module, feeds);

    PassManager fuse(&context);
    fuse::buildFusePipeline(fuse, fuse::FusePipelineOptions());
    REQUIRE(succeeded(fuse.run(*module)));
    Status fused = compareFeeds(run(*module, feeds), expected, 1e-4);
    INFO(fused.toString());
    REQUIRE(fused.ok());

    PassManager schedule(&context);
    schedule::buildSchedulePipeline(schedule, {});
    REQUIRE(succeeded(schedule.run(*module)));
    Status scheduled = compareFeeds(run(*module, feeds), expected, 1e-4);
    INFO(scheduled.toString());
    REQUIRE(scheduled.ok());
  }
}
