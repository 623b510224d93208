//===- gradients_test.cpp - Every derivative against finite differences
//----===//
//
// One entry per derivative (and per branch of one), in float64 with random
// arguments away from kinks, checked in all arguments at once. Kinks have tests
// of their own in kinks_test.cpp. The last test makes sure that no operation
// was forgotten.
//
//===----------------------------------------------------------------------===//
#include "dialects/train/Train.h"
#include "test/autodiff/GradientCheck.h"
#include <catch2/catch.hpp>

using namespace lockstep;
using namespace lockstep::testing;

namespace {

struct Case {
  std::string name;
  std::string function;
  Domain domain = {};
};

const Domain positive{0.3, 1.6, false};
const Domain inside{0.1, 0.9, true};

std::string unaryText(const std::string &op) {
  return "func.func @f(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {\n  %0 = "
         "train." +
         op + " %x : tensor<2x3xf64>\n  return %0 : tensor<2x3xf64>\n}";
}
std::string binaryText(const std::string &op) {
  return "func.func @f(%x: tensor<2x3xf64>, %y: tensor<2x3xf64>) -> "
         "tensor<2x3xf64> {\n  %0 = train." +
         op + " %x, %y : tensor<2x3xf64>\n  return %0 : tensor<2x3xf64>\n}";
}
/// `arguments` as "%x: type, ...", the results' types, the body, and what it
/// returns.
std::string text(const std::string &arguments, const std::string &types,
                 const std::string &body, const std::string &results = "%0") {
  return "func.func @f(" + arguments + ") -> (" + types + ") {\n" + body +
         "\nreturn " + results + " : " + types + "\n}";
}
std::string powerText(const std::string &exponent) {
  return text("%x: tensor<4xf64>", "tensor<4xf64>",
              "%e = train.constant dense<" + exponent +
                  "> : tensor<f64>\n"
                  "%b = train.broadcast_in_dim %e dims [] : tensor<f64> -> "
                  "tensor<4xf64>\n"
                  "%0 = train.power %x, %b : tensor<4xf64>");
}

std::vector<Case> pointwiseCases() {
  std::vector<Case> cases;
  for (const char *op :
       {"negate", "abs", "exponential", "exponential_minus_one", "tanh",
        "logistic", "sine", "cosine", "atan", "erf"})
    cases.push_back({op, unaryText(op)});
  for (const char *op : {"log", "log_plus_one", "sqrt", "rsqrt"})
    cases.push_back({op, unaryText(op), positive});
  cases.push_back({"tan", unaryText("tan"), inside});
  for (const char *op :
       {"add", "subtract", "multiply", "divide", "maximum", "minimum", "atan2"})
    cases.push_back({op, binaryText(op)});
  for (const char *op : {"remainder", "modulo"})
    cases.push_back({op, binaryText(op), {0.2, 5.0, true}});
  cases.push_back({"power", binaryText("power"), positive});
  for (const char *exponent : {"0.0", "1.0", "2.0", "3.0", "-1.0", "4.0"})
    cases.push_back({std::string("power ") + exponent, powerText(exponent)});
  for (const char *exponent : {"0.5", "1.7"})
    cases.push_back(
        {std::string("power ") + exponent, powerText(exponent), positive});
  cases.push_back(
      {"square", text("%x: tensor<4xf64>", "tensor<4xf64>",
                      "%0 = train.multiply %x, %x : tensor<4xf64>")});
  cases.push_back(
      {"select",
       text("%p: tensor<8xi1>, %x: tensor<8xf64>, %y: tensor<8xf64>",
            "tensor<8xf64>",
            "%0 = train.select %p, %x, %y : tensor<8xi1>, tensor<8xf64>")});
  cases.push_back(
      {"relu",
       text("%x: tensor<8xf64>", "tensor<8xf64>",
            "%z = train.constant dense<0.0> : tensor<8xf64>\n%p = "
            "train.compare le %x, %z : tensor<8xf64>\n"
            "%0 = train.select %p, %z, %x : tensor<8xi1>, tensor<8xf64>")});
  cases.push_back(
      {"dropout",
       text("%x: tensor<4x8xf64>, %rng: tensor<2xi64>", "tensor<4x8xf64>",
            "%0 = train.dropout %x, %rng {rate = 0.3 : f64, id = 3 : i64} : "
            "tensor<4x8xf64>, tensor<2xi64>")});
  return cases;
}

std::vector<Case> dataCases() {
  return {
      {"broadcast", text("%x: tensor<3x1xf64>", "tensor<2x3x4xf64>",
                         "%0 = train.broadcast_in_dim %x dims [1, 2] : "
                         "tensor<3x1xf64> -> tensor<2x3x4xf64>")},
      {"broadcast of a scalar", text("%x: tensor<f64>", "tensor<2x3xf64>",
                                     "%0 = train.broadcast_in_dim %x dims [] : "
                                     "tensor<f64> -> tensor<2x3xf64>")},
      {"broadcast of size 1 to size 1",
       text("%x: tensor<1x3xf64>", "tensor<1x3x2xf64>",
            "%0 = train.broadcast_in_dim %x dims [0, 1] : tensor<1x3xf64> -> "
            "tensor<1x3x2xf64>")},
      {"reshape",
       text("%x: tensor<2x6xf64>", "tensor<3x4xf64>",
            "%0 = train.reshape %x : tensor<2x6xf64> -> tensor<3x4xf64>")},
      {"transpose",
       text("%x: tensor<2x3x4xf64>", "tensor<4x2x3xf64>",
            "%0 = train.transpose %x perm [2, 0, 1] : tensor<2x3x4xf64>")},
      {"slice", text("%x: tensor<4x9xf64>", "tensor<2x3xf64>",
                     "%0 = train.slice %x [1, 2] to [3, 9] step [1, 3] : "
                     "tensor<4x9xf64>")},
      {"pad", text("%x: tensor<2x3xf64>, %v: tensor<f64>", "tensor<3x9xf64>",
                   "%0 = train.pad %x, %v low [1, 2] high [0, 2] interior [0, "
                   "1] : tensor<2x3xf64>, tensor<f64>")},
      {"pad that cuts",
       text("%x: tensor<4x5xf64>, %v: tensor<f64>", "tensor<3x9xf64>",
            "%0 = train.pad %x, %v low [-2, -3] high [1, -1] interior [0, 2] : "
            "tensor<4x5xf64>, tensor<f64>")},
      {"concatenate",
       text("%x: tensor<2x3xf64>, %y: tensor<2x1xf64>, %z: tensor<2x2xf64>",
            "tensor<2x6xf64>",
            "%0 = train.concatenate %x, %y, %z dim 1 : tensor<2x3xf64>, "
            "tensor<2x1xf64>, tensor<2x2xf64>")},
      {"reverse", text("%x: tensor<2x3xf64>", "tensor<2x3xf64>",
                       "%0 = train.reverse %x dims [1] : tensor<2x3xf64>")},
      {"stop_gradient beside",
       text("%x: tensor<3xf64>", "tensor<3xf64>",
            "%c = train.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf64>\n%s = "
            "train.stop_gradient %c : tensor<3xf64>\n"
            "%0 = train.multiply %x, %s : tensor<3xf64>")},
      {"convert",
       text("%x: tensor<3xf64>, %i: tensor<3xi64>", "tensor<3xf64>",
            "%f = train.convert %i : tensor<3xi64> -> tensor<3xf64>\n%0 = "
            "train.multiply %x, %f : tensor<3xf64>")},
  };
}

std::vector<Case> indexingCases() {
  std::vector<Case> cases = {
      {"gather",
       text("%x: tensor<3x4xf64>, %i: tensor<5xi64>", "tensor<5x4xf64>",
            "%0 = train.gather %x[%i] dims [0] batch 0 : tensor<3x4xf64>, "
            "tensor<5xi64>")},
      {"gather with batch",
       text("%x: tensor<2x3x4xf64>, %i: tensor<2x5xi64>", "tensor<2x5x3xf64>",
            "%0 = train.gather %x[%i] dims [2] batch 1 : tensor<2x3x4xf64>, "
            "tensor<2x5xi64>")},
      {"gather by two",
       text("%x: tensor<3x2x3xf64>, %i: tensor<4xi64>, %j: tensor<4xi64>",
            "tensor<4x2xf64>",
            "%0 = train.gather %x[%i, %j] dims [0, 2] batch 0 : "
            "tensor<3x2x3xf64>, tensor<4xi64>, tensor<4xi64>")},
      {"sort",
       text("%x: tensor<3x4xf64>", "tensor<3x4xf64>, tensor<3x4xi64>",
            "%0, %1 = train.sort %x dim 1 : tensor<3x4xf64>", "%0, %1")},
      {"sort of a leading dimension",
       text("%x: tensor<4x2x3xf64>", "tensor<4x2x3xf64>",
            "%0, %1 = train.sort %x dim 0 {descending} : tensor<4x2x3xf64>")},
  };
  for (const char *kind : {"add", "max", "min", "multiply"})
    cases.push_back(
        {std::string("scatter ") + kind,
         text("%x: tensor<3x2xf64>, %i: tensor<5xi64>, %u: tensor<5x2xf64>",
              "tensor<3x2xf64>",
              std::string("%0 = train.scatter ") + kind +
                  " %x[%i], %u dims [0] batch 0 : tensor<3x2xf64>, "
                  "tensor<5x2xf64>, tensor<5xi64>")});
  cases.push_back(
      {"scatter replace",
       text("%x: tensor<5x2xf64>, %u: tensor<2x2xf64>", "tensor<5x2xf64>",
            "%i = train.constant dense<[3, 1]> : tensor<2xi64>\n"
            "%0 = train.scatter replace %x[%i], %u dims [0] batch 0 : "
            "tensor<5x2xf64>, tensor<2x2xf64>, tensor<2xi64>")});
  for (const char *kind : {"sum", "product", "max", "min"})
    for (const char *flags : {"", " {reverse}"})
      cases.push_back({std::string("cumulative ") + kind + flags,
                       text("%x: tensor<2x4x3xf64>", "tensor<2x4x3xf64>",
                            std::string("%0 = train.cumulative ") + kind +
                                " %x dim 1" + flags + " : tensor<2x4x3xf64>")});
  return cases;
}

std::vector<Case> contractionCases() {
  std::vector<Case> cases;
  for (const char *kind : {"sum", "product", "max", "min"})
    cases.push_back({std::string("reduce ") + kind,
                     text("%x: tensor<2x3x4xf64>", "tensor<3xf64>",
                          std::string("%0 = train.reduce ") + kind +
                              " %x dims [0, 2] : tensor<2x3x4xf64>")});
  struct Dot {
    const char *name, *lhs, *rhs, *result, *dims;
  };
  for (Dot d : std::initializer_list<Dot>{
           {"x w", "tensor<3x4xf64>", "tensor<4x2xf64>", "tensor<3x2xf64>",
            "batch [] x [] contract [1] x [0]"},
           {"x w^T", "tensor<3x4xf64>", "tensor<2x4xf64>", "tensor<3x2xf64>",
            "batch [] x [] contract [1] x [1]"},
           {"batched", "tensor<2x3x4xf64>", "tensor<2x4x5xf64>",
            "tensor<2x3x5xf64>", "batch [0] x [0] contract [2] x [1]"},
           {"batch inside", "tensor<3x2x4xf64>", "tensor<5x4x2xf64>",
            "tensor<2x3x5xf64>", "batch [1] x [2] contract [2] x [1]"},
           {"two contracted", "tensor<2x3x4xf64>", "tensor<4x5x3xf64>",
            "tensor<2x5xf64>", "batch [] x [] contract [1, 2] x [2, 0]"},
           {"outer", "tensor<3xf64>", "tensor<2xf64>", "tensor<3x2xf64>",
            "batch [] x [] contract [] x []"},
           {"free around", "tensor<2x4x3xf64>", "tensor<4x5xf64>",
            "tensor<2x3x5xf64>", "batch [] x [] contract [1] x [0]"}})
    cases.push_back(
        {std::string("dot_general ") + d.name,
         text(std::string("%x: ") + d.lhs + ", %y: " + d.rhs, d.result,
              std::string("%0 = train.dot_general %x, %y ") + d.dims + " : " +
                  d.lhs + ", " + d.rhs)});
  const char *window =
      "strides [2, 1] padding [1, 0] to [0, 1] dilation [1, 2] groups 2";
  cases.push_back({"convolution",
                   text("%x: tensor<2x4x5x6xf64>, %w: tensor<2x2x2x2xf64>",
                        "tensor<2x2x3x5xf64>",
                        std::string("%0 = train.convolution %x, %w ") + window +
                            " : tensor<2x4x5x6xf64>, tensor<2x2x2x2xf64>")});
  cases.push_back(
      {"transposed convolution",
       text("%y: tensor<2x2x3x5xf64>, %w: tensor<2x2x2x2xf64>",
            "tensor<2x4x5x6xf64>",
            std::string("%0 = train.convolution_input_gradient %y, %w ") +
                window +
                " : tensor<2x2x3x5xf64>, tensor<2x2x2x2xf64> -> "
                "tensor<2x4x5x6xf64>")});
  cases.push_back(
      {"convolution_filter_gradient",
       text("%x: tensor<2x4x5x6xf64>, %y: tensor<2x2x3x5xf64>",
            "tensor<2x2x2x2xf64>",
            std::string("%0 = train.convolution_filter_gradient %x, %y ") +
                window +
                " : tensor<2x4x5x6xf64>, tensor<2x2x3x5xf64> -> "
                "tensor<2x2x2x2xf64>")});
  for (const char *kind : {"max", "sum"}) {
    std::string attributes =
        "window [3, 2] strides [2, 1] padding [1, 0] to [1, 0] dilation [1, 2]";
    cases.push_back({std::string("reduce_window ") + kind,
                     text("%x: tensor<2x5x6xf64>", "tensor<2x3x4xf64>",
                          std::string("%0 = train.reduce_window ") + kind +
                              " %x " + attributes + " : tensor<2x5x6xf64>")});
    cases.push_back({std::string("reduce_window_gradient ") + kind,
                     text("%x: tensor<2x5x6xf64>, %y: tensor<2x3x4xf64>",
                          "tensor<2x5x6xf64>",
                          std::string("%0 = train.reduce_window_gradient ") +
                              kind + " %x, %y " + attributes +
                              " : tensor<2x5x6xf64>, tensor<2x3x4xf64>")});
  }
  return cases;
}

/// `mask` is empty or "tensor type"; the whole attention with the given
/// attributes.
Case attentionCase(const std::string &name, const std::string &mask,
                   const std::string &attributes, bool returnLse = false) {
  std::string q = "tensor<2x4x3x2xf64>", k = "tensor<2x2x3x2xf64>",
              v = "tensor<2x2x3x5xf64>", o = "tensor<2x4x3x5xf64>",
              lse = "tensor<2x4x3xf64>";
  std::string arguments = "%q: " + q + ", %k: " + k + ", %v: " + v +
                          (mask.empty() ? "" : ", %m: " + mask);
  std::string body = "%0, %1 = train.attention %q, %k, %v " +
                     std::string(mask.empty() ? "" : "mask %m ") +
                     "scale 0.7 " + attributes + " : (" + q + ", " + k + ", " +
                     v + (mask.empty() ? "" : ", " + mask) + ") -> (" + o +
                     ", " + lse + ")";
  return {name, returnLse ? text(arguments, o + ", " + lse, body, "%0, %1")
                          : text(arguments, o, body)};
}

std::vector<Case> modelCases() {
  std::string x = "tensor<2x3x4xf64>", rows = "tensor<2x3xf64>",
              w = "tensor<4xf64>", c = "tensor<3xf64>", s = "tensor<f64>";
  std::string logits = "tensor<2x5x3xf64>", labels = "tensor<2x3xi64>",
              positions = "tensor<2x3xf64>", h = "tensor<1x2x3x2xf64>";
  std::vector<Case> cases = {
      {"softmax", text("%x: " + x, x, "%0 = train.softmax %x dim 1 : " + x)},
      {"log_softmax",
       text("%x: " + x, x, "%0 = train.log_softmax %x dim 2 : " + x)},
      {"layer_norm", text("%x: " + x + ", %w: " + w + ", %b: " + w, x,
                          "%0, %m, %r = train.layer_norm %x weight %w bias %b "
                          "axes 1 eps 1.0e-5 : (" +
                              x + ", " + w + ", " + w + ") -> (" + x + ", " +
                              rows + ", " + rows + ")")},
      {"layer_norm without weights",
       text("%x: " + x, x,
            "%0, %m, %r = train.layer_norm %x axes 2 eps 1.0e-5 : (" + x +
                ") -> (" + x + ", tensor<2xf64>, tensor<2xf64>)")},
      {"layer_norm with its statistics",
       text("%x: " + x + ", %w: " + w, x + ", " + rows + ", " + rows,
            "%0, %m, %r = train.layer_norm %x weight %w axes 1 eps 1.0e-5 : (" +
                x + ", " + w + ") -> (" + x + ", " + rows + ", " + rows + ")",
            "%0, %m, %r")},
      {"layer_norm_gradient",
       text("%y: " + x + ", %x: " + x + ", %m: " + rows + ", %r: " + rows +
                ", %w: " + w,
            x + ", " + w + ", " + w,
            "%0, %1, %2 = train.layer_norm_gradient %y, %x, %m, %r weight %w "
            "axes 1 : (" +
                x + ", " + x + ", " + rows + ", " + rows + ", " + w + ") -> (" +
                x + ", " + w + ", " + w + ")",
            "%0, %1, %2")},
      {"rms_norm",
       text("%x: " + x + ", %w: " + w, x,
            "%0, %r = train.rms_norm %x weight %w axes 1 eps 1.0e-5 : (" + x +
                ", " + w + ") -> (" + x + ", " + rows + ")")},
      {"rms_norm_gradient",
       text("%y: " + x + ", %x: " + x + ", %r: " + rows + ", %w: " + w,
            x + ", " + w,
            "%0, %1 = train.rms_norm_gradient %y, %x, %r weight %w axes 1 : (" +
                x + ", " + x + ", " + rows + ", " + w + ") -> (" + x + ", " +
                w + ")",
            "%0, %1")},
      {"batch_norm", text("%x: " + x + ", %w: " + c + ", %b: " + c, x,
                          "%0, %m, %r, %rm, %rv = train.batch_norm %x weight "
                          "%w bias %b momentum 0.1 eps 1.0e-5 : (" +
                              x + ", " + c + ", " + c + ") -> (" + x + ", " +
                              c + ", " + c + ", " + c + ", " + c + ")")},
      {"batch_norm in inference",
       text("%x: " + x + ", %w: " + c, x,
            "%rm = train.constant dense<[0.1, 0.2, 0.3]> : " + c +
                "\n%rv = train.constant dense<[1.1, 0.7, 0.4]> : " + c +
                "\n%0, %m, %r, %nm, %nv = train.batch_norm %x weight %w "
                "running %rm, %rv momentum 0.1 eps 1.0e-5 {inference} : (" +
                x + ", " + c + ", " + c + ", " + c + ") -> (" + x + ", " + c +
                ", " + c + ", " + c + ", " + c + ")")},
      {"batch_norm_gradient",
       text("%y: " + x + ", %x: " + x + ", %m: " + c + ", %r: " + c +
                ", %w: " + c,
            x + ", " + c + ", " + c,
            "%0, %1, %2 = train.batch_norm_gradient %y, %x, %m, %r weight %w : "
            "(" +
                x + ", " + x + ", " + c + ", " + c + ", " + c + ") -> (" + x +
                ", " + c + ", " + c + ")",
            "%0, %1, %2")},
      {"embedding",
       text("%t: tensor<3x2xf64>, %i: tensor<2x4xi64>", "tensor<2x4x2xf64>",
            "%0 = train.embedding %t, %i : tensor<3x2xf64>, tensor<2x4xi64>")},
      {"embedding_gradient",
       text("%y: tensor<2x4x2xf64>, %i: tensor<2x4xi64>", "tensor<3x2xf64>",
            "%0 = train.embedding_gradient %y, %i {padding_idx = 1 : i64} : "
            "tensor<2x4x2xf64>, tensor<2x4xi64> -> tensor<3x2xf64>")},
      attentionCase("attention", "", ""),
      attentionCase("attention, causal with lse", "", "{causal}", true),
      attentionCase("attention, window", "", "{causal, window = 2 : i64}"),
      attentionCase("attention, added mask", "tensor<1x4x1x3xf64>", ""),
      // What the forward operation saved is not independent of its operands.
      {"attention_gradient",
       text("%c: " + h + ", %q: " + h + ", %k: " + h + ", %v: " + h,
            h + ", " + h + ", " + h,
            "%o, %l = train.attention %q, %k, %v scale 0.5 {causal} : (" + h +
                ", " + h + ", " + h + ") -> (" + h +
                ", tensor<1x2x3xf64>)\n"
                "%0, %1, %2 = train.attention_gradient %c, %q, %k, %v, %o, %l "
                "scale 0.5 {causal} : (" +
                h + ", " + h + ", " + h + ", " + h + ", " + h +
                ", tensor<1x2x3xf64>) -> (" + h + ", " + h + ", " + h + ")",
            "%0, %1, %2")},
      {"cross_entropy", text("%x: " + logits + ", %l: " + labels, s,
                             "%0, %1 = train.cross_entropy %x, %l dim 1 ignore "
                             "2 smoothing 0.1 : (" +
                                 logits + ", " + labels + ") -> (" + s + ", " +
                                 positions + ")")},
      {"cross_entropy with lse",
       text("%x: " + logits + ", %l: " + labels, s + ", " + positions,
            "%0, %1 = train.cross_entropy %x, %l dim 1 ignore -100 smoothing "
            "0.0 : (" +
                logits + ", " + labels + ") -> (" + s + ", " + positions + ")",
            "%0, %1")},
      {"cross_entropy_gradient",
       text("%x: " + logits + ", %l: " + labels + ", %e: " + positions +
                ", %s: " + s,
            logits,
            "%0 = train.cross_entropy_gradient %x, %l, %e, %s dim 1 ignore 2 "
            "smoothing 0.1 : (" +
                logits + ", " + labels + ", " + positions + ", " + s + ") -> " +
                logits)},
      {"mean over labels",
       text("%x: " + logits + ", %l: " + labels, s,
            "%c, %1 = train.cross_entropy %x, %l dim 1 ignore 0 smoothing 0.0 "
            ": (" +
                logits + ", " + labels + ") -> (" + s + ", " + positions +
                ")\n"
                "%n = train.label_count %l ignore 0 : " +
                labels + " -> " + s + "\n%0 = train.divide %c, %n : " + s)},
      {"global_norm", text("%x: tensor<3xf64>, %y: tensor<2x2xf64>", s,
                           "%0 = train.global_norm %x, %y : tensor<3xf64>, "
                           "tensor<2x2xf64> -> " +
                               s)},
  };
  std::string p = "tensor<3xf64>", sgdTypes = p + ", " + p + ", " + p + ", " +
                                              s + ", " + s + ", " + s + ", " +
                                              s;
  cases.push_back(
      {"sgd", text("%p: " + p + ", %g: " + p + ", %m: " + p + ", %mu: " + s +
                       ", %lr: " + s + ", %wd: " + s + ", %sc: " + s,
                   p + ", " + p,
                   "%0, %1 = train.sgd %p, %g buffer %m, %mu scalars %lr, %wd, "
                   "%sc {nesterov} : " +
                       sgdTypes + " -> " + p + ", " + p,
                   "%0, %1")});
  std::string adamTypes = p + ", " + p + ", " + p + ", " + p;
  for (int i = 0; i < 8; ++i)
    adamTypes += ", " + s;
  cases.push_back(
      {"adam",
       text("%p: " + p + ", %g: " + p + ", %m: " + p + ", %v: " + p +
                ", %lr: " + s + ", %wd: " + s + ", %b1: " + s + ", %b2: " + s +
                ", %eps: " + s + ", %c1: " + s + ", %c2: " + s + ", %sc: " + s,
            p + ", " + p + ", " + p,
            "%0, %1, %2 = train.adam %p, %g, %m, %v scalars %lr, %wd, %b1, "
            "%b2, %eps, %c1, %c2, %sc {decoupled} : " +
                adamTypes + " -> " + p + ", " + p + ", " + p,
            "%0, %1, %2"),
       {0.2, 0.9, false}});
  return cases;
}

void check(const std::vector<Case> &cases) {
  for (const Case &c : cases) {
    INFO(c.name);
    GradientCheck gradient(c.function);
    std::vector<HostTensor> arguments = gradient.randomArguments(c.domain),
                            cotangents = gradient.randomCotangents();
    auto built = gradient.builtGradients(arguments, cotangents);
    auto differences = gradient.finiteDifferences(arguments, cotangents);
    for (size_t i = 0; i < built.size(); ++i)
      for (size_t k = 0; k < built[i].size(); ++k) {
        INFO("argument " << i << ", element " << k);
        CHECK(built[i][k] ==
              Approx(differences[i][k]).epsilon(1e-6).margin(1e-7));
      }
  }
}

} // namespace

TEST_CASE("derivatives of pointwise operations") { check(pointwiseCases()); }
TEST_CASE("derivatives of data movement") { check(dataCases()); }
TEST_CASE("derivatives of indexing, sorting and scans") {
  check(indexingCases());
}
TEST_CASE("derivatives of reductions, products and windows") {
  check(contractionCases());
}
TEST_CASE("derivatives of layers, losses and updates") { check(modelCases()); }

TEST_CASE(
    "every operation has a gradient test or is known to have no gradient") {
  std::set<std::string> seen = {
      "train.constant",   "train.iota",         "train.sign",
      "train.floor",      "train.ceil",         "train.round_nearest_even",
      "train.truncate",   "train.floor_divide", "train.compare",
      "train.not",        "train.and",          "train.or",
      "train.xor",        "train.shift_left",   "train.shift_right",
      "train.arg_reduce", "train.accumulate",   "train.yield"};
  for (auto make :
       {pointwiseCases, dataCases, indexingCases, contractionCases, modelCases})
    for (const Case &c : make())
      seen.merge(GradientCheck(c.function).getOperations());
  for (mlir::RegisteredOperationName name :
       getContext().getRegisteredOperations())
    if (name.getDialectNamespace() == "train") {
      INFO(name.getStringRef().str());
      CHECK(seen.count(name.getStringRef().str()) == 1);
    }
}
