//===- Tensors.cpp - Parameters, optimizer state, buffers -----------------===//
#include "compiler/emit/artifact/Tables.h"
#include "compiler/import/ExternalWeights.h"
#include "dialects/train/StepAttributes.h"

using namespace mlir;

namespace lockstep::emit {
namespace {

/// Writes the table of persistent tensors; a name is one tensor, whatever
/// program mentions it.
class TensorTable {
public:
  TensorTable(const WeightStore &weights, runtime::ArtifactWriter &writer,
              artifact::PlanT &plan, std::vector<WeightBytes> &alive)
      : weights(weights), writer(writer), plan(plan), alive(alive) {}

  LogicalResult add(plan::BufferOp buffer);

private:
  LogicalResult addValue(plan::BufferOp buffer, artifact::TensorT &tensor);
  static void nameSlot(artifact::TensorT &tensor);

  const WeightStore &weights;
  runtime::ArtifactWriter &writer;
  artifact::PlanT &plan;
  std::vector<WeightBytes> &alive;
  llvm::StringSet<> known;
};

} // namespace

/// "wte.weight.exp_avg" belongs to "wte.weight" as its exp_avg.
void TensorTable::nameSlot(artifact::TensorT &tensor) {
  auto [parameter, slot] = StringRef(tensor.name).rsplit('.');
  tensor.of_parameter = parameter.str();
  tensor.slot = slot.str();
}

static artifact::InitKind toInitKind(InitRule::Kind kind) {
  switch (kind) {
  case InitRule::Kind::None:
    return artifact::InitKind::None;
  case InitRule::Kind::Zeros:
    return artifact::InitKind::Zeros;
  case InitRule::Kind::Ones:
    return artifact::InitKind::Ones;
  case InitRule::Kind::Normal:
    return artifact::InitKind::Normal;
  case InitRule::Kind::Uniform:
    return artifact::InitKind::Uniform;
  }
  return artifact::InitKind::None;
}

LogicalResult TensorTable::addValue(plan::BufferOp buffer,
                                    artifact::TensorT &tensor) {
  tensor.init = std::make_unique<artifact::InitRuleT>();
  if (tensor.role == artifact::TensorRole::OptimizerState) {
    tensor.init->kind = artifact::InitKind::Zeros;
    return success();
  }
  const WeightEntry *entry = weights.find(tensor.name);
  if (!entry)
    return buffer.emitError("no value is known for '") << tensor.name << "'";
  if (entry->shape != tensor.shape ||
      static_cast<int>(entry->dtype) != static_cast<int>(tensor.dtype))
    return buffer.emitError("the model's '")
           << tensor.name << "' is " << std::string(dtypeName(entry->dtype))
           << shapeText(entry->shape) << ", but the program has "
           << buffer.getType().getTensor();
  tensor.not_saved = !entry->persistent;
  if (!entry->hasValue()) {
    tensor.init->kind = toInitKind(entry->init.kind);
    tensor.init->a = entry->init.a;
    tensor.init->b = entry->init.b;
    return success();
  }
  StatusOr<WeightBytes> bytes = weights.load(*entry);
  if (!bytes.ok())
    return buffer.emitError(bytes.status().toString());
  tensor.weight = writer.addWeight(bytes->data, bytes->bytes);
  alive.push_back(std::move(*bytes));
  return success();
}

LogicalResult TensorTable::add(plan::BufferOp buffer) {
  if (buffer.getKind() != plan::BufferKind::Persistent ||
      !known.insert(*buffer.getName()).second)
    return success();
  RankedTensorType type = buffer.getType().getTensor();
  FailureOr<artifact::DType> dtype =
      toDType(type.getElementType(), buffer.getLoc());
  if (failed(dtype))
    return failure();
  auto tensor = std::make_unique<artifact::TensorT>();
  tensor->name = buffer.getName()->str();
  tensor->dtype = *dtype;
  tensor->shape.assign(type.getShape().begin(), type.getShape().end());
  tensor->offset = buffer.getOffset();
  tensor->bytes = buffer.getBytes();
  tensor->decayed = buffer->hasAttr(train::kDecayedAttr);
  tensor->frozen = buffer->hasAttr(train::TrainDialect::kFrozenAttr);
  if (auto tied =
          buffer->getAttrOfType<ArrayAttr>(train::TrainDialect::kTiedAttr))
    for (auto name : tied.getAsRange<StringAttr>())
      tensor->tied_names.push_back(name.str());
  switch (*buffer.getRole()) {
  case train::Role::Parameter:
    tensor->role = artifact::TensorRole::Parameter;
    break;
  case train::Role::State:
    tensor->role = artifact::TensorRole::OptimizerState;
    nameSlot(*tensor);
    break;
  default:
    tensor->role = artifact::TensorRole::Buffer;
    break;
  }
  if (failed(addValue(buffer, *tensor)))
    return failure();
  plan.tensors.push_back(std::move(tensor));
  return success();
}

LogicalResult addTensors(ModuleOp module, const WeightStore &weights,
                         runtime::ArtifactWriter &writer, artifact::PlanT &plan,
                         std::vector<WeightBytes> &alive) {
  TensorTable table(weights, writer, plan, alive);
  return failure(module
                     .walk([&](plan::BufferOp buffer) {
                       return WalkResult(table.add(buffer));
                     })
                     .wasInterrupted());
}

} // namespace lockstep::emit
