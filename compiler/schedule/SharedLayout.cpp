//===- SharedLayout.cpp - What has one place in all programs --------------===//
#include "compiler/schedule/Memory.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::schedule;

static std::optional<plan::BufferKind> getKind(train::Role role) {
  switch (role) {
  case train::Role::Parameter:
  case train::Role::State:
  case train::Role::Buffer:
    return plan::BufferKind::Persistent;
  case train::Role::Input:
  case train::Role::Label:
    return plan::BufferKind::Input;
  case train::Role::Hyperparameter:
  case train::Role::Rng:
  case train::Role::Metric:
  case train::Role::Output:
    return plan::BufferKind::Scalar;
  }
  return std::nullopt;
}

LogicalResult SharedLayout::addBuffer(Operation *user, plan::BufferKind kind,
                                      DictionaryAttr attributes, Type type,
                                      int &index) {
  auto name = attributes.getAs<StringAttr>(train::TrainDialect::kNameAttr);
  auto role = attributes.getAs<train::RoleAttr>(train::TrainDialect::kRoleAttr);
  auto tensor = cast<RankedTensorType>(type);
  auto [it, isNew] = byName.try_emplace(
      {static_cast<int>(role ? role.getValue() : train::Role::Rng), name.str()},
      static_cast<int>(buffers.size()));
  index = it->second;
  if (!isNew) {
    if (buffers[index].type != tensor)
      return user->emitError("expected one type for '")
             << name.getValue() << "', but got " << buffers[index].type
             << " and " << tensor;
    return success();
  }
  NamedAttrList further(attributes);
  further.erase(train::TrainDialect::kNameAttr);
  further.erase(train::TrainDialect::kRoleAttr);
  buffers.push_back(
      {kind, name, role, tensor, further.getDictionary(user->getContext())});
  return success();
}

LogicalResult SharedLayout::add(func::FuncOp function) {
  auto check = [&](DictionaryAttr attributes, llvm::StringRef what,
                   unsigned index) -> FailureOr<plan::BufferKind> {
    auto role =
        attributes
            ? attributes.getAs<train::RoleAttr>(train::TrainDialect::kRoleAttr)
            : nullptr;
    if (!role || !attributes.getAs<StringAttr>(train::TrainDialect::kNameAttr))
      return function.emitError("expected train.role and train.name on ")
             << what << ' ' << index;
    return *getKind(role.getValue());
  };
  for (BlockArgument argument : function.getArguments()) {
    DictionaryAttr attributes =
        function.getArgAttrDict(argument.getArgNumber());
    FailureOr<plan::BufferKind> kind =
        check(attributes, "argument", argument.getArgNumber());
    if (failed(kind) ||
        failed(addBuffer(function, *kind, attributes, argument.getType(),
                         arguments[argument])))
      return failure();
  }
  for (auto [index, type] : llvm::enumerate(function.getResultTypes())) {
    DictionaryAttr attributes = function.getResultAttrDict(index);
    FailureOr<plan::BufferKind> kind = check(attributes, "result", index);
    if (failed(kind) || failed(addBuffer(function, *kind, attributes, type,
                                         results[{function, index}])))
      return failure();
  }
  // A rank's coordinates: filled in once, like a hyperparameter that differs by
  // rank.
  auto result = function.walk([&](dist::CoordinateOp op) -> WalkResult {
    std::string name = "coordinate";
    for (dist::AxisAttr axis : op.getAxes())
      name += "." + axis.getName().str();
    Builder builder(op.getContext());
    auto attributes = builder.getDictionaryAttr(
        {builder.getNamedAttr(train::TrainDialect::kNameAttr,
                              builder.getStringAttr(name)),
         builder.getNamedAttr("dist.mesh", op.getMeshAttr()),
         builder.getNamedAttr("dist.axes", op.getAxesAttr())});
    return addBuffer(op, plan::BufferKind::Scalar, attributes, op.getType(),
                     arguments[op.getResult()]);
  });
  return failure(result.wasInterrupted());
}

void SharedLayout::finish() {
  for (auto kind : {plan::BufferKind::Persistent, plan::BufferKind::Input,
                    plan::BufferKind::Scalar}) {
    for (SharedBuffer &buffer : buffers)
      if (buffer.kind == kind) {
        buffer.offset = bytes;
        bytes += alignUp(plan::getTensorBytes(buffer.type));
      }
    if (kind == plan::BufferKind::Persistent)
      persistentBytes = bytes;
  }
}

int SharedLayout::find(Value argument) const {
  auto it = arguments.find(argument);
  return it == arguments.end() ? -1 : it->second;
}

int SharedLayout::findResult(func::FuncOp function, unsigned result) const {
  auto it = results.find({function.getOperation(), result});
  return it == results.end() ? -1 : it->second;
}
