//===- rules_test.cpp - Every operation whole and in parts ----------------===//
//
// Each operation runs whole in the reference interpreter, then divided along
// each dimension of each of its operands in turn (and along two at once, over
// two axes), on 2 and 4 ranks: with its factor rule, propagation, localization
// and the collectives. Every rank must have the whole results. The last test
// makes sure that no operation was forgotten.
//
//===----------------------------------------------------------------------===//
#include "compiler/driver/Registration.h"
#include "compiler/reference/Interpreter.h"
#include "compiler/sharding/Localization.h"
#include "compiler/sharding/Propagation.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

using namespace mlir;
using namespace lockstep;
using sharding::MeshOp;
using sharding::ShardingAttr;

namespace {

struct Case {
  std::string arguments, types, body, results;
};

/// One dimension of one argument, and the axis that divides it.
struct Division {
  unsigned argument;
  int64_t dim;
  std::string axis;
};

} // namespace

static MLIRContext &getContext() {
  static MLIRContext *context = [] {
    DialectRegistry registry;
    registerAllDialects(registry);
    auto *context = new MLIRContext(registry, MLIRContext::Threading::DISABLED);
    context->loadAllAvailableDialects();
    return context;
  }();
  return *context;
}

static OwningOpRef<ModuleOp> parse(const Case &test) {
  return parseSourceString<ModuleOp>(
      "func.func @main(" + test.arguments + ") -> (" + test.types + ") {\n" +
          test.body + "\nreturn " + test.results + " : " + test.types + "\n}",
      &getContext());
}

static HostTensor draw(RankedTensorType type, std::mt19937 &random) {
  std::uniform_real_distribution<double> real(0.2, 0.95);
  std::uniform_int_distribution<int64_t> integer(
      0, type.getElementType().isInteger(1) ? 1 : 2);
  if (isa<FloatType>(type.getElementType())) {
    std::vector<double> values(type.getNumElements());
    for (double &value : values)
      value = real(random);
    return HostTensor::fromDoubles(type, values);
  }
  std::vector<int64_t> values(type.getNumElements());
  for (int64_t &value : values)
    value = integer(random);
  return HostTensor::fromInts(type, values);
}

/// Block `place` of `count` along `dim`.
static HostTensor cut(const HostTensor &tensor, int64_t dim, int64_t place,
                      int64_t count) {
  SmallVector<int64_t> shape(tensor.getShape());
  int64_t inner = 1, outer = 1, size = shape[dim], part = size / count;
  for (int64_t i = 0; i < static_cast<int64_t>(shape.size()); ++i)
    (i < dim ? outer : i > dim ? inner : size) *= i == dim ? 1 : shape[i];
  shape[dim] = part;
  std::vector<double> all = tensor.toDoubles(), values;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < part * inner; ++i)
      values.push_back(all[o * size * inner + place * part * inner + i]);
  auto type = RankedTensorType::get(shape, tensor.getElementType());
  if (tensor.isFloat())
    return HostTensor::fromDoubles(type, values);
  return HostTensor::fromInts(
      type, std::vector<int64_t>(values.begin(), values.end()));
}

/// Marks arguments and results, propagates and localizes.
static func::FuncOp divide(ModuleOp module, MeshOp mesh,
                           ArrayRef<Division> divisions) {
  auto function = module.lookupSymbol<func::FuncOp>("main");
  for (auto [i, type] : llvm::enumerate(function.getResultTypes()))
    function.setResultAttr(
        i, dist::DistDialect::kShardingAttr,
        ShardingAttr::getReplicated(&getContext(),
                                    cast<RankedTensorType>(type).getRank()));
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto type = cast<RankedTensorType>(function.getArgumentTypes()[i]);
    SmallVector<sharding::AxesAttr> dims(type.getRank(),
                                         sharding::getNoAxes(&getContext()));
    for (const Division &division : divisions)
      if (division.argument == i)
        dims[division.dim] = sharding::AxesAttr::get(
            &getContext(), ArrayRef<StringRef>(division.axis));
    function.setArgAttr(
        i, dist::DistDialect::kShardingAttr,
        sharding::withDims(
            ShardingAttr::getReplicated(&getContext(), type.getRank()), dims));
  }
  REQUIRE(succeeded(sharding::propagate(function, mesh)));
  REQUIRE(succeeded(sharding::localize(function, mesh)));
  REQUIRE(succeeded(verify(module)));
  return function;
}

static void compare(ArrayRef<RankTensors> results,
                    ArrayRef<HostTensor> expected, int64_t ranks) {
  for (auto [i, whole] : llvm::enumerate(expected)) {
    std::vector<double> values = whole.toDoubles();
    for (int64_t rank = 0; rank < ranks; ++rank) {
      std::vector<double> actual = results[i][rank].toDoubles();
      REQUIRE(actual.size() == values.size());
      for (size_t j = 0; j < values.size(); ++j) {
        INFO("result " << i << " on rank " << rank << ", element " << j);
        CHECK(actual[j] == Approx(values[j]).epsilon(1e-9).margin(1e-12));
      }
    }
  }
}

/// `axes` are names and sizes of the mesh.
static void checkDivided(const Case &test, ArrayRef<HostTensor> arguments,
                         ArrayRef<HostTensor> expected,
                         ArrayRef<std::pair<StringRef, int64_t>> axes,
                         ArrayRef<Division> divisions) {
  OwningOpRef<ModuleOp> module = parse(test);
  OpBuilder builder(module->getBodyRegion());
  SmallVector<StringRef> names;
  SmallVector<int64_t> sizes;
  for (auto [name, size] : axes) {
    names.push_back(name);
    sizes.push_back(size);
  }
  auto mesh = MeshOp::create(builder, builder.getUnknownLoc(), "mesh",
                             builder.getStrArrayAttr(names),
                             builder.getDenseI64ArrayAttr(sizes));
  std::string where;
  for (const Division &division : divisions)
    where += " argument " + std::to_string(division.argument) + " dimension " +
             std::to_string(division.dim) + " over " + division.axis;
  INFO("divided:" << where << " on " << mesh.getNumRanks() << " ranks");
  func::FuncOp function = divide(*module, mesh, divisions);
  SmallVector<RankTensors> inputs(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i)
    for (int64_t rank = 0; rank < mesh.getNumRanks(); ++rank) {
      HostTensor tensor = arguments[i];
      for (const Division &division : divisions) {
        sharding::AxesAttr list = sharding::AxesAttr::get(
            &getContext(), ArrayRef<StringRef>(division.axis));
        if (division.argument == i)
          tensor = cut(tensor, division.dim, mesh.getCoordinate(rank, list),
                       mesh.getSize(list));
      }
      inputs[i].push_back(tensor);
    }
  auto results = interpretRanks(function, mesh.getNumRanks(), inputs);
  REQUIRE(succeeded(results));
  compare(*results, expected, mesh.getNumRanks());
}

static void check(const Case &test) {
  INFO(test.body);
  OwningOpRef<ModuleOp> module = parse(test);
  REQUIRE(module);
  auto function = module->lookupSymbol<func::FuncOp>("main");
  std::mt19937 random(7);
  SmallVector<HostTensor> arguments;
  for (Type type : function.getArgumentTypes())
    arguments.push_back(draw(cast<RankedTensorType>(type), random));
  auto expected = interpret(function, arguments);
  REQUIRE(succeeded(expected));

  SmallVector<Division> all;
  for (auto [i, argument] : llvm::enumerate(arguments))
    for (auto [dim, size] : llvm::enumerate(argument.getShape()))
      for (int64_t ranks : {2, 4})
        if (size % ranks == 0) {
          Division division{static_cast<unsigned>(i), static_cast<int64_t>(dim),
                            "data"};
          checkDivided(test, arguments, *expected, {{"data", ranks}},
                       {division});
          if (ranks == 2)
            all.push_back(division);
        }
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = i + 1; j < all.size(); ++j) {
      Division other = all[j];
      other.axis = "model";
      checkDivided(test, arguments, *expected, {{"data", 2}, {"model", 2}},
                   {all[i], other});
    }
}

static const char *kBatchNorm =
    "%y, %mean, %rstd, %m2, %v2 = train.batch_norm %x weight %w bias %b "
    "running %m, %v momentum 0.1 eps 1.0e-05 : (tensor<4x6x2xf64>, "
    "tensor<6xf64>, tensor<6xf64>, tensor<6xf64>, tensor<6xf64>) -> "
    "(tensor<4x6x2xf64>, tensor<6xf64>, tensor<6xf64>, tensor<6xf64>, "
    "tensor<6xf64>)";

static std::vector<Case> getCases() {
  std::vector<Case> cases;
  for (const char *op : {"negate",
                         "abs",
                         "sign",
                         "exponential",
                         "exponential_minus_one",
                         "log",
                         "log_plus_one",
                         "tanh",
                         "logistic",
                         "sqrt",
                         "rsqrt",
                         "sine",
                         "cosine",
                         "tan",
                         "atan",
                         "erf",
                         "floor",
                         "ceil",
                         "round_nearest_even",
                         "truncate",
                         "stop_gradient"})
    cases.push_back({"%a: tensor<4x2xf64>", "tensor<4x2xf64>",
                     std::string("%0 = train.") + op + " %a : tensor<4x2xf64>",
                     "%0"});
  for (const char *op :
       {"add", "subtract", "multiply", "divide", "floor_divide", "remainder",
        "modulo", "power", "maximum", "minimum", "atan2"})
    cases.push_back(
        {"%a: tensor<4x2xf64>, %b: tensor<4x2xf64>", "tensor<4x2xf64>",
         std::string("%0 = train.") + op + " %a, %b : tensor<4x2xf64>", "%0"});
  for (const char *op : {"and", "or", "xor", "shift_left", "shift_right"})
    cases.push_back(
        {"%a: tensor<4xi64>, %b: tensor<4xi64>", "tensor<4xi64>",
         std::string("%0 = train.") + op + " %a, %b : tensor<4xi64>", "%0"});
  cases.push_back({"%a: tensor<4xi1>", "tensor<4xi1>",
                   "%0 = train.not %a : tensor<4xi1>", "%0"});
  auto add = [&](std::string arguments, std::string types, std::string body,
                 std::string results = "%0") {
    cases.push_back({arguments, types, body, results});
  };
  add("%a: tensor<4xf64>, %b: tensor<4xf64>", "tensor<4xi1>",
      "%0 = train.compare lt %a, %b : tensor<4xf64>");
  add("%p: tensor<4xi1>, %a: tensor<4xf64>, %b: tensor<4xf64>", "tensor<4xf64>",
      "%0 = train.select %p, %a, %b : tensor<4xi1>, tensor<4xf64>");
  add("%a: tensor<4xi64>", "tensor<4xf64>",
      "%0 = train.convert %a : tensor<4xi64> -> tensor<4xf64>");
  add("%a: tensor<4x6xf64>, %r: tensor<2xi64>", "tensor<4x6xf64>",
      "%0 = train.dropout %a, %r {rate = 0.5 : f64, id = 3 : i64} : "
      "tensor<4x6xf64>, tensor<2xi64>");
  // Values of no operand meet divided ones.
  add("%a: tensor<4x2xf64>", "tensor<4x2xf64>",
      "%c = train.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, "
      "8.0]]> : tensor<4x2xf64>\n%i = train.iota dim 0 : tensor<4x2xf64>\n"
      "%s = train.constant dense<3.0> : tensor<4x2xf64>\n"
      "%1 = train.multiply %a, %c : tensor<4x2xf64>\n"
      "%2 = train.add %1, %i : tensor<4x2xf64>\n"
      "%0 = train.multiply %2, %s : tensor<4x2xf64>");
  add("%a: tensor<4x1xf64>, %b: tensor<4x6x2xf64>", "tensor<4x6x2xf64>",
      "%1 = train.broadcast_in_dim %a dims [0, 1] : tensor<4x1xf64> -> "
      "tensor<4x6x2xf64>\n%0 = train.add %1, %b : tensor<4x6x2xf64>");
  for (auto [from, to] :
       {std::pair("4x6", "24"), std::pair("24", "4x6"), std::pair("4x6", "6x4"),
        std::pair("2x8", "8x2"), std::pair("2x3x4", "4x6"),
        std::pair("4x1x6", "4x6x1"), std::pair("16", "2x8")})
    add(std::string("%a: tensor<") + from + "xf64>",
        std::string("tensor<") + to + "xf64>",
        std::string("%0 = train.reshape %a : tensor<") + from +
            "xf64> -> tensor<" + to + "xf64>");
  add("%a: tensor<4x6x2xf64>", "tensor<2x4x6xf64>",
      "%0 = train.transpose %a perm [2, 0, 1] : tensor<4x6x2xf64>");
  add("%a: tensor<4x6xf64>", "tensor<4x2xf64>",
      "%0 = train.slice %a [0, 1] to [4, 5] step [1, 2] : tensor<4x6xf64>");
  add("%a: tensor<4x6xf64>, %v: tensor<f64>", "tensor<4x9xf64>",
      "%0 = train.pad %a, %v low [0, 1] high [0, 2] interior [0, 0] : "
      "tensor<4x6xf64>, tensor<f64>");
  add("%a: tensor<4x6xf64>, %b: tensor<4x2xf64>", "tensor<4x8xf64>",
      "%0 = train.concatenate %a, %b dim 1 : tensor<4x6xf64>, "
      "tensor<4x2xf64>");
  add("%a: tensor<4x6xf64>", "tensor<4x6xf64>",
      "%0 = train.reverse %a dims [1] : tensor<4x6xf64>");
  add("%a: tensor<4x6xf64>, %i: tensor<2x8xi64>", "tensor<2x8x6xf64>",
      "%0 = train.gather %a[%i] dims [0] batch 0 : tensor<4x6xf64>, "
      "tensor<2x8xi64>");
  add("%a: tensor<4x6x2xf64>, %i: tensor<4x8xi64>", "tensor<4x8x2xf64>",
      "%0 = train.gather %a[%i] dims [1] batch 1 : tensor<4x6x2xf64>, "
      "tensor<4x8xi64>");
  for (const char *kind : {"add", "replace", "max", "min", "multiply"})
    add("%a: tensor<4x6xf64>, %i: tensor<8xi64>, %u: tensor<8x6xf64>",
        "tensor<4x6xf64>",
        std::string("%0 = train.scatter ") + kind +
            " %a[%i], %u dims [0] batch 0 : tensor<4x6xf64>, tensor<8x6xf64>, "
            "tensor<8xi64>");
  add("%i: tensor<8xi64>, %u: tensor<8x6xf64>", "tensor<4x6xf64>",
      "%z = train.constant dense<0.0> : tensor<4x6xf64>\n%0 = train.scatter "
      "add %z[%i], %u dims [0] batch 0 : tensor<4x6xf64>, tensor<8x6xf64>, "
      "tensor<8xi64>");
  add("%a: tensor<4x6xf64>", "tensor<4x6xf64>, tensor<4x6xi64>",
      "%0, %1 = train.sort %a dim 1 {descending} : tensor<4x6xf64>", "%0, %1");
  add("%a: tensor<4x6xf64>", "tensor<4x6xf64>",
      "%0 = train.cumulative sum %a dim 1 : tensor<4x6xf64>");
  for (const char *kind : {"sum", "product", "max", "min"})
    add("%a: tensor<4x6x2xf64>", "tensor<6xf64>",
        std::string("%0 = train.reduce ") + kind +
            " %a dims [0, 2] : tensor<4x6x2xf64>");
  add("%a: tensor<4x6xf64>", "tensor<4xi64>",
      "%0 = train.arg_reduce max %a dim 1 : tensor<4x6xf64>");
  add("%a: tensor<2x4x6xf64>, %b: tensor<2x6x8xf64>", "tensor<2x4x8xf64>",
      "%0 = train.dot_general %a, %b batch [0] x [0] contract [2] x [1] : "
      "tensor<2x4x6xf64>, tensor<2x6x8xf64>");
  const std::string window =
      " strides [2, 1] padding [1, 0] to [1, 0] dilation [1, 1] groups 2 : ";
  add("%x: tensor<4x4x6x4xf64>, %w: tensor<8x2x3x1xf64>", "tensor<4x8x3x4xf64>",
      "%0 = train.convolution %x, %w" + window +
          "tensor<4x4x6x4xf64>, tensor<8x2x3x1xf64>");
  add("%d: tensor<4x8x3x4xf64>, %w: tensor<8x2x3x1xf64>", "tensor<4x4x6x4xf64>",
      "%0 = train.convolution_input_gradient %d, %w" + window +
          "tensor<4x8x3x4xf64>, tensor<8x2x3x1xf64> -> tensor<4x4x6x4xf64>");
  add("%x: tensor<4x4x6x4xf64>, %d: tensor<4x8x3x4xf64>", "tensor<8x2x3x1xf64>",
      "%0 = train.convolution_filter_gradient %x, %d" + window +
          "tensor<4x4x6x4xf64>, tensor<4x8x3x4xf64> -> tensor<8x2x3x1xf64>");
  const std::string pool =
      " window [2, 1] strides [2, 1] padding [0, 0] to [0, 0] dilation [1, "
      "1] : ";
  for (const char *kind : {"max", "sum"}) {
    add("%x: tensor<4x2x4x2xf64>", "tensor<4x2x2x2xf64>",
        std::string("%0 = train.reduce_window ") + kind + " %x" + pool +
            "tensor<4x2x4x2xf64>");
    add("%x: tensor<4x2x4x2xf64>, %d: tensor<4x2x2x2xf64>",
        "tensor<4x2x4x2xf64>",
        std::string("%0 = train.reduce_window_gradient ") + kind + " %x, %d" +
            pool + "tensor<4x2x4x2xf64>, tensor<4x2x2x2xf64>");
  }
  for (const char *op : {"softmax", "log_softmax"})
    add("%x: tensor<4x6xf64>", "tensor<4x6xf64>",
        std::string("%0 = train.") + op + " %x dim 1 : tensor<4x6xf64>");
  add("%x: tensor<4x6xf64>, %w: tensor<6xf64>, %b: tensor<6xf64>, %d: "
      "tensor<4x6xf64>",
      "tensor<4x6xf64>, tensor<4x6xf64>, tensor<6xf64>, tensor<6xf64>",
      "%y, %m, %r = train.layer_norm %x weight %w bias %b axes 1 eps 1.0e-05 : "
      "(tensor<4x6xf64>, tensor<6xf64>, tensor<6xf64>) -> (tensor<4x6xf64>, "
      "tensor<4xf64>, tensor<4xf64>)\n%dx, %dw, %db = "
      "train.layer_norm_gradient %d, %x, %m, %r weight %w axes 1 : "
      "(tensor<4x6xf64>, tensor<4x6xf64>, tensor<4xf64>, tensor<4xf64>, "
      "tensor<6xf64>) -> (tensor<4x6xf64>, tensor<6xf64>, tensor<6xf64>)",
      "%y, %dx, %dw, %db");
  add("%x: tensor<4x6xf64>, %w: tensor<6xf64>, %d: tensor<4x6xf64>",
      "tensor<4x6xf64>, tensor<4x6xf64>, tensor<6xf64>",
      "%y, %r = train.rms_norm %x weight %w axes 1 eps 1.0e-05 : "
      "(tensor<4x6xf64>, tensor<6xf64>) -> (tensor<4x6xf64>, tensor<4xf64>)\n"
      "%dx, %dw = train.rms_norm_gradient %d, %x, %r weight %w axes 1 : "
      "(tensor<4x6xf64>, tensor<4x6xf64>, tensor<4xf64>, tensor<6xf64>) -> "
      "(tensor<4x6xf64>, tensor<6xf64>)",
      "%y, %dx, %dw");
  add("%x: tensor<4x6x2xf64>, %w: tensor<6xf64>, %b: tensor<6xf64>, %m: "
      "tensor<6xf64>, %v: tensor<6xf64>, %d: tensor<4x6x2xf64>",
      "tensor<4x6x2xf64>, tensor<6xf64>, tensor<6xf64>, tensor<4x6x2xf64>, "
      "tensor<6xf64>, tensor<6xf64>",
      std::string(kBatchNorm) +
          "\n%dx, %dw, %db = train.batch_norm_gradient %d, %x, %mean, %rstd "
          "weight %w : (tensor<4x6x2xf64>, tensor<4x6x2xf64>, tensor<6xf64>, "
          "tensor<6xf64>, tensor<6xf64>) -> (tensor<4x6x2xf64>, "
          "tensor<6xf64>, tensor<6xf64>)",
      "%y, %m2, %v2, %dx, %dw, %db");
  std::string inference = kBatchNorm;
  inference.replace(inference.find(" : ("), 1, " {inference} ");
  add("%x: tensor<4x6x2xf64>, %w: tensor<6xf64>, %b: tensor<6xf64>, %m: "
      "tensor<6xf64>, %v: tensor<6xf64>",
      "tensor<4x6x2xf64>, tensor<6xf64>", inference, "%y, %m2");
  add("%t: tensor<4x6xf64>, %i: tensor<2x8xi64>, %d: tensor<2x8x6xf64>",
      "tensor<2x8x6xf64>, tensor<4x6xf64>",
      "%0 = train.embedding %t, %i : tensor<4x6xf64>, tensor<2x8xi64>\n%1 = "
      "train.embedding_gradient %d, %i : tensor<2x8x6xf64>, tensor<2x8xi64> "
      "-> tensor<4x6xf64>",
      "%0, %1");
  for (const char *option : {"", " {causal}", " {window = 2 : i64}"}) {
    const std::string tail = std::string(" scale 0.5") + option + " : ";
    const std::string q = "tensor<2x4x4x2xf64>", k = "tensor<2x2x4x2xf64>",
                      lse = "tensor<2x4x4xf64>", mask = "tensor<2x1x4x4xf64>";
    add("%q: " + q + ", %k: " + k + ", %v: " + k + ", %m: " + mask +
            ", %d: " + q,
        q + ", " + q + ", " + k + ", " + k,
        "%o, %l = train.attention %q, %k, %v mask %m" + tail + "(" + q + ", " +
            k + ", " + k + ", " + mask + ") -> (" + q + ", " + lse +
            ")\n%dq, %dk, %dv = train.attention_gradient %d, %q, %k, %v, %o, "
            "%l mask %m" +
            tail + "(" + q + ", " + q + ", " + k + ", " + k + ", " + q + ", " +
            lse + ", " + mask + ") -> (" + q + ", " + k + ", " + k + ")",
        "%o, %dq, %dk, %dv");
  }
  add("%x: tensor<4x6xf64>, %y: tensor<4xi64>, %s: tensor<f64>",
      "tensor<f64>, tensor<4x6xf64>, tensor<f64>",
      "%sum, %l = train.cross_entropy %x, %y dim 1 ignore 1 smoothing 0.1 : "
      "(tensor<4x6xf64>, tensor<4xi64>) -> (tensor<f64>, tensor<4xf64>)\n"
      "%d = train.cross_entropy_gradient %x, %y, %l, %s dim 1 ignore 1 "
      "smoothing 0.1 : (tensor<4x6xf64>, tensor<4xi64>, tensor<4xf64>, "
      "tensor<f64>) -> tensor<4x6xf64>\n%n = train.label_count %y ignore 1 : "
      "tensor<4xi64> -> tensor<f64>",
      "%sum, %d, %n");
  add("%a: tensor<4xf64>, %b: tensor<2x4xf64>", "tensor<f64>",
      "%0 = train.global_norm %a, %b : tensor<4xf64>, tensor<2x4xf64> -> "
      "tensor<f64>");
  add("%p: tensor<4x2xf64>, %g: tensor<4x2xf64>, %b: tensor<4x2xf64>, %s: "
      "tensor<f64>",
      "tensor<4x2xf64>, tensor<4x2xf64>",
      "%0, %1 = train.sgd %p, %g buffer %b, %s scalars %s, %s, %s : "
      "tensor<4x2xf64>, tensor<4x2xf64>, tensor<4x2xf64>, tensor<f64>, "
      "tensor<f64>, tensor<f64>, tensor<f64> -> tensor<4x2xf64>, "
      "tensor<4x2xf64>",
      "%0, %1");
  add("%p: tensor<4x2xf64>, %g: tensor<4x2xf64>, %m: tensor<4x2xf64>, %v: "
      "tensor<4x2xf64>, %s: tensor<f64>",
      "tensor<4x2xf64>, tensor<4x2xf64>, tensor<4x2xf64>",
      "%0, %1, %2 = train.adam %p, %g, %m, %v scalars %s, %s, %s, %s, %s, %s, "
      "%s, %s {decoupled} : tensor<4x2xf64>, tensor<4x2xf64>, "
      "tensor<4x2xf64>, tensor<4x2xf64>, tensor<f64>, tensor<f64>, "
      "tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>, "
      "tensor<f64> -> tensor<4x2xf64>, tensor<4x2xf64>, tensor<4x2xf64>",
      "%0, %1, %2");
  return cases;
}

TEST_CASE("Every operation gives in parts what it gives whole") {
  for (const Case &test : getCases())
    check(test);
}

TEST_CASE("Partial values pass through what is linear in them") {
  const std::string product = "%0 = train.dot_general %a, %b batch [] x [] "
                              "contract [0] x [0] : tensor<4x2xf64>, "
                              "tensor<4x6xf64>\n";
  const std::string arguments = "%a: tensor<4x2xf64>, %b: tensor<4x6xf64>";
  for (const char *rest :
       {"%1 = train.add %0, %0 : tensor<2x6xf64>",
        "%1 = train.multiply %0, %0 : tensor<2x6xf64>",
        "%c = train.constant dense<3.0> : tensor<2x6xf64>\n%1 = train.multiply "
        "%c, %0 : tensor<2x6xf64>",
        "%c = train.constant dense<3.0> : tensor<2x6xf64>\n%1 = train.divide "
        "%c, %0 : tensor<2x6xf64>",
        "%c = train.constant dense<3.0> : tensor<2x6xf64>\n%1 = train.add "
        "%c, %0 : tensor<2x6xf64>",
        "%n = train.negate %0 : tensor<2x6xf64>\n%e = train.exponential %0 : "
        "tensor<2x6xf64>\n%1 = train.subtract %e, %n : tensor<2x6xf64>"})
    check({arguments, "tensor<2x6xf64>", product + rest, "%1"});
  check({arguments, "tensor<12xf64>, tensor<2xf64>",
         product + "%t = train.transpose %0 perm [1, 0] : tensor<2x6xf64>\n"
                   "%1 = train.reshape %t : tensor<6x2xf64> -> "
                   "tensor<12xf64>\n%2 = train.reduce sum %0 dims [1] : "
                   "tensor<2x6xf64>",
         "%1, %2"});
}

TEST_CASE("No operation is without a case here") {
  std::set<std::string> seen;
  for (const Case &test : getCases())
    parse(test)->walk([&](Operation *op) {
      seen.insert(op->getName().getStringRef().str());
    });
  std::string missing;
  for (RegisteredOperationName name : getContext().getRegisteredOperations())
    if (name.getDialectNamespace() == "train" &&
        name.getStringRef() != "train.yield" &&
        name.getStringRef() != "train.accumulate" &&
        !seen.count(name.getStringRef().str()))
      missing += name.getStringRef().str() + " ";
  CHECK(missing == "");
}
