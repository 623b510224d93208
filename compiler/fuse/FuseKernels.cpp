//===- FuseKernels.cpp - Functions of operations become functions of calls
//-===//
#include "compiler/fuse/BuildKernels.h"
#include "compiler/fuse/KernelTable.h"
#include "compiler/fuse/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"
#include "llvm/ADT/STLExtras.h"

namespace lockstep::fuse {
#define GEN_PASS_DEF_FUSEKERNELSPASS
#include "compiler/fuse/FusePasses.h.inc"
} // namespace lockstep::fuse

using namespace mlir;
using namespace lockstep;
using namespace lockstep::fuse;

/// Remarks: what became one kernel, and the memory traffic of its call.
static void report(plan::KernelOp kernel, ArrayRef<Operation *> members) {
  remark::passed(kernel.getLoc(),
                 remark::RemarkOpts::name("kernel").category("fuse"))
      << remark::metric("name", kernel.getSymName())
      << remark::metric("kind", plan::stringifyKernelKind(kernel.getKind()))
      << remark::metric("operations", std::max<size_t>(1, members.size()))
      << remark::metric("arguments", kernel.getNumArguments())
      << remark::metric("bytes", static_cast<int64_t>(
                                     kernel.getBytes().convertToDouble()));
}

namespace {

/// Rewrites one block: builds kernels in reverse order (a kernel computes only
/// what later ones read), then calls in order.
class BlockFuser {
public:
  BlockFuser(Block &block, KernelTable &kernels, int64_t maxArguments)
      : block(block), kernels(kernels), operands(block),
        grouping(block, operands, maxArguments) {}

  void run() {
    grouping.run();
    SmallVector<Node *> nodes = grouping.getGraph().getOrdered();
    SmallVector<std::optional<BuiltKernel>> built(nodes.size());
    for (size_t i = nodes.size(); i-- > 0;)
      built[i] = build(*nodes[i]);
    SmallVector<Operation *> old = collectOld();
    builder.setInsertionPointToEnd(&block);
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (built[i])
        call(*built[i], *nodes[i]);
      else if (nodes[i]->op)
        moveBoundary(nodes[i]->op);
    }
    for (Operation *op : llvm::reverse(old)) {
      op->dropAllUses();
      op->erase();
    }
  }

private:
  std::optional<BuiltKernel> build(Node &node) {
    std::optional<BuiltKernel> kernel;
    if (node.isLoop()) {
      SmallVector<Value> outputs;
      for (Operation *op : node.members)
        if (needed.contains(op->getResult(0)))
          outputs.push_back(op->getResult(0));
      if (outputs.empty())
        return std::nullopt;
      kernel = buildLoopKernel(node, operands, outputs);
    } else if (isa<train::SgdOp, train::AdamOp>(node.op)) {
      kernel = describeUpdate(node.op, operands);
    } else if (Operands::isAnchor(node.op)) {
      kernel = buildAnchorKernel(node.op, operands);
    } else {
      for (const FoldedOperand &operand : operands.getFolded(node.op))
        needed.insert(operand.root);
      return std::nullopt;
    }
    for (const FoldedOperand &argument : kernel->arguments)
      needed.insert(argument.root);
    return kernel;
  }

  /// Everything but boundaries is replaced by calls.
  SmallVector<Operation *> collectOld() {
    SmallVector<Operation *> old;
    for (Operation &op : block)
      if (!Operands::isBoundary(&op))
        old.push_back(&op);
    return old;
  }

  /// The value in memory for an operand: a new value, behind a view where it is
  /// a part or has another shape.
  Value resolve(const FoldedOperand &operand, Type type) {
    Value root = current.lookupOrDefault(operand.root);
    if (operand.views.empty())
      return root;
    std::optional<plan::StridedView> view =
        plan::getContiguousView(operand.root);
    for (Operation *op : operand.views)
      view = plan::applyView(op, *view);
    return builder.createOrFold<plan::ViewOp>(operand.views.back()->getLoc(),
                                              type, root, view->offset);
  }

  void call(BuiltKernel &built, Node &node) {
    SmallVector<Value> arguments;
    for (const FoldedOperand &argument : built.arguments)
      arguments.push_back(resolve(
          argument, argument.views.empty()
                        ? argument.root.getType()
                        : argument.views.back()->getResult(0).getType()));
    // An update's kernel is built once for all that are alike.
    Location loc = built.kernel ? built.kernel.getLoc() : node.op->getLoc();
    SmallVector<Type> types = llvm::map_to_vector(
        built.results, [](Value value) { return value.getType(); });
    plan::KernelOp kernel = built.kernel
                                ? kernels.insert(built.kernel)
                                : kernels.insertUpdate(node.op, operands);
    report(kernel, node.members);
    auto call = plan::CallOp::create(builder, loc, types, kernel.getSymName(),
                                     arguments);
    current.map(built.results, call.getResults());
  }

  void moveBoundary(Operation *op) {
    ArrayRef<FoldedOperand> folded = operands.getFolded(op);
    builder.setInsertionPointToEnd(&block);
    size_t count = op->getNumOperands();
    SmallVector<Value> originals(op->getOperands());
    for (size_t i = 0; i < count; ++i)
      op->setOperand(i, resolve(folded[i], originals[i].getType()));
    // What the region of an accumulation reads from outside.
    for (const FoldedOperand &operand : folded.drop_front(count)) {
      Value original = operand.views.empty()
                           ? operand.root
                           : operand.views.back()->getResult(0);
      Value replacement = resolve(operand, original.getType());
      original.replaceUsesWithIf(replacement, [&](OpOperand &use) {
        return op->isProperAncestor(use.getOwner());
      });
    }
    op->moveBefore(&block, block.end());
    builder.setInsertionPointToEnd(&block);
  }

  Block &block;
  KernelTable &kernels;
  Operands operands;
  Grouping grouping;
  IRMapping current;
  llvm::DenseSet<Value> needed;
  OpBuilder builder{block.getParentOp()->getContext()};
};

struct FuseKernels : fuse::impl::FuseKernelsPassBase<FuseKernels> {
  using Base::Base;

  void runOnOperation() override {
    KernelTable kernels(getOperation());
    for (auto function :
         llvm::to_vector(getOperation().getOps<func::FuncOp>())) {
      if (function.isExternal())
        continue;
      // Inner blocks first: what they read from outside is then known.
      SmallVector<Block *> blocks;
      function.walk([&](train::AccumulateOp op) {
        blocks.push_back(&op.getBody().front());
      });
      blocks.push_back(&function.getBody().front());
      for (Block *block : blocks)
        BlockFuser(*block, kernels, maxArguments).run();
    }
  }
};

} // namespace
