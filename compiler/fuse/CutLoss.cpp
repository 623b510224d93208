//===- CutLoss.cpp - The logits, a part of their rows at a time -----------===//
//
// From the product that gives the logits to those that read their gradient,
// rows do not depend on one another. Each part of the rows gets operations of
// its own: product, loss, gradient, products. Results with rows are joined,
// sums over rows are added up, in f32. All in the order of the program, so that
// the parts' logits can share their memory.
//
//===----------------------------------------------------------------------===//
#include "compiler/fuse/Passes.h"
#include "dialects/plan/KernelModel.h"
#include "dialects/train/DecompositionUtils.h"
#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace lockstep::fuse {
#define GEN_PASS_DEF_FUSECUTLOSSPASS
#include "compiler/fuse/FusePasses.h.inc"
} // namespace lockstep::fuse

using namespace mlir;
using namespace lockstep;

namespace {

/// What lies between the product of the logits and the users of their gradient.
class LossHead {
public:
  /// Finds the rest from the gradient; false where there is an operation that
  /// is not known here, or where something else reads the logits.
  bool find(train::CrossEntropyGradientOp gradient);
  int64_t countRows() const { return rows; }
  int64_t countLogitBytes() const {
    return plan::getTensorBytes(train::getTensorType(product->getResult(0)));
  }
  void cut(int64_t parts);

private:
  bool findProduct();
  bool findLoss();
  bool findUsers(Value value);
  bool isProductUser(train::DotGeneralOp dot, Value value) const;
  bool isRowReduce(train::ReduceOp reduce) const;
  bool hasRows(Value value) const;

  Value cutRows(train::TensorBuilder &b, Value value, int64_t width,
                int64_t part);
  void buildPart(train::TensorBuilder &b, int64_t part);
  Value buildLogits(train::TensorBuilder &b, int64_t part);
  Value buildUser(train::TensorBuilder &b, Operation *user, int64_t part,
                  const IRMapping &mapping);
  void replace(train::TensorBuilder &b);

  train::CrossEntropyGradientOp gradient;
  train::CrossEntropyOp loss;
  train::DotGeneralOp product;
  /// From the product to the logits: conversions, reshapes, a bias added.
  SmallVector<Operation *> chain;
  /// From the gradient to its users: conversions, reshapes.
  SmallVector<Operation *> moves;
  /// Products and sums over rows.
  SmallVector<Operation *> users;
  int64_t rows = 0, classes = 0, parts = 1;

  /// Of all parts: what each user gives, loss sums.
  llvm::DenseMap<Operation *, SmallVector<Value>> pieces;
  SmallVector<Value> lossSums;
};

} // namespace

static SmallVector<int64_t> rangeOf(int64_t end) {
  return train::getDimRange(0, end);
}

/// [rows..., classes], in any shape of the rows.
bool LossHead::hasRows(Value value) const {
  auto type = train::getTensorType(value);
  return type.getRank() > 0 && type.getShape().back() == classes &&
         type.getNumElements() == rows * classes;
}

/// A row that is added to each row of the logits.
static Value getBias(train::AddOp add, Value sum) {
  Value other = add.getLhs() == sum ? add.getRhs() : add.getLhs();
  auto broadcast = other.getDefiningOp<train::BroadcastInDimOp>();
  int64_t last = train::getTensorType(add.getResult()).getRank() - 1;
  return broadcast && broadcast.getDimensions() == ArrayRef<int64_t>(last)
             ? broadcast.getOperand()
             : Value();
}

bool LossHead::findProduct() {
  Value value = gradient.getLogits();
  while (Operation *op = value.getDefiningOp()) {
    if (!hasRows(value))
      return false;
    if (auto dot = dyn_cast<train::DotGeneralOp>(op)) {
      product = dot;
      break;
    }
    chain.push_back(op);
    Value operand = op->getOperand(0);
    if (auto add = dyn_cast<train::AddOp>(op)) {
      if (!getBias(add, operand))
        operand = op->getOperand(1);
      if (!getBias(add, operand))
        return false;
    } else if (!isa<train::ConvertOp, train::ReshapeOp>(op)) {
      return false;
    }
    value = operand;
  }
  std::reverse(chain.begin(), chain.end());
  // Rows of x times a matrix.
  return product && product->getBlock() == gradient->getBlock() &&
         product.getLhsBatch().empty() &&
         product.getLhsContract() ==
             ArrayRef<int64_t>(
                 train::getTensorType(product.getLhs()).getRank() - 1) &&
         train::getTensorType(product.getRhs()).getRank() == 2;
}

/// The loss of the same logits, of which nothing else is read.
bool LossHead::findLoss() {
  SmallVector<Value> values{product.getResult()};
  for (Operation *op : chain)
    values.push_back(op->getResult(0));
  for (Value value : values)
    for (Operation *user : value.getUsers()) {
      auto entropy = dyn_cast<train::CrossEntropyOp>(user);
      if (entropy && !loss && entropy.getLogits() == gradient.getLogits() &&
          entropy.getLabels() == gradient.getLabels())
        loss = entropy;
      else if (user != gradient && !llvm::is_contained(chain, user))
        return false;
    }
  return loss && loss.getLse() == gradient.getLse() &&
         loss.getLse().hasOneUse() &&
         loss.getIgnoreIndex() == gradient.getIgnoreIndex() &&
         loss.getSmoothing() == gradient.getSmoothing();
}

/// The gradient's rows times a matrix, or summed over with another one's rows.
bool LossHead::isProductUser(train::DotGeneralOp dot, Value value) const {
  if (!dot.getLhsBatch().empty() || dot.getLhs() == dot.getRhs())
    return false;
  int64_t last = train::getTensorType(value).getRank() - 1;
  bool isLhs = dot.getLhs() == value;
  Value other = isLhs ? dot.getRhs() : dot.getLhs();
  auto contracted = isLhs ? dot.getLhsContract() : dot.getRhsContract(),
       ofOther = isLhs ? dot.getRhsContract() : dot.getLhsContract();
  if (contracted == ArrayRef<int64_t>(last))
    return isLhs && train::getTensorType(other).getRank() == 2;
  auto leading = rangeOf(last);
  return contracted == ArrayRef<int64_t>(leading) && ofOther == contracted &&
         train::getTensorType(other).getRank() == last + 1;
}

bool LossHead::isRowReduce(train::ReduceOp reduce) const {
  int64_t last = train::getTensorType(reduce.getOperand()).getRank() - 1;
  return reduce.getKind() == train::ReduceKind::Sum &&
         reduce.getDimensions() == ArrayRef<int64_t>(rangeOf(last));
}

bool LossHead::findUsers(Value value) {
  for (Operation *user : value.getUsers()) {
    auto dot = dyn_cast<train::DotGeneralOp>(user);
    auto reduce = dyn_cast<train::ReduceOp>(user);
    if (user->getBlock() != gradient->getBlock())
      return false;
    if (isa<train::ConvertOp, train::ReshapeOp>(user)) {
      if (!hasRows(user->getResult(0)))
        return false;
      moves.push_back(user);
      if (!findUsers(user->getResult(0)))
        return false;
    } else if ((dot && isProductUser(dot, value)) ||
               (reduce && isRowReduce(reduce))) {
      users.push_back(user);
    } else {
      return false;
    }
  }
  return true;
}

bool LossHead::find(train::CrossEntropyGradientOp op) {
  gradient = op;
  auto type = train::getTensorType(op.getLogits());
  if (int64_t(op.getDimension()) != type.getRank() - 1 || type.getRank() < 2)
    return false;
  classes = type.getShape().back();
  rows = type.getNumElements() / classes;
  if (!findProduct() || !findLoss() || !findUsers(op.getResult()))
    return false;
  llvm::sort(users,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return true;
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

/// The rows of a part, of a value with `width` elements a row (0: one, without
/// a dimension of its own). In place, so that the parts' kernels are equal.
Value LossHead::cutRows(train::TensorBuilder &b, Value value, int64_t width,
                        int64_t part) {
  int64_t size = rows / parts,
          offset = part * size * std::max<int64_t>(width, 1);
  SmallVector<int64_t> shape{size};
  if (width)
    shape.push_back(width);
  return plan::ViewOp::create(
      b.getBuilder(), value.getLoc(),
      RankedTensorType::get(shape, train::getElementType(value)), value,
      offset);
}

Value LossHead::buildLogits(train::TensorBuilder &b, int64_t part) {
  Value x = cutRows(b, product.getLhs(),
                    train::getShape(product.getLhs()).back(), part);
  Value value = train::DotGeneralOp::create(
      b.getBuilder(), product.getLoc(), x, product.getRhs(),
      ArrayRef<int64_t>(), ArrayRef<int64_t>(), ArrayRef<int64_t>(1),
      product.getRhsContract());
  for (Operation *op : chain) {
    if (isa<train::ConvertOp>(op))
      value = b.convert(value, train::getElementType(op->getResult(0)));
    if (auto add = dyn_cast<train::AddOp>(op)) {
      Value bias = getBias(add, add.getLhs());
      if (!bias)
        bias = getBias(add, add.getRhs());
      value = b.add(value, b.broadcast(bias, train::getShape(value), {1}));
    }
  }
  return value;
}

/// What a product or sum that reads the gradient gives for a part.
Value LossHead::buildUser(train::TensorBuilder &b, Operation *user,
                          int64_t part, const IRMapping &mapping) {
  auto dot = dyn_cast<train::DotGeneralOp>(user);
  if (!dot)
    return b.sum(mapping.lookup(user->getOperand(0)), {0});
  bool isLhs = mapping.contains(dot.getLhs());
  Value mine = mapping.lookup(isLhs ? dot.getLhs() : dot.getRhs()),
        other = isLhs ? dot.getRhs() : dot.getLhs();
  auto create = [&](Value lhs, Value rhs, int64_t lhsDim, int64_t rhsDim) {
    return train::DotGeneralOp::create(b.getBuilder(), dot.getLoc(), lhs, rhs,
                                       ArrayRef<int64_t>(), ArrayRef<int64_t>(),
                                       ArrayRef<int64_t>(lhsDim),
                                       ArrayRef<int64_t>(rhsDim));
  };
  auto contracted = isLhs ? dot.getLhsContract() : dot.getRhsContract();
  int64_t last =
      train::getTensorType(isLhs ? dot.getLhs() : dot.getRhs()).getRank() - 1;
  if (contracted == ArrayRef<int64_t>(last))
    return create(mine, other, 1, dot.getRhsContract().front());
  other = cutRows(b, other, train::getShape(other).back(), part);
  return isLhs ? create(mine, other, 0, 0) : create(other, mine, 0, 0);
}

void LossHead::buildPart(train::TensorBuilder &b, int64_t part) {
  Value logits = buildLogits(b, part),
        labels = cutRows(b, gradient.getLabels(), 0, part);
  auto sum = train::CrossEntropyOp::create(
      b.getBuilder(), loss.getLoc(), logits, labels, 1, loss.getIgnoreIndex(),
      loss.getSmoothing());
  lossSums.push_back(sum.getLossSum());
  IRMapping mapping;
  mapping.map(gradient.getResult(),
              train::CrossEntropyGradientOp::create(
                  b.getBuilder(), gradient.getLoc(), logits, labels,
                  sum.getLse(), gradient.getScale(), 1,
                  gradient.getIgnoreIndex(), gradient.getSmoothing())
                  .getResult());
  for (Operation *op : moves)
    mapping.map(op->getResult(0),
                b.convert(mapping.lookup(op->getOperand(0)),
                          train::getElementType(op->getResult(0))));
  for (Operation *user : users) {
    Value piece = buildUser(b, user, part, mapping);
    SmallVector<Value> &all = pieces[user];
    bool keepsRows =
        train::getShape(piece).front() == rows / parts &&
        isa<train::DotGeneralOp>(user) &&
        train::getTensorType(user->getResult(0)).getNumElements() ==
            parts * train::getTensorType(piece).getNumElements();
    // Sums over rows grow from part to part.
    if (!keepsRows && part == 0)
      piece = b.convertToCompute(piece);
    else if (!keepsRows)
      piece = b.add(all.pop_back_val(), b.convertToCompute(piece));
    all.push_back(piece);
  }
}

/// Puts what the parts give in the place of what there was.
void LossHead::replace(train::TensorBuilder &b) {
  // Joined in memory, so that no kernel waits for the losses of all parts where
  // the first one's is known.
  Value sums = plan::JoinOp::create(
      b.getBuilder(), loss.getLoc(),
      RankedTensorType::get({parts}, train::getElementType(lossSums.front())),
      lossSums);
  loss.getLossSum().replaceAllUsesWith(b.sum(sums, {0}));
  for (Operation *user : users) {
    Value old = user->getResult(0);
    auto type = train::getTensorType(old);
    ArrayRef<Value> all = pieces[user];
    if (all.size() > 1) {
      Value joined = plan::JoinOp::create(
          b.getBuilder(), user->getLoc(),
          RankedTensorType::get({type.getNumElements()}, type.getElementType()),
          all);
      old.replaceAllUsesWith(b.reshape(joined, type.getShape()));
      continue;
    }
    // Widened, the sum is as it is.
    Value wide = b.reshape(all.front(), type.getShape());
    for (Operation *reader : llvm::make_early_inc_range(old.getUsers()))
      if (auto convert = dyn_cast<train::ConvertOp>(reader);
          convert && convert.getType() == wide.getType())
        convert.getResult().replaceAllUsesWith(wide);
    old.replaceAllUsesWith(b.convert(wide, type.getElementType()));
  }
}

void LossHead::cut(int64_t count) {
  parts = count;
  Block *block = gradient->getBlock();
  // The last of what the parts read is the gradient's scale or an operand of a
  // user.
  Operation *last = gradient;
  for (Operation *user : users)
    for (Value operand : user->getOperands())
      if (Operation *op = operand.getDefiningOp();
          op && op->getBlock() == last->getBlock() && last->isBeforeInBlock(op))
        last = op;
  OpBuilder builder(last->getContext());
  builder.setInsertionPointAfter(last);
  train::TensorBuilder b(builder, gradient.getLoc());
  for (int64_t part = 0; part < parts; ++part)
    buildPart(b, part);
  replace(b);
  remark::passed(gradient.getLoc(),
                 remark::RemarkOpts::name("loss").category("fuse"))
      << remark::metric("parts", parts) << remark::metric("rows", rows);
  SmallVector<Operation *> old(llvm::reverse(users));
  llvm::append_range(old, llvm::reverse(moves));
  old.append({gradient, loss});
  llvm::append_range(old, llvm::reverse(chain));
  old.push_back(product);
  for (Operation *op : old)
    if (isOpTriviallyDead(op))
      op->erase();
  // What reads the loss stood in front of the gradient.
  sortTopologically(block);
}

namespace {

struct FuseCutLoss : fuse::impl::FuseCutLossPassBase<FuseCutLoss> {
  using Base::Base;

  /// The fewest parts that are small enough, of equally many rows; 1 where
  /// there are none.
  int64_t chooseParts(const LossHead &head) const {
    for (int64_t parts = 1; head.countRows() / parts >= leastRows; ++parts)
      if (head.countRows() % (parts * kRowStep) == 0 &&
          head.countLogitBytes() / parts <= maxBytes)
        return parts;
    return 1;
  }

  void runOnOperation() override {
    SmallVector<train::CrossEntropyGradientOp> gradients;
    getOperation().walk(
        [&](train::CrossEntropyGradientOp op) { gradients.push_back(op); });
    for (train::CrossEntropyGradientOp gradient : gradients) {
      LossHead head;
      if (!head.find(gradient))
        continue;
      if (int64_t parts = chooseParts(head); parts > 1)
        head.cut(parts);
    }
  }

  /// Rows of a part are whole steps of this: operands of products then begin at
  /// multiples of 16 bytes.
  static constexpr int64_t kRowStep = 8;
};

} // namespace
