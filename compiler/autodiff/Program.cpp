//===- Program.cpp - Reading @forward, writing @step and @eval
//-------------===//
#include "compiler/autodiff/Program.h"
#include "dialects/train/StepAttributes.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::autodiff;
using train::TrainDialect;

std::optional<train::Role> autodiff::getRole(DictionaryAttr attributes) {
  if (auto role = attributes ? attributes.getAs<train::RoleAttr>(
                                   TrainDialect::kRoleAttr)
                             : nullptr)
    return role.getValue();
  return std::nullopt;
}

StringRef autodiff::getName(DictionaryAttr attributes) {
  auto name = attributes ? attributes.getAs<StringAttr>(TrainDialect::kNameAttr)
                         : nullptr;
  return name ? name.getValue() : StringRef();
}

//===--- Reading ---===//

FailureOr<ForwardProgram> ForwardProgram::read(ModuleOp module) {
  ForwardProgram program;
  program.function = module.lookupSymbol<func::FuncOp>(train::kForwardName);
  if (!program.function || !program.function.getBody().hasOneBlock())
    return module.emitError(
        "expected a function @forward of one block, as import makes it");
  auto addSlots = [&](SmallVectorImpl<Slot> &slots, ValueRange values,
                      ArrayAttr attributes, StringRef kind) -> LogicalResult {
    for (auto [i, value] : llvm::enumerate(values)) {
      auto dictionary =
          attributes ? cast<DictionaryAttr>(attributes[i]) : DictionaryAttr();
      std::optional<train::Role> role = getRole(dictionary);
      if (!role || !isa<RankedTensorType>(value.getType()))
        return program.function.emitError("expected ")
               << kind << " " << i
               << " of @forward to be a tensor with `train.role`";
      slots.push_back({*role, getName(dictionary), dictionary, value});
    }
    return success();
  };
  Block &body = program.function.getBody().front();
  if (failed(addSlots(program.arguments, body.getArguments(),
                      program.function.getArgAttrsAttr(), "argument")) ||
      failed(addSlots(program.results, body.getTerminator()->getOperands(),
                      program.function.getResAttrsAttr(), "result")))
    return failure();
  return program;
}

SmallVector<ForwardProgram::Slot> ForwardProgram::getOutputs() const {
  return llvm::filter_to_vector(results, [](const Slot &slot) {
    return slot.role == train::Role::Output;
  });
}

const ForwardProgram::Slot *ForwardProgram::findInput(StringRef name) const {
  auto isWanted = [&](const Slot &slot) {
    return (slot.role == train::Role::Input ||
            slot.role == train::Role::Label) &&
           slot.name == name;
  };
  auto found = llvm::find_if(arguments, isWanted);
  return found == arguments.end() ? nullptr : &*found;
}

int64_t ForwardProgram::getBatchSize() const {
  for (const Slot &slot : arguments)
    if ((slot.role == train::Role::Input || slot.role == train::Role::Label) &&
        !slot.has(TrainDialect::kWholeAttr) && slot.getType().getRank() > 0)
      return slot.getType().getDimSize(0);
  return 0;
}

//===--- Writing ---===//

static func::FuncOp createFunction(Operation *before, StringRef name) {
  OpBuilder builder(before);
  return func::FuncOp::create(builder, before->getLoc(), name,
                              builder.getFunctionType({}, {}));
}

ProgramBuilder::ProgramBuilder(Operation *before, StringRef name)
    : function(createFunction(before, name)), block(function.addEntryBlock()),
      builder(OpBuilder::atBlockEnd(block)) {}

DictionaryAttr
ProgramBuilder::makeAttributes(train::Role role, StringRef name,
                               ArrayRef<NamedAttribute> further) {
  SmallVector<NamedAttribute> attributes(further);
  attributes.push_back(
      builder.getNamedAttr(TrainDialect::kRoleAttr,
                           train::RoleAttr::get(builder.getContext(), role)));
  attributes.push_back(builder.getNamedAttr(TrainDialect::kNameAttr,
                                            builder.getStringAttr(name)));
  return builder.getDictionaryAttr(attributes);
}

size_t ProgramBuilder::endOfRole(ArrayRef<Entry> entries, train::Role role) {
  return llvm::upper_bound(
             entries, role,
             [](train::Role a, const Entry &entry) { return a < entry.role; }) -
         entries.begin();
}

BlockArgument ProgramBuilder::addArgument(RankedTensorType type,
                                          train::Role role, StringRef name,
                                          ArrayRef<NamedAttribute> further) {
  size_t index = endOfRole(arguments, role);
  BlockArgument argument = block->insertArgument(index, type, getLoc());
  arguments.insert(arguments.begin() + index,
                   {role, makeAttributes(role, name, further), argument});
  return argument;
}

void ProgramBuilder::addResult(Value value, train::Role role, StringRef name) {
  results.insert(results.begin() + endOfRole(results, role),
                 {role, makeAttributes(role, name, {}), value});
}

func::FuncOp ProgramBuilder::finish() {
  auto collect = [](ArrayRef<Entry> entries, SmallVector<Value> &values,
                    SmallVector<Attribute> &attributes) {
    for (const Entry &entry : entries) {
      values.push_back(entry.value);
      attributes.push_back(entry.attributes);
    }
  };
  SmallVector<Value> argumentValues, resultValues;
  SmallVector<Attribute> argumentAttributes, resultAttributes;
  collect(arguments, argumentValues, argumentAttributes);
  collect(results, resultValues, resultAttributes);
  func::ReturnOp::create(builder, getLoc(), resultValues);
  function.setFunctionType(
      builder.getFunctionType(TypeRange(ValueRange(argumentValues)),
                              TypeRange(ValueRange(resultValues))));
  function.setArgAttrsAttr(builder.getArrayAttr(argumentAttributes));
  function.setResAttrsAttr(builder.getArrayAttr(resultAttributes));
  return function;
}
