//===- Recipe.cpp - How a value is computed again -------------------------===//
#include "compiler/schedule/Recipe.h"
#include "dialects/plan/KernelModel.h"
#include "dialects/train/ShardingRule.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OperationSupport.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::schedule;

/// About what an H200 sustains; a processor core.
static constexpr Rates kGpu = {6e14, 4e13, 2e13, 3.8e12, 3e-6},
                       kCore = {1e11, 1e11, 1e10, 1e10, 2e-6};

Rates Rates::get(bool gpu) { return gpu ? kGpu : kCore; }

static bool isNarrow(Type type) {
  return getElementTypeOrSelf(type).getIntOrFloatBitWidth() <= 16;
}

double RecipeBook::estimateSeconds(plan::KernelOp kernel) const {
  double bytes = 0, seconds = 0;
  for (Type type : llvm::concat<const Type>(kernel.getArgumentTypes(),
                                            kernel.getResultTypes()))
    bytes +=
        static_cast<double>(plan::getTensorBytes(cast<RankedTensorType>(type)));
  for (Operation &op : kernel.getBlock().without_terminator()) {
    auto costed = dyn_cast<train::CostedOpInterface>(op);
    if (!costed || plan::isViewOp(&op) || isa<train::ConvertOp>(op))
      continue;
    double rate = !plan::getAnchorKind(&op)              ? rates.loopFlops
                  : isNarrow(op.getOperand(0).getType()) ? rates.narrowFlops
                                                         : rates.wideFlops;
    seconds += costed.getCost().flops / rate;
  }
  return rates.launch + std::max(seconds, bytes / rates.bytes);
}

//===----------------------------------------------------------------------===//
// Parts of kernels
//===----------------------------------------------------------------------===//

namespace {

/// Where the walk back from a result stops.
struct Stop {
  unsigned result;
  /// The kept result is the value rounded.
  bool rounded;
};

/// Copies what leads to one result of a kernel into a new one.
class PartBuilder {
public:
  PartBuilder(plan::KernelOp kernel, const llvm::SmallBitVector &kept,
              bool mayRound)
      : kernel(kernel), builder(kernel.getContext()) {
    for (unsigned result : kept.set_bits())
      addStops(result, mayRound);
    part =
        plan::KernelOp::create(builder, kernel.getLoc(), plan::KernelKind::Loop,
                               "part", builder.getFunctionType({}, {}));
    builder.setInsertionPointToStart(&part.getBlock());
  }
  ~PartBuilder() {
    if (part)
      part->erase();
  }

  /// Null where the part would hold an anchor.
  plan::KernelOp build(unsigned result) {
    Value value = copy(kernel.getBlock().getTerminator()->getOperand(result));
    if (!value)
      return nullptr;
    plan::ReturnOp::create(builder, kernel.getLoc(), value);
    part.setFunctionType(builder.getFunctionType(
        part.getBlock().getArgumentTypes(), value.getType()));
    return std::exchange(part, nullptr);
  }

  SmallVector<unsigned> takeSources() { return std::move(sources); }

private:
  /// A result may be a reshape or a rounding of the value that others read.
  void addStops(unsigned result, bool mayRound) {
    Value value = kernel.getBlock().getTerminator()->getOperand(result);
    bool rounded = false;
    while (!isa<BlockArgument>(value)) {
      stops.try_emplace(value, Stop{result, rounded});
      Operation *op = value.getDefiningOp();
      auto convert = dyn_cast<train::ConvertOp>(op);
      if (convert && mayRound && !rounded &&
          isa<FloatType>(convert.getOperand().getType().getElementType()))
        rounded = true;
      else if (!isa<train::ReshapeOp>(op))
        return;
      value = op->getOperand(0);
    }
  }

  Value addArgument(unsigned source, Type type) {
    if (auto *known = llvm::find(sources, source); known != sources.end())
      return part.getBlock().getArgument(known - sources.begin());
    sources.push_back(source);
    return part.getBlock().addArgument(type, part.getLoc());
  }

  Value copy(Value value) {
    if (Value known = mapping.lookupOrNull(value))
      return known;
    Value copied;
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      copied = addArgument(argument.getArgNumber(), value.getType());
    } else if (auto stop = stops.find(value); stop != stops.end()) {
      copied = readResult(stop->second.result, value);
    } else {
      Operation *op = value.getDefiningOp();
      if (plan::getAnchorKind(op))
        return {};
      for (Value operand : op->getOperands())
        if (!copy(operand))
          return {};
      builder.clone(*op, mapping);
      return mapping.lookup(value);
    }
    mapping.map(value, copied);
    return copied;
  }

  /// A kept result as the value that it is a reshape or a rounding of.
  Value readResult(unsigned result, Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    Value read = addArgument(kernel.getNumArguments() + result,
                             kernel.getResultTypes()[result]);
    auto from = cast<RankedTensorType>(read.getType());
    if (from.getShape() != type.getShape())
      read = train::ReshapeOp::create(builder, value.getLoc(),
                                      from.clone(type.getShape()), read);
    if (from.getElementType() != type.getElementType())
      read = train::ConvertOp::create(builder, value.getLoc(), type, read);
    return read;
  }

  plan::KernelOp kernel, part;
  OpBuilder builder;
  IRMapping mapping;
  llvm::DenseMap<Value, Stop> stops;
  SmallVector<unsigned> sources;
};

} // namespace

/// Kinds whose call computes the same again.
static bool isRepeatable(plan::KernelKind kind) {
  switch (kind) {
  case plan::KernelKind::Loop:
  case plan::KernelKind::Contraction:
  case plan::KernelKind::Attention:
  case plan::KernelKind::Convolution:
  case plan::KernelKind::Window:
    return true;
  default:
    return false;
  }
}

plan::KernelOp RecipeBook::insert(plan::KernelOp kernel, StringRef from) {
  for (auto known : module.getOps<plan::KernelOp>())
    if (known.getKind() == kernel.getKind() &&
        known.getFunctionType() == kernel.getFunctionType() &&
        OperationEquivalence::isRegionEquivalentTo(
            &known.getBody(), &kernel.getBody(),
            OperationEquivalence::IgnoreLocations)) {
      kernel->erase();
      return known;
    }
  double bytes = 0, flops = 0;
  for (Type type : llvm::concat<const Type>(kernel.getArgumentTypes(),
                                            kernel.getResultTypes()))
    bytes +=
        static_cast<double>(plan::getTensorBytes(cast<RankedTensorType>(type)));
  for (Operation &op : kernel.getBlock().without_terminator())
    if (auto costed = dyn_cast<train::CostedOpInterface>(op);
        costed && !plan::isViewOp(&op) && !isa<train::ConvertOp>(op))
      flops += costed.getCost().flops;
  Builder builder(kernel.getContext());
  kernel.setFlopsAttr(builder.getF64FloatAttr(flops));
  kernel.setBytesAttr(builder.getF64FloatAttr(bytes));
  std::string name = (from + "_again").str();
  for (unsigned number = 1; module.lookupSymbol(name); ++number)
    name = (from + "_again_" + Twine(number)).str();
  kernel.setSymName(name);
  module.push_back(kernel);
  made.push_back(kernel);
  return kernel;
}

/// The exact part if there is one; else one that starts at rounded results;
/// else the whole kernel.
std::optional<RecipeBook::Part>
RecipeBook::makePart(plan::KernelOp kernel, unsigned result,
                     const llvm::SmallBitVector &kept) {
  if (!isRepeatable(kernel.getKind()))
    return std::nullopt;
  for (bool mayRound : {false, true}) {
    PartBuilder builder(kernel, kept, mayRound);
    if (plan::KernelOp built = builder.build(result)) {
      built = insert(built, kernel.getSymName());
      return Part{built, builder.takeSources(), estimateSeconds(built)};
    }
  }
  return Part{kernel, llvm::to_vector(llvm::seq(kernel.getNumArguments())),
              estimateSeconds(kernel)};
}

std::optional<Recipe> RecipeBook::find(OpResult value,
                                       const llvm::SmallBitVector &kept) {
  auto call = dyn_cast<plan::CallOp>(value.getOwner());
  if (!call)
    return std::nullopt;
  auto kernel = SymbolTable::lookupNearestSymbolFrom<plan::KernelOp>(
      call, call.getKernelAttr());
  llvm::SmallBitVector others = kept;
  others.reset(value.getResultNumber());
  auto key = std::make_tuple(
      kernel.getOperation(), value.getResultNumber(),
      std::vector<unsigned>(others.set_bits_begin(), others.set_bits_end()));
  auto it = parts.find(key);
  if (it == parts.end())
    it = parts
             .emplace(std::move(key),
                      makePart(kernel, value.getResultNumber(), others))
             .first;
  const std::optional<Part> &part = it->second;
  if (!part)
    return std::nullopt;
  Recipe recipe{part->kernel, {}, {}, part->seconds};
  unsigned arguments = call->getNumOperands();
  for (unsigned source : part->sources)
    recipe.operands.push_back(source < arguments
                                  ? call->getOperand(source)
                                  : call->getResult(source - arguments));
  if (part->kernel == kernel)
    llvm::append_range(recipe.results,
                       llvm::seq<unsigned>(0, call->getNumResults()));
  else
    recipe.results.push_back(value.getResultNumber());
  return recipe;
}

void RecipeBook::eraseUnused() {
  llvm::DenseSet<Attribute> called;
  module.walk([&](plan::CallOp call) {
    called.insert(call.getKernelAttr().getAttr());
  });
  for (plan::KernelOp kernel : made)
    if (!called.contains(kernel.getSymNameAttr()))
      kernel->erase();
  made.clear();
  parts.clear();
}
