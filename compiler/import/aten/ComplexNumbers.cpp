// Complex tensors are pairs of real ones, and exist while a graph is imported
// only. What moves elements or is linear is lowered once for each part;
// products of two complex operands are four products of their parts.
#include "compiler/import/aten/Lowering.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace lockstep::train;

namespace lockstep::aten {

namespace {
struct Parts {
  Value re, im;
};

/// One node that reads or makes complex tensors.
class ComplexNode {
public:
  ComplexNode(Lowering &lowering, Scope &scope, const pt2::Node &node,
              const ResolvedTarget &target)
      : lowering(lowering), scope(scope), node(node), target(target),
        call(lowering, scope, node, /*alignsLevels=*/false), t(lowering.emit) {
    call.base = target.op->name, call.overload = target.overload;
  }

  void lower();

private:
  void lowerParts();
  void lowerProduct();
  std::vector<TensorRef> lowerAs(ArrayRef<std::pair<std::string_view, bool>>);
  bool lowerToReal();
  bool lowerToComplex();
  std::optional<Parts> product();

  /// A complex tensor, or a real one or a number with no imaginary part.
  Parts operand(StringRef name);
  void result(Value re, Value im);

  Lowering &lowering;
  Scope &scope;
  const pt2::Node &node;
  const ResolvedTarget &target;
  OpCall call;
  Emitter &t;
};
} // namespace

static bool isComplexMeta(const Scope &scope, std::string_view name) {
  const pt2::TensorMeta *meta = scope.graph->tensor(name);
  return meta && (meta->dtype == pt2::ScalarType::C64 ||
                  meta->dtype == pt2::ScalarType::C128);
}

bool Lowering::hasComplex(Scope &scope, const pt2::Node &node) {
  return llvm::any_of(
             inputNames(node),
             [&](auto name) { return scope.complexes.count(name) != 0; }) ||
         llvm::any_of(outputNames(node),
                      [&](auto name) { return isComplexMeta(scope, name); });
}

//===----------------------------------------------------------------------===//
// Operands and results
//===----------------------------------------------------------------------===//

Parts ComplexNode::operand(StringRef name) {
  const pt2::Argument *argument = call.argument(name);
  std::string_view tensor = argument ? argument->tensorName() : "";
  if (auto found = scope.complexes.find(tensor); found != scope.complexes.end())
    return {found->second.first.read(t), found->second.second.read(t)};
  if (!tensor.empty())
    return {t.toCompute(call.tensor(name)), {}};
  Type type = t.f32();
  for (std::string_view input : inputNames(node))
    if (auto found = scope.complexes.find(input);
        found != scope.complexes.end())
      type = elementOf(found->second.first.read(t));
  return {call.operand(name, type), {}};
}

void ComplexNode::result(Value re, Value im) {
  if (!re || !im)
    return;
  Shape shape = call.resultShape(0);
  if (call.bad())
    return;
  scope.complexes[outputNames(node).front()] = {
      TensorRef::fresh(t.broadcastTo(re, shape)),
      TensorRef::fresh(t.broadcastTo(im, shape))};
}

//===----------------------------------------------------------------------===//
// By parts
//===----------------------------------------------------------------------===//

/// The operator on real tensors: of each name, the real or imaginary part.
std::vector<TensorRef>
ComplexNode::lowerAs(ArrayRef<std::pair<std::string_view, bool>> choice) {
  for (auto [name, imaginary] : choice) {
    auto &parts = scope.complexes[name];
    scope.tensors[name] = imaginary ? parts.second : parts.first;
  }
  lowering.partsOfComplex = true;
  OpCall part(lowering, scope, node, target.op->form == Form::Pointwise);
  part.base = target.op->name, part.overload = target.overload;
  target.op->lower(part);
  lowering.partsOfComplex = false;
  std::vector<TensorRef> results;
  for (std::string_view name : outputNames(node)) {
    results.push_back(scope.tensors[name]);
    scope.tensors.erase(name);
  }
  for (auto [name, imaginary] : choice)
    scope.tensors.erase(name);
  return results;
}

void ComplexNode::lowerParts() {
  SmallVector<std::pair<std::string_view, bool>> re, im;
  bool mixed = false;
  for (std::string_view name : inputNames(node)) {
    if (scope.complexes.count(name))
      re.push_back({name, false}), im.push_back({name, true});
    else if (const pt2::TensorMeta *meta = scope.graph->tensor(name))
      mixed |= meta->dtype == pt2::ScalarType::F32 ||
               meta->dtype == pt2::ScalarType::F64;
  }
  if (mixed || re.empty())
    return call.unsupported(call.base + " of real and complex tensors; make "
                                        "all of them complex");
  std::vector<TensorRef> first = lowerAs(re), second = lowerAs(im);
  for (auto [i, name] : llvm::enumerate(outputNames(node)))
    if (!call.bad())
      scope.complexes[name] = {first[i], second[i]};
}

/// Linear in each tensor: matmul, einsum. One or two of them are complex.
void ComplexNode::lowerProduct() {
  SmallVector<std::string_view> names;
  for (std::string_view name : inputNames(node))
    if (scope.complexes.count(name))
      names.push_back(name);
  if (names.empty() || names.size() > 2 ||
      (names.size() == 2 && names[0] == names[1]))
    return call.unsupported("this product of complex tensors; multiply two "
                            "different ones at a time");
  auto value = [&](bool first, bool second) -> Value {
    SmallVector<std::pair<std::string_view, bool>> choice{{names[0], first}};
    if (names.size() == 2)
      choice.push_back({names[1], second});
    std::vector<TensorRef> results = lowerAs(choice);
    return call.bad() || results.empty() ? Value() : results[0].read(t);
  };
  if (names.size() == 1)
    return result(value(false, false), value(true, false));
  result(t.sub(value(false, false), value(true, true)),
         t.add(value(false, true), value(true, false)));
}

//===----------------------------------------------------------------------===//
// By formulas
//===----------------------------------------------------------------------===//

static Value squaredSize(Emitter &t, Parts z) {
  return t.add(t.square(z.re), t.square(z.im));
}

/// mul and div.
std::optional<Parts> ComplexNode::product() {
  if (call.base != "mul" && call.base != "div")
    return std::nullopt;
  if (call.has("rounding_mode"))
    return call.unsupported("rounded quotients of complex numbers"),
           std::nullopt;
  Parts a = operand("self"), b = operand("other");
  if (call.base == "div") {
    Value scale = b.im ? squaredSize(t, b) : b.re;
    if (b.im)
      b.im = t.neg(t.div(b.im, scale));
    b.re = b.im ? t.div(b.re, scale) : t.div(1, b.re);
  }
  if (!a.im)
    std::swap(a, b);
  if (!b.im)
    return Parts{t.mul(a.re, b.re), t.mul(a.im, b.re)};
  return Parts{t.sub(t.mul(a.re, b.re), t.mul(a.im, b.im)),
               t.add(t.mul(a.re, b.im), t.mul(a.im, b.re))};
}

bool ComplexNode::lowerToComplex() {
  StringRef base = call.base;
  if (base == "polar") {
    Value size = call.tensor("abs"), angle = call.tensor("angle");
    result(t.mul(size, t.unary<CosineOp>(angle)),
           t.mul(size, t.unary<SineOp>(angle)));
  } else if (base == "complex") {
    Value re = call.tensor("real"), im = call.tensor("imag");
    result(re, im);
  } else if (base == "view_as_complex") {
    Value pair = call.tensor("self");
    if (pair)
      result(t.at(pair, rankOf(pair) - 1, 0), t.at(pair, rankOf(pair) - 1, 1));
  } else if (base == "conj" || base == "_conj" || base == "conj_physical" ||
             base == "_conj_physical") {
    Parts z = operand("self");
    result(z.re, t.neg(z.im));
  } else if (base == "exp") {
    Parts z = operand("self");
    Value size = t.exp(z.re);
    result(t.mul(size, t.unary<CosineOp>(z.im)),
           t.mul(size, t.unary<SineOp>(z.im)));
  } else if (base == "add" || base == "sub") {
    if (call.has("alpha") && call.number("alpha").real != 1)
      return call.unsupported("sums of scaled complex numbers"), true;
    Parts a = operand("self"), b = operand("other");
    bool minus = base == "sub";
    Value im = !b.im   ? a.im
               : !a.im ? (minus ? t.neg(b.im) : b.im)
               : minus ? t.sub(a.im, b.im)
                       : t.add(a.im, b.im);
    result(minus ? t.sub(a.re, b.re) : t.add(a.re, b.re), im);
  } else if (std::optional<Parts> z = product()) {
    result(z->re, z->im);
  } else {
    return false;
  }
  return true;
}

bool ComplexNode::lowerToReal() {
  StringRef base = call.base;
  Parts z;
  if (base == "view_as_real" || base == "real" || base == "imag" ||
      base == "abs" || base == "angle")
    z = operand("self");
  if (!z.re || !z.im)
    return false;
  if (base == "view_as_real") {
    int64_t last = rankOf(z.re);
    call.result(
        t.concat({t.unsqueeze(z.re, last), t.unsqueeze(z.im, last)}, last));
  } else if (base == "abs") {
    // Without a slope at 0, as PyTorch has it.
    Value square = squaredSize(t, z), positive = t.gt(square, 0);
    call.result(
        t.select(positive, t.sqrt(t.select(positive, square, 1.0)), 0.0));
  } else {
    call.result(base == "real"   ? z.re
                : base == "imag" ? z.im
                                 : t.binary<Atan2Op>(z.im, z.re));
  }
  return true;
}

//===----------------------------------------------------------------------===//
// The choice
//===----------------------------------------------------------------------===//

void ComplexNode::lower() {
  static const llvm::StringSet<> byParts{"view",
                                         "reshape",
                                         "_unsafe_view",
                                         "flatten",
                                         "unflatten",
                                         "unsqueeze",
                                         "squeeze",
                                         "transpose",
                                         "permute",
                                         "t",
                                         "slice",
                                         "select",
                                         "narrow",
                                         "expand",
                                         "cat",
                                         "stack",
                                         "clone",
                                         "contiguous",
                                         "alias",
                                         "detach",
                                         "neg",
                                         "sum",
                                         "mean",
                                         "index",
                                         "index_select",
                                         "unbind",
                                         "split",
                                         "chunk",
                                         "roll",
                                         "flip",
                                         "repeat",
                                         "movedim",
                                         "to",
                                         "_to_copy",
                                         "swapaxes",
                                         "lift_fresh_copy",
                                         "resolve_conj",
                                         "resolve_neg",
                                         "split_with_sizes",
                                         "repeat_interleave"};
  static const llvm::StringSet<> products{"matmul", "mm", "bmm", "einsum"};
  StringRef base = call.base;
  SmallVector<std::pair<std::string_view, bool>> re;
  for (std::string_view name : inputNames(node))
    if (scope.complexes.count(name))
      re.push_back({name, false});
  // Sizes and assertions see one part.
  if (outputNames(node).empty())
    return void(lowerAs(re));
  if (target.inPlace || target.out)
    return call.unsupported("writing into complex tensors; make new ones");
  bool handled = lowerToReal() || call.bad() || lowerToComplex();
  if (handled || call.bad())
    return;
  if (products.contains(base))
    return lowerProduct();
  if (byParts.contains(base))
    return lowerParts();
  call.unsupported(base + " of complex numbers; write it with real tensors "
                          "(torch.view_as_real)");
}

bool Lowering::lowerComplex(Scope &scope, const pt2::Node &node,
                            const ResolvedTarget &target) {
  ComplexNode(*this, scope, node, target).lower();
  return !emit.failed();
}

/// Of a real tensor: what changes nothing, and what has no meaning.
static void lowerReal(OpCall &op) { op.result(op.tensor("self")); }
static void lowerOther(OpCall &op) {
  op.unsupported("this operator of real tensors");
}

void addComplexNumbers(OperatorTable &table) {
  table.add({"real", "conj", "_conj", "conj_physical", "_conj_physical",
             "resolve_conj", "resolve_neg"},
            lowerReal);
  table.add(
      {"polar", "complex", "view_as_complex", "view_as_real", "imag", "angle"},
      lowerOther);
}

} // namespace lockstep::aten
