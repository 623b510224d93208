//===- PadClasses.cpp - Logits whose rows tensor copies can move ----------===//
//
// A product of bf16 runs on the tensor cores' own kernels where the rows of its
// operands and result begin at multiples of 16 bytes; the logits of, say, 30522
// classes do not. Classes with a logit of minus infinity change neither a
// cross-entropy nor its gradient, whose columns for them are zeros: so the
// weight gets rows of zeros, the bias minus infinity, and everything from the
// logits to the gradients of weight and bias keeps the padded size.
//
//===----------------------------------------------------------------------===//
#include "compiler/fuse/Passes.h"
#include "dialects/train/DecompositionUtils.h"
#include "dialects/train/Train.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include <limits>

namespace lockstep::fuse {
#define GEN_PASS_DEF_FUSEPADCLASSESPASS
#include "compiler/fuse/FusePasses.h.inc"
} // namespace lockstep::fuse

using namespace mlir;
using namespace lockstep;
using namespace lockstep::train;

static constexpr double kMinusInfinity =
    -std::numeric_limits<double>::infinity();

static int64_t getLastSize(Value value) { return getShape(value).back(); }

namespace {

/// logits = convert(weight's product) + bias, the classes last.
struct Logits {
  ConvertOp convert;
  DotGeneralOp dot;
  /// Of the weight, the product's right operand.
  int64_t classDim = 0;
  Value bias; // [classes], or null
};

class ClassPadder {
public:
  ClassPadder(CrossEntropyOp loss, int64_t multiple)
      : loss(loss), builder(loss), b(builder, loss.getLoc()),
        classes(getLastSize(loss.getLogits())),
        padded((classes + multiple - 1) / multiple * multiple) {}

  void run();

private:
  std::optional<Logits> match();
  Value buildLogits(const Logits &logits);
  Value pad(Value value, int64_t dim, double with);
  /// The part of a padded value that is not padding.
  Value cut(Value value, int64_t dim);
  /// `cutting` = cut(whole, dim): its users get to work on the whole.
  void sink(Value cutting, Value whole, int64_t dim);
  bool sinkInto(Operation *user, Value cutting, Value whole, int64_t dim);
  bool sinkInto(DotGeneralOp dot, Value cutting, Value whole, int64_t dim);
  void replace(Operation *user, Value whole, int64_t dim);

  CrossEntropyOp loss;
  OpBuilder builder;
  TensorBuilder b;
  int64_t classes, padded;
};

} // namespace

/// A row that is added to every position: the value of rank 1 behind it.
static Value getRow(Value value) {
  auto broadcast = value.getDefiningOp<BroadcastInDimOp>();
  int64_t last = getTensorType(value).getRank() - 1;
  if (!broadcast || getTensorType(broadcast.getOperand()).getRank() != 1 ||
      broadcast.getDimensions()[0] != last)
    return {};
  return broadcast.getOperand();
}

std::optional<Logits> ClassPadder::match() {
  if (padded == classes || !loss.getSmoothing().isZero() ||
      static_cast<int64_t>(loss.getDimension()) + 1 !=
          getTensorType(loss.getLogits()).getRank() ||
      !getElementType(loss.getLogits()).isF32())
    return std::nullopt;
  Logits logits;
  Value sums = loss.getLogits();
  if (auto add = sums.getDefiningOp<AddOp>()) {
    sums = add.getLhs();
    logits.bias = getRow(add.getRhs());
    if (!logits.bias)
      return std::nullopt;
  }
  logits.convert = sums.getDefiningOp<ConvertOp>();
  logits.dot = logits.convert
                   ? logits.convert.getOperand().getDefiningOp<DotGeneralOp>()
                   : DotGeneralOp();
  if (!logits.dot || !getElementType(logits.dot.getResult()).isBF16())
    return std::nullopt;
  SmallVector<int64_t> free = logits.dot.getRhsFree();
  if (free.empty() || getShape(logits.dot.getRhs())[free.back()] != classes)
    return std::nullopt;
  logits.classDim = free.back();
  return logits;
}

Value ClassPadder::pad(Value value, int64_t dim, double with) {
  SmallVector<int64_t> none(getTensorType(value).getRank(), 0);
  SmallVector<int64_t> high = none;
  high[dim] = padded - classes;
  return PadOp::create(builder, loss.getLoc(), value,
                       b.scalar(getElementType(value), with), none, high, none);
}

Value ClassPadder::cut(Value value, int64_t dim) {
  ArrayRef<int64_t> shape = getShape(value);
  SmallVector<int64_t> starts(shape.size(), 0), limits(shape),
      steps(shape.size(), 1);
  limits[dim] = classes;
  return SliceOp::create(builder, loss.getLoc(), value, starts, limits, steps);
}

Value ClassPadder::buildLogits(const Logits &logits) {
  DotGeneralOp dot = logits.dot;
  builder.setInsertionPointAfterValue(loss.getLogits());
  Value product = b.dotGeneral(
      dot.getLhs(), pad(dot.getRhs(), logits.classDim, 0), dot.getLhsBatch(),
      dot.getRhsBatch(), dot.getLhsContract(), dot.getRhsContract());
  Value sums = b.convert(product, builder.getF32Type());
  Value bias = logits.bias;
  if (!bias)
    bias =
        b.constant(RankedTensorType::get({classes}, builder.getF32Type()), 0);
  int64_t last = getTensorType(sums).getRank() - 1;
  return b.add(
      sums, b.broadcast(pad(bias, 0, kMinusInfinity), getShape(sums), {last}));
}

/// Replaces `user` by its counterpart on the whole value, which has been built
/// before it, and cuts that.
void ClassPadder::replace(Operation *user, Value whole, int64_t dim) {
  Value cutting = cut(whole, dim);
  user->getResult(0).replaceAllUsesWith(cutting);
  sink(cutting, whole, dim);
}

bool ClassPadder::sinkInto(DotGeneralOp dot, Value cutting, Value whole,
                           int64_t dim) {
  bool isLhs = dot.getLhs() == cutting;
  if (isLhs && dot.getRhs() == cutting)
    return false;
  Value other = isLhs ? dot.getRhs() : dot.getLhs();
  ArrayRef<int64_t> own = isLhs ? dot.getLhsContract() : dot.getRhsContract(),
                    others =
                        isLhs ? dot.getRhsContract() : dot.getLhsContract();
  if (llvm::is_contained(isLhs ? dot.getLhsBatch() : dot.getRhsBatch(), dim))
    return false;
  auto contracted = llvm::find(own, dim);
  if (contracted != own.end())
    other = pad(other, others[contracted - own.begin()], 0);
  Value product = b.dotGeneral(isLhs ? whole : other, isLhs ? other : whole,
                               dot.getLhsBatch(), dot.getRhsBatch(),
                               dot.getLhsContract(), dot.getRhsContract());
  if (contracted != own.end()) {
    dot.getResult().replaceAllUsesWith(product);
    return true;
  }
  // Batch dimensions, then the left free ones, then the right ones.
  SmallVector<int64_t> free = isLhs ? dot.getLhsFree() : dot.getRhsFree();
  int64_t at = llvm::find(free, dim) - free.begin();
  int64_t before =
      dot.getLhsBatch().size() + (isLhs ? 0 : dot.getLhsFree().size());
  replace(dot, product, before + at);
  return true;
}

bool ClassPadder::sinkInto(Operation *user, Value cutting, Value whole,
                           int64_t dim) {
  return llvm::TypeSwitch<Operation *, bool>(user)
      .Case<ConvertOp>([&](ConvertOp op) {
        replace(op, b.convert(whole, getElementType(op.getResult())), dim);
        return true;
      })
      .Case<ReduceOp>([&](ReduceOp op) {
        if (llvm::is_contained(op.getDimensions(), dim))
          return false;
        int64_t before = llvm::count_if(op.getDimensions(),
                                        [&](int64_t d) { return d < dim; });
        replace(op, b.reduce(op.getKind(), whole, op.getDimensions()),
                dim - before);
        return true;
      })
      .Case<ReshapeOp>([&](ReshapeOp op) {
        SmallVector<int64_t> shape(getShape(op.getResult()));
        if (dim + 1 != getTensorType(whole).getRank() ||
            shape.back() != classes)
          return false;
        shape.back() = padded;
        replace(op, b.reshape(whole, shape), shape.size() - 1);
        return true;
      })
      .Case<DotGeneralOp>(
          [&](DotGeneralOp op) { return sinkInto(op, cutting, whole, dim); })
      .Default([](Operation *) { return false; });
}

void ClassPadder::sink(Value cutting, Value whole, int64_t dim) {
  for (Operation *user : llvm::to_vector(cutting.getUsers())) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(user);
    if (sinkInto(user, cutting, whole, dim))
      user->erase();
  }
  if (cutting.use_empty())
    cutting.getDefiningOp()->erase();
}

void ClassPadder::run() {
  std::optional<Logits> logits = match();
  if (!logits)
    return;
  Value narrow = loss.getLogits(), wide = buildLogits(*logits);
  int64_t last = getTensorType(wide).getRank() - 1;
  loss.getLogitsMutable().assign(wide);
  for (Operation *user : llvm::to_vector(narrow.getUsers()))
    if (auto gradient = dyn_cast<CrossEntropyGradientOp>(user);
        gradient && gradient.getLogits() == narrow &&
        gradient.getDimension() == loss.getDimension()) {
      builder.setInsertionPoint(gradient);
      auto whole = cast<CrossEntropyGradientOp>(builder.clone(*gradient));
      whole.getLogitsMutable().assign(wide);
      whole.getResult().setType(cast<RankedTensorType>(wide.getType()));
      replace(gradient, whole.getResult(), last);
      gradient->erase();
    }
  if (narrow.use_empty())
    return;
  builder.setInsertionPointAfterValue(wide);
  narrow.replaceAllUsesWith(cut(wide, last));
}

namespace {

struct FusePadClasses : fuse::impl::FusePadClassesPassBase<FusePadClasses> {
  using FusePadClassesPassBase::FusePadClassesPassBase;

  void runOnOperation() override {
    SmallVector<CrossEntropyOp> losses;
    getOperation().walk([&](CrossEntropyOp op) { losses.push_back(op); });
    for (CrossEntropyOp loss : losses)
      ClassPadder(loss, multiple).run();
  }
};

} // namespace
