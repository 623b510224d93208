//===- Entry.cpp - Programs by the names of their values
//---------------------------===//
#include "compiler/reference/Entry.h"
#include "compiler/reference/ProgramMachine.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace lockstep {

FailureOr<Operation *> findEntry(ModuleOp module, StringRef name) {
  if (auto function = module.lookupSymbol<func::FuncOp>(name))
    return function.getOperation();
  for (auto program : module.getOps<plan::ProgramOp>())
    if (program.getEntry() == name || program.getSymName() == name)
      return program.getOperation();
  return module.emitError("expected a function or program named '")
         << name << "'";
}

/// Puts the role in front of names that occur more than once.
static void makeUnique(SmallVectorImpl<EntryValue> &list) {
  llvm::StringMap<int> count;
  for (const EntryValue &value : list)
    ++count[value.name];
  for (EntryValue &value : list)
    if (count[value.name] > 1 && value.role)
      value.name = (train::stringifyRole(*value.role) + "/" + value.name).str();
}

static EntryValue describe(Type type, DictionaryAttr attributes,
                           const std::string &fallback) {
  EntryValue value{fallback, std::nullopt, cast<RankedTensorType>(type)};
  if (!attributes)
    return value;
  if (auto name = attributes.getAs<StringAttr>(train::TrainDialect::kNameAttr))
    value.name = name.str();
  if (auto role =
          attributes.getAs<train::RoleAttr>(train::TrainDialect::kRoleAttr))
    value.role = role.getValue();
  return value;
}

static bool isResult(const NamedBuffer &buffer) {
  return buffer.kind == plan::BufferKind::Persistent ||
         buffer.role == train::Role::Metric ||
         buffer.role == train::Role::Output;
}

static bool isArgument(const NamedBuffer &buffer) {
  return buffer.role != train::Role::Metric &&
         buffer.role != train::Role::Output && !buffer.mesh;
}

/// What the runtime fills in before a program runs.
static void writeCoordinates(ProgramMachine &machine, plan::ProgramOp program,
                             ArrayRef<NamedBuffer> buffers, int64_t ranks) {
  for (const NamedBuffer &buffer : buffers) {
    if (!buffer.mesh)
      continue;
    auto mesh = SymbolTable::lookupNearestSymbolFrom<dist::MeshOp>(program,
                                                                   buffer.mesh);
    for (int64_t rank = 0; rank < ranks; ++rank)
      machine.write(buffer, rank,
                    HostTensor::splat(buffer.type, double(mesh.getCoordinate(
                                                       rank, buffer.axes))));
  }
}

EntrySignature getEntrySignature(Operation *entry) {
  EntrySignature signature;
  if (auto function = dyn_cast<func::FuncOp>(entry)) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      signature.arguments.push_back(describe(function.getArgumentTypes()[i],
                                             function.getArgAttrDict(i),
                                             "arg" + std::to_string(i)));
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      signature.results.push_back(describe(function.getResultTypes()[i],
                                           function.getResultAttrDict(i),
                                           "result" + std::to_string(i)));
  } else {
    for (const NamedBuffer &buffer :
         getNamedBuffers(cast<plan::ProgramOp>(entry))) {
      if (isArgument(buffer))
        signature.arguments.push_back({buffer.name, buffer.role, buffer.type});
      if (isResult(buffer))
        signature.results.push_back({buffer.name, buffer.role, buffer.type});
    }
  }
  makeUnique(signature.arguments);
  makeUnique(signature.results);
  return signature;
}

FailureOr<SmallVector<RankTensors>> runEntry(Operation *entry, int64_t ranks,
                                             ArrayRef<RankTensors> arguments) {
  if (auto function = dyn_cast<func::FuncOp>(entry))
    return interpretRanks(function, ranks, arguments);
  auto program = cast<plan::ProgramOp>(entry);
  ProgramMachine machine(program, ranks);
  SmallVector<NamedBuffer> buffers = getNamedBuffers(program);
  size_t next = 0;
  for (const NamedBuffer &buffer : buffers) {
    if (!isArgument(buffer))
      continue;
    for (int64_t rank = 0; rank < ranks; ++rank)
      machine.write(buffer, rank, arguments[next][rank]);
    ++next;
  }
  writeCoordinates(machine, program, buffers, ranks);
  if (failed(machine.run()))
    return failure();
  SmallVector<RankTensors> results;
  for (const NamedBuffer &buffer : buffers) {
    if (!isResult(buffer))
      continue;
    results.emplace_back();
    for (int64_t rank = 0; rank < ranks; ++rank)
      results.back().push_back(machine.read(buffer, rank));
  }
  return results;
}

int64_t getNumRanks(ModuleOp module) {
  for (auto mesh : module.getOps<dist::MeshOp>())
    return mesh.getNumRanks();
  return 1;
}

} // namespace lockstep
