//===- ProductEpilogue.cpp - What a product's kernel does besides ---------===//
//
// Activations are recognised by their values at sample points, not by their
// spelling: the region's function of the sums is compared with each function
// that kernels have.
//
//===----------------------------------------------------------------------===//
#include "dialects/plan/ProductEpilogue.h"
#include "dialects/plan/KernelModel.h"
#include "dialects/plan/ScalarFunction.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>

using namespace mlir;
using namespace lockstep;
using namespace lockstep::plan;

//===----------------------------------------------------------------------===//
// Functions by their values
//===----------------------------------------------------------------------===//

static double activate(Activation kind, double x) {
  const double root = std::sqrt(2 / M_PI);
  switch (kind) {
  case Activation::None:
    return x;
  case Activation::Gelu:
    return x / 2 * (1 + std::erf(x * M_SQRT1_2));
  case Activation::GeluTanh:
    return x / 2 * (1 + std::tanh(root * (x + 0.044715 * x * x * x)));
  case Activation::Relu:
    return x > 0 ? x : 0;
  case Activation::Silu:
    return x / (1 + std::exp(-x));
  }
  llvm_unreachable("all activations are handled");
}

static double differentiate(Activation kind, double x) {
  const double root = std::sqrt(2 / M_PI);
  switch (kind) {
  case Activation::None:
    return 1;
  case Activation::Gelu:
    return (1 + std::erf(x * M_SQRT1_2)) / 2 +
           x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
  case Activation::GeluTanh: {
    double t = std::tanh(root * (x + 0.044715 * x * x * x));
    return (1 + t) / 2 +
           x / 2 * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x);
  }
  case Activation::Relu:
    return x > 0;
  case Activation::Silu: {
    double s = 1 / (1 + std::exp(-x));
    return s * (1 + x * (1 - s));
  }
  }
  llvm_unreachable("all activations are handled");
}

/// From far where activations have their limits to the middle, where the two
/// forms of GELU part by 5e-4; 0, where ReLU has its edge.
static llvm::SmallVector<double> getSamples() {
  llvm::SmallVector<double> samples{-80, -20, 20, 80};
  for (int i = -48; i <= 48; ++i)
    samples.push_back(i * 0.125);
  return samples;
}

/// Constants of regions are rounded to f32.
static bool isNear(double x, double y) {
  return std::abs(x - y) <= 2e-6 * (1 + std::abs(y));
}

static constexpr Activation activations[] = {
    Activation::None, Activation::Gelu, Activation::GeluTanh, Activation::Relu,
    Activation::Silu};

/// The activation that `value` is of `sum`; None for the sum itself.
static std::optional<Activation> matchActivation(Value value, Value sum) {
  auto left = llvm::to_vector(llvm::ArrayRef(activations));
  for (double x : getSamples()) {
    llvm::DenseMap<Value, double> at{{sum, x}};
    std::optional<double> y = evaluateElement(value, at);
    if (!y)
      return std::nullopt;
    llvm::erase_if(
        left, [&](Activation kind) { return !isNear(*y, activate(kind, x)); });
  }
  return left.empty() ? std::nullopt : std::optional(left.front());
}

/// The activation of which `value` is the sum times its derivative at `side`;
/// None where it is the sum plus `side`.
static std::optional<Activation> matchSide(Value value, Value sum, Value side) {
  auto left = llvm::to_vector(llvm::ArrayRef(activations));
  for (double factor : {1.0, -2.5})
    for (double x : getSamples()) {
      llvm::DenseMap<Value, double> at{{sum, factor}, {side, x}};
      std::optional<double> y = evaluateElement(value, at);
      if (!y)
        return std::nullopt;
      llvm::erase_if(left, [&](Activation kind) {
        return !isNear(*y, kind == Activation::None
                               ? factor + x
                               : factor * differentiate(kind, x));
      });
    }
  return left.empty() ? std::nullopt : std::optional(left.front());
}

//===----------------------------------------------------------------------===//
// Regions
//===----------------------------------------------------------------------===//

namespace {
class ProductFolder {
public:
  explicit ProductFolder(KernelOp kernel)
      : kernel(kernel),
        dot(dyn_cast_or_null<train::DotGeneralOp>(kernel.getAnchor())),
        returned(kernel.getBlock().getTerminator()->getOperands()) {}

  std::optional<ProductEpilogue> run() {
    if (!dot)
      return std::nullopt;
    if (foldPlain() || foldEpilogue())
      return product;
    return std::nullopt;
  }

private:
  bool foldShape(const StridedView &result);
  bool foldPlain();
  bool foldEpilogue();
  bool matchSideArgument(Value value);
  Value takeBias(Value sum);
  BlockArgument getArgument(Value value);

  KernelOp kernel;
  train::DotGeneralOp dot;
  OperandRange returned;
  ProductEpilogue product;
};
} // namespace

bool ProductFolder::foldShape(const StridedView &result) {
  std::optional<StridedView> views[] = {foldOperandViews(dot.getLhs()),
                                        foldOperandViews(dot.getRhs())};
  if (!views[0] || !views[1])
    return false;
  auto lhs = dyn_cast<BlockArgument>(views[0]->base),
       rhs = dyn_cast<BlockArgument>(views[1]->base);
  if (!lhs || !rhs)
    return false;
  product.lhs = lhs.getArgNumber(), product.rhs = rhs.getArgNumber();
  product.lhsOffset = views[0]->offset, product.rhsOffset = views[1]->offset;
  auto shape = foldContraction(dot, *views[0], *views[1], result);
  if (shape)
    product.shape = *shape;
  return shape.has_value();
}

static bool isWidening(Operation *op) {
  return isa<train::ConvertOp>(op) &&
         getElementTypeOrSelf(op->getResult(0)).isF32();
}

/// The argument that `add` adds to `sum`, if nothing else reads it.
static BlockArgument getAccumulated(train::AddOp add, Value sum) {
  Value other = add.getLhs() == sum ? add.getRhs() : add.getLhs();
  auto argument = dyn_cast<BlockArgument>(other);
  return argument && argument.hasOneUse() ? argument : BlockArgument();
}

/// Views that strides express, and at most a conversion to f32, behind which
/// an argument may be added.
bool ProductFolder::foldPlain() {
  llvm::SmallVector<Operation *> views;
  Value last = dot.getResult();
  bool wide = false;
  while (last.hasOneUse()) {
    Operation *user = *last.user_begin();
    if (isWidening(user))
      wide = true;
    else if (isa<train::ReshapeOp, train::TransposeOp>(user))
      views.push_back(user);
    else
      break;
    last = user->getResult(0);
  }
  if (auto add = last.hasOneUse() ? dyn_cast<train::AddOp>(*last.user_begin())
                                  : train::AddOp();
      add && wide)
    if (BlockArgument argument = getAccumulated(add, last)) {
      product.accumulated = argument.getArgNumber();
      last = add.getResult();
    }
  if (returned.size() != 1 || returned[0] != last)
    return false;
  auto view =
      views.empty() ? getContiguousView(dot.getResult()) : invertViews(views);
  product.wide = wide;
  return view && foldShape(*view);
}

/// The argument behind conversions and reshapes.
BlockArgument ProductFolder::getArgument(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<train::ConvertOp, train::ReshapeOp>(op))
      return nullptr;
    value = op->getOperand(0);
  }
  return cast<BlockArgument>(value);
}

/// If all that is done with the product is to add an argument to its rows, the
/// sum with it; else the product itself.
Value ProductFolder::takeBias(Value sum) {
  Value value = sum;
  while (value.hasOneUse() &&
         isa<train::ConvertOp, train::ReshapeOp>(*value.user_begin()))
    value = (*value.user_begin())->getResult(0);
  auto add = value.hasOneUse() ? dyn_cast<train::AddOp>(*value.user_begin())
                               : train::AddOp();
  if (!add)
    return sum;
  Value other = add.getLhs() == value ? add.getRhs() : add.getLhs();
  while (isa_and_nonnull<train::ConvertOp>(other.getDefiningOp()))
    other = other.getDefiningOp()->getOperand(0);
  auto broadcast = other.getDefiningOp<train::BroadcastInDimOp>();
  if (!broadcast)
    return sum;
  int64_t last = cast<RankedTensorType>(other.getType()).getRank() - 1;
  BlockArgument argument = getArgument(broadcast.getOperand());
  if (!argument || broadcast.getDimensions() != ArrayRef<int64_t>(last) ||
      cast<RankedTensorType>(argument.getType()).getShape() !=
          ArrayRef<int64_t>(product.shape.n) ||
      getElementTypeOrSelf(argument.getType()) !=
          getElementTypeOrSelf(dot.getResult().getType()))
    return sum;
  product.bias = argument.getArgNumber();
  return add.getResult();
}

/// Tries each argument of the product's size as the one besides the sums.
bool ProductFolder::matchSideArgument(Value sum) {
  if (returned.size() != 1)
    return false;
  auto type = cast<RankedTensorType>(dot.getResult().getType());
  for (BlockArgument argument : kernel.getBlock().getArguments()) {
    auto other = cast<RankedTensorType>(argument.getType());
    if (other.getNumElements() != type.getNumElements() ||
        other.getElementType() != type.getElementType())
      continue;
    std::optional<Activation> kind = matchSide(returned[0], sum, argument);
    // A gradient's bias would come after the activation.
    if (!kind || (*kind != Activation::None && product.bias))
      continue;
    product.activation = *kind;
    product.side = argument.getArgNumber();
    return true;
  }
  return false;
}

bool ProductFolder::foldEpilogue() {
  product = ProductEpilogue();
  // Everything has the product's elements in its order, and its type.
  if (!foldShape(getContiguousView(dot.getResult())) ||
      !product.shape.batch.empty() || product.shape.cRow != product.shape.n ||
      product.shape.cColumn != 1)
    return false;
  Type element = getElementTypeOrSelf(dot.getResult().getType());
  for (Value value : returned)
    if (getElementTypeOrSelf(value.getType()) != element)
      return false;
  Value sum = takeBias(dot.getResult());
  std::optional<unsigned> plain;
  for (auto [index, value] : llvm::enumerate(returned)) {
    std::optional<Activation> kind = matchActivation(value, sum);
    if (!kind)
      return matchSideArgument(sum);
    if (*kind == Activation::None && !plain) {
      plain = index;
    } else if (product.activation == Activation::None &&
               *kind != Activation::None) {
      product.activation = *kind;
      product.output = index;
    } else {
      return false;
    }
  }
  if (product.activation == Activation::None)
    product.output = *plain;
  else
    product.saved = plain;
  return true;
}

std::optional<ProductEpilogue> plan::foldProduct(KernelOp kernel) {
  return ProductFolder(kernel).run();
}

bool plan::suitsTiles(const ProductEpilogue &product, int64_t elementBytes,
                      int64_t bytes) {
  const GemmShape &shape = product.shape;
  auto isRow = [&](int64_t inner, int64_t outer, int64_t element) {
    return inner == 1 && outer > 0 && outer * element % bytes == 0;
  };
  auto isMatrix = [&](int64_t row, int64_t column, int64_t element) {
    return isRow(column, row, element) || isRow(row, column, element);
  };
  int64_t resultBytes = product.wide ? 4 : elementBytes;
  // Whole pieces of `bytes` are written.
  int64_t width = shape.cColumn == 1 ? shape.n : shape.m;
  if (shape.m < 2 || shape.n < 2 || shape.k < 2 || shape.batch.size() > 1 ||
      width * resultBytes % bytes ||
      !isMatrix(shape.aRow, shape.aColumn, elementBytes) ||
      !isMatrix(shape.bRow, shape.bColumn, elementBytes) ||
      !isMatrix(shape.cRow, shape.cColumn, resultBytes))
    return false;
  for (auto [stride, element] : {std::pair(&shape.aBatch, elementBytes),
                                 {&shape.bBatch, elementBytes},
                                 {&shape.cBatch, resultBytes}})
    for (int64_t step : *stride)
      if (step <= 0 || step * element % bytes)
        return false;
  return product.lhsOffset * elementBytes % bytes == 0 &&
         product.rhsOffset * elementBytes % bytes == 0;
}
