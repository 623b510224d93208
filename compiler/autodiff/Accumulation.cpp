//===- Accumulation.cpp - Forward and backward once per micro batch
//--------===//
//
// The loss of the whole batch is S / C, with S a sum over its samples and C a
// count that labels alone (or nothing) decide. So C comes from all labels
// before the loop; each micro batch contributes S_k, whose cotangent is 1 / C,
// and its gradients, and both are summed. The program of one micro batch is the
// forward program with dimension 0 of the batch divided (compiler/sharding),
// which refuses a loss that is not such a sum.
//
//===----------------------------------------------------------------------===//
#include "compiler/autodiff/StepParts.h"
#include "compiler/sharding/DivideBatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::autodiff;
using namespace lockstep::train;

static Role roleOf(func::FuncOp function, unsigned argument) {
  return *getRole(function.getArgAttrDict(argument));
}
static bool isWhole(func::FuncOp function, unsigned argument) {
  return function.getArgAttrDict(argument).contains(TrainDialect::kWholeAttr);
}

//===--- The program of one micro batch ---===//

/// The operations of a block on which `value` depends, in order; null if one of
/// them, or the value itself, depends on an argument that is neither input nor
/// label.
static std::optional<SmallVector<Operation *>>
sliceOnLabels(func::FuncOp function, Value value) {
  llvm::SetVector<Value> needed;
  needed.insert(value);
  for (size_t i = 0; i < needed.size(); ++i) {
    Value next = needed[i];
    if (Operation *op = next.getDefiningOp()) {
      needed.insert(op->operand_begin(), op->operand_end());
      continue;
    }
    Role role = roleOf(function, cast<BlockArgument>(next).getArgNumber());
    if (role != Role::Input && role != Role::Label)
      return std::nullopt;
  }
  SmallVector<Operation *> slice;
  for (Operation &op : function.getBody().front())
    if (llvm::any_of(op.getResults(),
                     [&](Value result) { return needed.contains(result); }))
      slice.push_back(&op);
  return slice;
}

/// Finds sum and count in a loss that the graph computed: divide(sum, count),
/// also within reshapes and conversions.
static LossTerms recognizeTerms(func::FuncOp function, Value loss) {
  Value value = loss;
  while (value.getDefiningOp() &&
         isa<ReshapeOp, ConvertOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  auto divide = value.getDefiningOp<DivideOp>();
  if (!divide || !sliceOnLabels(function, divide.getRhs()))
    return {loss, Value()};
  return {divide.getLhs(), divide.getRhs()};
}

static void eraseDeadOperations(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

namespace {

class AccumulationBuilder {
public:
  AccumulationBuilder(ProgramBuilder &program, const ForwardProgram &forward,
                      const LossPlan &plan, const ProgramValues &values,
                      const StepOptions &options)
      : program(program), forward(forward), plan(plan), values(values),
        options(options), b(program.getBuilder(), program.getLoc()) {}

  FailureOr<StepResults> build() {
    if (failed(buildMicroProgram()))
      return failure();
    FailureOr<StepResults> step = buildLoop();
    micro.erase();
    return step;
  }

private:
  /// Forward and loss sum for one micro batch, and the count for all of them.
  LogicalResult buildMicroProgram() {
    ProgramBuilder microProgram(forward.getFunction(), "micro_batch");
    ProgramValues copies =
        addArguments(microProgram, forward, plan, options, /*withRng=*/true);
    copyForward(microProgram, forward, copies.mapping, options.localBatchNorm);
    TensorBuilder microBuilder(microProgram.getBuilder(),
                               microProgram.getLoc());
    LossTerms terms =
        buildLoss(microBuilder, plan, copies.lookup(forward.getOutputs()),
                  copies.labels, options);
    // Results are ordered by role, so the loss, the only metric, comes last.
    microProgram.addResult(terms.sum, Role::Metric, "loss");
    for (const ForwardProgram::Slot &slot : forward.getResults())
      if (slot.role == Role::Buffer)
        microProgram.addResult(copies.mapping.lookup(slot.value), Role::Buffer,
                               slot.name);
    micro = microProgram.finish();
    if (!terms.count) {
      terms = recognizeTerms(micro, terms.sum);
      Operation *terminator = micro.getBody().front().getTerminator();
      terminator->setOperand(terminator->getNumOperands() - 1, terms.sum);
      micro.setFunctionType(b.getBuilder().getFunctionType(
          micro.getArgumentTypes(), terminator->getOperandTypes()));
    }
    if (terms.count)
      count = copyCount(terms.count);
    eraseDeadOperations(micro.getBody().front());
    if (failed(sharding::divideBatch(micro, options.accumulationSteps))) {
      micro.erase();
      return failure();
    }
    return success();
  }

  /// The count in the step, of the whole batch: the two programs have the same
  /// arguments.
  Value copyCount(Value microCount) {
    IRMapping mapping;
    mapping.map(micro.getArguments(), program.getBlock().getArguments());
    std::optional<SmallVector<Operation *>> slice =
        sliceOnLabels(micro, microCount);
    for (Operation *op : *slice)
      b.getBuilder().clone(*op, mapping);
    return b.convertToCompute(b.reshape(mapping.lookup(microCount), {}));
  }

  /// The arguments of the micro program in the loop: parts of the batch,
  /// carried values, or values from outside.
  void addBodyArguments(Block &body, IRMapping &mapping) {
    llvm::StringMap<bool> isReplaced;
    for (const ForwardProgram::Slot &slot : forward.getResults())
      if (slot.role == Role::Buffer)
        isReplaced[slot.name] = true;
    SmallVector<unsigned> carriedArguments;
    for (unsigned i = 0, e = micro.getNumArguments(); i < e; ++i) {
      Value outer = program.getBlock().getArgument(i),
            inner = micro.getArgument(i);
      Role role = roleOf(micro, i);
      if ((role == Role::Input || role == Role::Label) && !isWhole(micro, i)) {
        batch.push_back(outer);
        mapping.map(inner, body.addArgument(inner.getType(), outer.getLoc()));
      } else if (role == Role::Rng ||
                 (role == Role::Buffer && isReplaced.lookup(autodiff::getName(
                                              micro.getArgAttrDict(i))))) {
        carriedArguments.push_back(i);
      } else {
        mapping.map(inner, outer);
      }
    }
    for (unsigned i : carriedArguments) {
      Value inner = micro.getArgument(i);
      carried.push_back(program.getBlock().getArgument(i));
      carriedNames.push_back(roleOf(micro, i) == Role::Rng
                                 ? StringRef()
                                 : autodiff::getName(micro.getArgAttrDict(i)));
      mapping.map(inner,
                  body.addArgument(inner.getType(), carried.back().getLoc()));
    }
    body.addArgument(RankedTensorType::get({}, b.getBuilder().getI64Type()),
                     program.getLoc());
  }

  /// seed, step K + k: the second number counts micro batches.
  static Value advanceRng(TensorBuilder &b, Value rng) {
    auto type = getTensorType(rng);
    Value one = ConstantOp::create(
        b.getBuilder(), b.getLoc(),
        DenseElementsAttr::get(type, ArrayRef<int64_t>{0, 1}));
    return b.add(rng, one);
  }

  /// The new value of every carried argument, in their order.
  SmallVector<Value> nextCarried(TensorBuilder &inBody, Block &body,
                                 const IRMapping &mapping) {
    llvm::StringMap<Value> newBuffers;
    Operation *terminator = micro.getBody().front().getTerminator();
    for (unsigned i = 0, e = micro.getNumResults(); i < e; ++i)
      if (getRole(micro.getResultAttrDict(i)) == Role::Buffer)
        newBuffers[autodiff::getName(micro.getResultAttrDict(i))] =
            mapping.lookup(terminator->getOperand(i));
    SmallVector<Value> next;
    for (auto [i, name] : llvm::enumerate(carriedNames))
      next.push_back(
          name.empty() ? advanceRng(inBody, body.getArgument(batch.size() + i))
                       : newBuffers.lookup(name));
    return next;
  }

  FailureOr<StepResults> buildLoop() {
    Value seed = count ? b.divide(1.0, count) : Value();
    auto body = std::make_unique<Block>();
    IRMapping mapping;
    addBodyArguments(*body, mapping);
    OpBuilder bodyBuilder(micro.getContext());
    bodyBuilder.setInsertionPointToEnd(body.get());
    TensorBuilder inBody(bodyBuilder, program.getLoc());
    for (Operation &op : micro.getBody().front().without_terminator())
      bodyBuilder.clone(op, mapping);
    Value sum = mapping.lookup(
        micro.getBody().front().getTerminator()->getOperands().back());

    StepResults step;
    step.parameters = findTrainable(forward, values.mapping);
    Value bodySeed =
        seed ? inBody.reshape(inBody.convert(seed, getElementType(sum)),
                              getShape(sum))
             : inBody.constantLike(sum, 1);
    if (failed(
            buildBackward(bodyBuilder, *body, sum, bodySeed, step.parameters)))
      return failure();
    SmallVector<Value> yielded = nextCarried(inBody, *body, mapping);
    yielded.push_back(sum);
    for (const TrainedParameter &parameter : step.parameters)
      yielded.push_back(parameter.gradient);
    YieldOp::create(bodyBuilder, program.getLoc(), yielded);
    return finishLoop(std::move(body), yielded, std::move(step));
  }

  StepResults finishLoop(std::unique_ptr<Block> body, ValueRange yielded,
                         StepResults step) {
    auto loop =
        AccumulateOp::create(b.getBuilder(), b.getLoc(), yielded.getTypes(),
                             batch, carried, options.accumulationSteps);
    loop.getBody().push_back(body.release());
    for (auto [i, name] : llvm::enumerate(carriedNames))
      if (!name.empty())
        step.newBuffers.push_back({name, loop.getResult(i)});
    unsigned next = carried.size();
    Value sum = b.convertToCompute(b.reshape(loop.getResult(next++), {}));
    step.loss =
        count ? b.divide(sum, b.convert(count, getElementType(sum))) : sum;
    for (TrainedParameter &parameter : step.parameters)
      parameter.gradient = loop.getResult(next++);
    return step;
  }

  ProgramBuilder &program;
  const ForwardProgram &forward;
  const LossPlan &plan;
  const ProgramValues &values;
  const StepOptions &options;
  TensorBuilder b;
  func::FuncOp micro;
  /// In the step; null for a loss that is a sum by itself.
  Value count;
  SmallVector<Value> batch, carried;
  /// Buffers' names; empty for the rng.
  SmallVector<StringRef> carriedNames;
};

} // namespace

FailureOr<StepResults>
autodiff::buildAccumulation(ProgramBuilder &program,
                            const ForwardProgram &forward, const LossPlan &plan,
                            const ProgramValues &values,
                            const StepOptions &options) {
  return AccumulationBuilder(program, forward, plan, values, options).build();
}
