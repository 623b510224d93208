//===- KernelTable.cpp - One kernel per structure -------------------------===//
#include "compiler/fuse/KernelTable.h"
#include "compiler/fuse/BuildKernels.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::fuse;

/// Names say what a kernel does most: its anchor, its costliest operation, or
/// what it moves.
static llvm::StringRef getHint(plan::KernelOp kernel) {
  if (Operation *anchor = kernel.getAnchor())
    return anchor->getName().stripDialect();
  llvm::StringRef hint = plan::stringifyKernelKind(kernel.getKind());
  int best = -1;
  for (Operation &op : kernel.getBlock().without_terminator()) {
    int weight = isa<train::ConstantOp, train::IotaOp>(op)          ? -1
                 : plan::isViewOp(&op) || isa<train::ConvertOp>(op) ? 0
                 : isa<train::ReduceOp>(op)                         ? 2
                 : op.hasTrait<train::Pointwise>() && !isCheap(&op) ? 3
                                                                    : 1;
    if (weight > best || (weight == best && weight == 1)) {
      best = weight;
      hint = op.getName().stripDialect();
    }
  }
  return hint;
}

/// Work of a loop or update: one operation per element and pointwise operation
/// or reduced element, 10 for costly ones.
static double countFlops(Operation &op) {
  if (auto costed = dyn_cast<train::CostedOpInterface>(op);
      costed && plan::getAnchorKind(&op))
    return costed.getCost().flops;
  if (isa<train::ReduceOp>(op))
    return static_cast<double>(getElements(op.getOperand(0)));
  if (op.hasTrait<train::Pointwise>() && !isa<train::ConvertOp>(op))
    return static_cast<double>(getElements(op.getResult(0))) *
           (isCheap(&op) ? 1 : 10);
  return 0;
}

/// Equal for kernels of equal structure: the operations and their types, which
/// tell most kernels apart. isEqual looks at the rest.
static size_t getHash(plan::KernelOp kernel) {
  llvm::hash_code hash =
      llvm::hash_combine(kernel.getKind(), kernel.getFunctionType());
  for (Operation &op : kernel.getBlock()) {
    hash = llvm::hash_combine(hash, op.getName());
    for (Type type : op.getResultTypes())
      hash = llvm::hash_combine(hash, type);
  }
  return hash;
}

static bool isEqual(plan::KernelOp a, plan::KernelOp b) {
  return a.getKind() == b.getKind() &&
         a.getFunctionType() == b.getFunctionType() &&
         OperationEquivalence::isRegionEquivalentTo(
             &a.getBody(), &b.getBody(), OperationEquivalence::IgnoreLocations);
}

KernelTable::KernelTable(ModuleOp module) : module(module) {
  for (auto kernel : module.getOps<plan::KernelOp>()) {
    kernels[getHash(kernel)].push_back(kernel);
    ++count;
  }
}

plan::KernelOp KernelTable::insert(plan::KernelOp kernel) {
  SmallVector<plan::KernelOp, 1> &candidates = kernels[getHash(kernel)];
  for (plan::KernelOp candidate : candidates)
    if (isEqual(candidate, kernel)) {
      kernel->erase();
      return candidate;
    }
  candidates.push_back(kernel);
  OpBuilder builder(kernel.getContext());
  double flops = 0, bytes = 0;
  for (Operation &op : kernel.getBlock().without_terminator())
    flops += countFlops(op);
  for (Type type : llvm::concat<const Type>(kernel.getArgumentTypes(),
                                            kernel.getResultTypes()))
    bytes +=
        static_cast<double>(plan::getTensorBytes(cast<RankedTensorType>(type)));
  kernel.setFlopsAttr(builder.getF64FloatAttr(flops));
  kernel.setBytesAttr(builder.getF64FloatAttr(bytes));
  kernel.setSymName((getHint(kernel) + "_" + llvm::Twine(count++)).str());
  module.push_back(kernel);
  return kernel;
}

/// The operation without its operands, and what the kernel makes of these: a
/// constant or an argument of some type, and which of them are one.
static SmallVector<const void *> getUpdateKey(Operation *op) {
  SmallVector<const void *> key{
      op->getName().getAsOpaquePointer(),
      op->getPropertiesAsAttribute().getAsOpaquePointer(),
      op->getDiscardableAttrDictionary().getAsOpaquePointer()};
  llvm::SmallDenseMap<Value, unsigned> first;
  for (auto [index, operand] : llvm::enumerate(op->getOperands())) {
    unsigned place = first.try_emplace(operand, index).first->second;
    key.push_back(reinterpret_cast<const void *>(uintptr_t(place)));
    if (takesConstant(op, index))
      key.push_back(operand.getDefiningOp<train::ConstantOp>()
                        .getValue()
                        .getAsOpaquePointer());
    else
      key.push_back(getUpdateType(op, index).getAsOpaquePointer());
  }
  return key;
}

plan::KernelOp KernelTable::insertUpdate(Operation *op, Operands &operands) {
  plan::KernelOp &kernel = updates[getUpdateKey(op)];
  if (!kernel)
    kernel = insert(buildUpdateKernel(op, operands));
  return kernel;
}
