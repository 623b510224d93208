//===- FuseEpilogues.cpp - Pointwise work behind products -----------------===//
//
// For each product of a narrow type, the operations behind it are followed to
// the conversions that narrow again. From such a conversion back to the
// product and other operands lies a candidate region; dialects/plan says
// whether kernels can do it.
//
// What else reads the sums reads them rounded, as the kernel stores them:
//   behind an activation    the kernel gives its input, too
//   a gradient              other readers (a bias's gradient) take the result
//
//===----------------------------------------------------------------------===//
#include "compiler/fuse/KernelTable.h"
#include "compiler/fuse/Passes.h"
#include "dialects/plan/ProductEpilogue.h"
#include "dialects/train/DecompositionUtils.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/STLExtras.h"

namespace lockstep::fuse {
#define GEN_PASS_DEF_FUSEEPILOGUESPASS
#include "compiler/fuse/FusePasses.h.inc"
} // namespace lockstep::fuse

using namespace mlir;
using namespace lockstep;
using namespace lockstep::fuse;

/// What tensor copies move at once.
static constexpr int64_t kTileBytes = 16;
/// No activation or derivative is spelled with more operations.
static constexpr size_t kMostOperations = 64;

static bool isNarrow(Value value) {
  return getElementTypeOrSelf(value.getType()).isBF16();
}

static train::ConvertOp getNarrowing(Operation *op) {
  auto convert = dyn_cast<train::ConvertOp>(op);
  return convert && isNarrow(convert.getResult()) ? convert
                                                  : train::ConvertOp();
}

static bool isFollowed(Operation *op) {
  return op->hasTrait<train::Pointwise>() || isa<train::ReshapeOp>(op);
}

static Value skipReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<train::ReshapeOp>())
    value = reshape.getOperand();
  return value;
}

//===----------------------------------------------------------------------===//
// Candidates
//===----------------------------------------------------------------------===//

namespace {

/// A kernel in the making: the region from a product to its results.
class Candidate {
public:
  /// `takesTransposes`: those of the operands become strides; else the
  /// transposed tensors lie in memory.
  Candidate(train::DotGeneralOp dot, OpBuilder &builder, bool takesTransposes)
      : dot(dot), builder(builder), takesTransposes(takesTransposes) {}
  ~Candidate() {
    if (kernel)
      kernel->erase();
  }

  /// Builds the region of these values. False where it would need operations
  /// that no epilogue has.
  bool build(ArrayRef<Value> outputs);
  std::optional<plan::ProductEpilogue> fold() {
    std::optional<plan::ProductEpilogue> product = plan::foldProduct(kernel);
    if (!product || !plan::suitsTiles(*product, 2, kTileBytes))
      return std::nullopt;
    return product;
  }
  plan::KernelOp take() { return std::exchange(kernel, nullptr); }

  /// An f32 tensor to which the product is added where it lies; null if there
  /// is none. Before build.
  Value accumulated;
  /// What the call reads; biases are still to be narrowed.
  SmallVector<Value> arguments;
  /// Operations of the region that depend on the product.
  llvm::SetVector<Operation *> members;

private:
  bool copy(Value value);
  bool copyOperand(Value value);
  bool takeArgument(Value value);
  Value addArgument(Value value, Type type);

  train::DotGeneralOp dot;
  OpBuilder &builder;
  bool takesTransposes;
  plan::KernelOp kernel;
  IRMapping mapping;
  Value output;
};

} // namespace

Value Candidate::addArgument(Value value, Type type) {
  arguments.push_back(value);
  return kernel.getBlock().addArgument(type, value.getLoc());
}

/// An operand of the product: the memory behind its views.
bool Candidate::copyOperand(Value value) {
  if (mapping.contains(value))
    return true;
  Operation *op = value.getDefiningOp();
  if (!op || !plan::isViewOp(op) ||
      (isa<train::TransposeOp>(op) && !takesTransposes)) {
    mapping.map(value, addArgument(value, value.getType()));
    return true;
  }
  if (!copyOperand(op->getOperand(0)))
    return false;
  builder.clone(*op, mapping);
  return true;
}

/// A row added to the sums is read in the product's type; a tensor of the
/// product's size must have it.
bool Candidate::takeArgument(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  Operation *op = value.getDefiningOp();
  if (op && op->getBlock() == dot->getBlock() && !op->isBeforeInBlock(dot))
    return false;
  if (type.getRank() == 1 && type.getElementType().isF32()) {
    Value narrow = addArgument(value, type.clone(builder.getBF16Type()));
    train::TensorBuilder b(builder, value.getLoc());
    mapping.map(value, b.convert(narrow, type.getElementType()));
    return true;
  }
  if (!isNarrow(value) || getElements(value) != getElements(dot.getResult()))
    return false;
  mapping.map(value, addArgument(value, type));
  return true;
}

bool Candidate::copy(Value value) {
  if (mapping.contains(value))
    return true;
  Operation *op = value.getDefiningOp();
  if (op == dot) {
    if (!copyOperand(dot.getLhs()) || !copyOperand(dot.getRhs()))
      return false;
    builder.clone(*op, mapping);
    members.insert(op);
    return true;
  }
  bool isInner = op && (isFollowed(op) ||
                        isa<train::BroadcastInDimOp, train::ConstantOp>(op));
  // Rounded values lie in memory, but for the one that the region gives.
  bool isStored = op && getNarrowing(op) && value != output;
  if (!isInner || isStored)
    return takeArgument(value);
  if (members.size() > kMostOperations)
    return false;
  bool depends = false;
  for (Value operand : op->getOperands()) {
    if (!copy(operand))
      return false;
    depends |= members.contains(operand.getDefiningOp());
  }
  builder.clone(*op, mapping);
  if (depends)
    members.insert(op);
  return true;
}

bool Candidate::build(ArrayRef<Value> outputs) {
  OpBuilder::InsertionGuard guard(builder);
  builder.clearInsertionPoint();
  kernel = plan::KernelOp::create(builder, dot.getLoc(),
                                  plan::KernelKind::Contraction, "kernel",
                                  builder.getFunctionType({}, {}));
  builder.setInsertionPointToStart(&kernel.getBlock());
  if (accumulated)
    mapping.map(accumulated, addArgument(accumulated, accumulated.getType()));
  SmallVector<Value> inside;
  for (Value value : outputs) {
    output = value;
    if (!copy(value))
      return false;
    Value copied = mapping.lookup(value);
    // The sums, asked for rounded.
    if (!isNarrow(copied) && outputs.size() > 1)
      copied = train::TensorBuilder(builder, dot.getLoc())
                   .convert(copied, builder.getBF16Type());
    inside.push_back(copied);
  }
  plan::ReturnOp::create(builder, dot.getLoc(), inside);
  kernel.setFunctionType(builder.getFunctionType(
      kernel.getBlock().getArgumentTypes(), ValueRange(inside).getTypes()));
  return members.contains(dot);
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

namespace {

class BlockEpilogues {
public:
  BlockEpilogues(Block &block, KernelTable &kernels)
      : block(block), kernels(kernels),
        builder(block.getParentOp()->getContext()) {}

  void run() {
    // Sums of products from their ends: what one is added to is then known to
    // be read from memory.
    auto dots = llvm::to_vector(block.getOps<train::DotGeneralOp>());
    for (train::DotGeneralOp dot : llvm::reverse(dots))
      if (isNarrow(dot.getResult()))
        fuseAccumulation(dot);
    for (train::DotGeneralOp dot : dots)
      if (isNarrow(dot.getResult()) && !dot->use_empty() && !fuseNarrow(dot))
        fuseWide(dot);
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isOpTriviallyDead(&op))
        op.erase();
  }

private:
  using Outputs = ArrayRef<Value>;
  /// A kernel of these values; null where there is none.
  std::unique_ptr<Candidate> makeCandidate(train::DotGeneralOp dot,
                                           Outputs outputs,
                                           Value accumulated = {});
  bool fuseNarrow(train::DotGeneralOp dot);
  void fuseWide(train::DotGeneralOp dot);
  void fuseAccumulation(train::DotGeneralOp dot);
  bool tryFuse(train::DotGeneralOp dot, Value sum, train::ConvertOp narrowing);
  SmallVector<train::ConvertOp> findNarrowings(Value sum);
  plan::CallOp insert(Candidate &candidate, train::DotGeneralOp dot,
                      TypeRange types);

  Block &block;
  KernelTable &kernels;
  OpBuilder builder;
};

} // namespace

/// The value that everything behind the product reads: the product itself, or
/// with a row added to it.
static Value getSum(Value product) {
  Value value = product;
  while (value.hasOneUse() &&
         isa<train::ConvertOp, train::ReshapeOp>(*value.user_begin()) &&
         !getNarrowing(*value.user_begin()))
    value = (*value.user_begin())->getResult(0);
  auto add = value.hasOneUse() ? dyn_cast<train::AddOp>(*value.user_begin())
                               : train::AddOp();
  if (!add)
    return value;
  Value other = add.getLhs() == value ? add.getRhs() : add.getLhs();
  while (isa_and_nonnull<train::ConvertOp, train::ReshapeOp>(
      other.getDefiningOp()))
    other = other.getDefiningOp()->getOperand(0);
  if (!other.getDefiningOp<train::BroadcastInDimOp>())
    return value;
  value = add.getResult();
  while (value.hasOneUse() && isa<train::ReshapeOp>(*value.user_begin()))
    value = (*value.user_begin())->getResult(0);
  return value;
}

/// Conversions back to the narrow type that `sum` reaches through pointwise
/// work, in program order.
SmallVector<train::ConvertOp> BlockEpilogues::findNarrowings(Value sum) {
  llvm::SetVector<Operation *> reached;
  SmallVector<train::ConvertOp> found;
  auto follow = [&](Value value) {
    for (Operation *user : value.getUsers())
      if (user->getBlock() == &block && isFollowed(user) &&
          reached.size() < kMostOperations)
        reached.insert(user);
  };
  follow(sum);
  for (size_t i = 0; i < reached.size(); ++i) {
    if (train::ConvertOp narrowing = getNarrowing(reached[i]))
      found.push_back(narrowing);
    else
      follow(reached[i]->getResult(0));
  }
  llvm::sort(found,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return found;
}

/// Values of the region that operations outside of it read; not the result.
static llvm::SetVector<Value> findOthersRead(const Candidate &candidate,
                                             train::ConvertOp narrowing) {
  llvm::SetVector<Value> read;
  for (Operation *op : candidate.members)
    if (op != narrowing)
      for (Operation *user : op->getUsers())
        if (!candidate.members.contains(user))
          read.insert(op->getResult(0));
  return read;
}

plan::CallOp BlockEpilogues::insert(Candidate &candidate,
                                    train::DotGeneralOp dot, TypeRange types) {
  builder.setInsertionPointAfter(dot);
  train::TensorBuilder b(builder, dot.getLoc());
  plan::KernelOp kernel = kernels.insert(candidate.take());
  SmallVector<Value> arguments;
  for (auto [value, type] :
       llvm::zip_equal(candidate.arguments, kernel.getArgumentTypes()))
    arguments.push_back(b.convert(value, getElementTypeOrSelf(type)));
  remark::passed(dot.getLoc(),
                 remark::RemarkOpts::name("epilogue").category("fuse"))
      << remark::metric("name", kernel.getSymName())
      << remark::metric("operations", candidate.members.size());
  return plan::CallOp::create(builder, dot.getLoc(), types, kernel.getSymName(),
                              arguments);
}

std::unique_ptr<Candidate>
BlockEpilogues::makeCandidate(train::DotGeneralOp dot, Outputs outputs,
                              Value accumulated) {
  for (bool takesTransposes : {true, false}) {
    auto candidate = std::make_unique<Candidate>(dot, builder, takesTransposes);
    candidate->accumulated = accumulated;
    if (candidate->build(outputs) && candidate->fold())
      return candidate;
  }
  return nullptr;
}

bool BlockEpilogues::tryFuse(train::DotGeneralOp dot, Value sum,
                             train::ConvertOp narrowing) {
  SmallVector<Value> outputs{narrowing.getResult()};
  std::unique_ptr<Candidate> candidate = makeCandidate(dot, outputs);
  if (!candidate)
    return false;
  std::optional<plan::ProductEpilogue> product = candidate->fold();
  if (!product->hasWork())
    return false;
  llvm::SetVector<Value> others = findOthersRead(*candidate, narrowing);
  Value result = skipReshapes(narrowing.getOperand());
  bool saves = false;
  if (product->side) {
    for (Value other : others)
      if (skipReshapes(other) != result)
        return false;
  } else if (!others.empty()) {
    if (product->activation == plan::Activation::None)
      return false;
    saves = true;
    outputs.push_back(sum);
    candidate = makeCandidate(dot, outputs);
    if (!candidate)
      return false;
  }
  SmallVector<Type> types{narrowing.getType()};
  if (saves)
    types.push_back(
        cast<RankedTensorType>(sum.getType()).clone(builder.getBF16Type()));
  plan::CallOp call = insert(*candidate, dot, types);
  train::TensorBuilder b(builder, dot.getLoc());
  if (saves) {
    sum.replaceAllUsesWith(
        b.convert(call.getResult(1), getElementTypeOrSelf(sum.getType())));
  } else if (product->side) {
    Value wide =
        b.convert(call.getResult(0), getElementTypeOrSelf(result.getType()));
    auto shape = cast<RankedTensorType>(result.getType()).getShape();
    result.replaceAllUsesWith(b.reshape(wide, shape));
  }
  narrowing.getResult().replaceAllUsesWith(call.getResult(0));
  return true;
}

bool BlockEpilogues::fuseNarrow(train::DotGeneralOp dot) {
  Value sum = getSum(dot.getResult());
  for (train::ConvertOp narrowing : findNarrowings(sum))
    if (tryFuse(dot, sum, narrowing))
      return true;
  return false;
}

/// Whether something other than a loop kernel reads the value from memory.
static bool isReadFromMemory(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    if (isa<train::ReshapeOp>(user))
      return isReadFromMemory(user->getResult(0));
    return Operands::isBoundary(user) || Operands::isAnchor(user);
  });
}

/// A product that only its widened form is read of, from memory (a weight's
/// gradient), is stored wide.
void BlockEpilogues::fuseWide(train::DotGeneralOp dot) {
  if (!dot.getResult().hasOneUse())
    return;
  auto wide = dyn_cast<train::ConvertOp>(*dot->user_begin());
  if (!wide || !getElementTypeOrSelf(wide.getType()).isF32() ||
      !isReadFromMemory(wide.getResult()))
    return;
  std::unique_ptr<Candidate> candidate = makeCandidate(dot, wide.getResult());
  if (!candidate)
    return;
  plan::CallOp call = insert(*candidate, dot, wide.getType());
  wide.getResult().replaceAllUsesWith(call.getResult(0));
}

static train::ConvertOp getWidened(Value value) {
  auto convert = value.getDefiningOp<train::ConvertOp>();
  bool isProduct = convert && isNarrow(convert.getOperand()) &&
                   convert.getOperand().getDefiningOp<train::DotGeneralOp>() &&
                   getElementTypeOrSelf(convert.getType()).isF32();
  return isProduct ? convert : train::ConvertOp();
}

/// A widened product, or a sum of such, that one operation reads.
static bool isSumOfProducts(Value value) {
  if (!value.hasOneUse())
    return false;
  auto add = value.getDefiningOp<train::AddOp>();
  return getWidened(value) ||
         (add && getWidened(add.getRhs()) && isSumOfProducts(add.getLhs()));
}

/// A product that is added to a sum of products (a weight's gradient in parts)
/// adds to that in memory.
void BlockEpilogues::fuseAccumulation(train::DotGeneralOp dot) {
  auto wide = dot.getResult().hasOneUse()
                  ? dyn_cast<train::ConvertOp>(*dot->user_begin())
                  : train::ConvertOp();
  if (!wide || !getWidened(wide.getResult()) || !wide.getResult().hasOneUse())
    return;
  auto sum = dyn_cast<train::AddOp>(*wide->user_begin());
  if (!sum || sum.getRhs() != wide.getResult() ||
      !isSumOfProducts(sum.getLhs()) ||
      !sum.getLhs().getDefiningOp()->isBeforeInBlock(dot))
    return;
  std::unique_ptr<Candidate> candidate =
      makeCandidate(dot, sum.getResult(), sum.getLhs());
  if (!candidate)
    return;
  plan::CallOp call = insert(*candidate, dot, sum.getType());
  sum.getResult().replaceAllUsesWith(call.getResult(0));
  sum.erase();
}

namespace {

struct FuseEpilogues : fuse::impl::FuseEpiloguesPassBase<FuseEpilogues> {
  void runOnOperation() override {
    KernelTable kernels(getOperation());
    SmallVector<Block *> blocks;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      function.walk([&](train::AccumulateOp op) {
        blocks.push_back(&op.getBody().front());
      });
      if (!function.isExternal())
        blocks.push_back(&function.getBody().front());
    }
    for (Block *block : blocks)
      BlockEpilogues(*block, kernels).run();
  }
};

} // namespace
