//===- ProgramCollectives.cpp - Collectives of a scheduled program
//-----------------===//
//
// A start computes the results from what the inputs hold, overwrites the
// outputs with the poison pattern, so that reading them early shows, and the
// wait delivers.
//
//===----------------------------------------------------------------------===//
#include "compiler/reference/EvaluateSupport.h"
#include "compiler/reference/ProgramMachine.h"
#include <cstring>

using namespace mlir;

namespace lockstep {

static dist::AxesAttr getAxes(plan::CollectiveStartOp op) {
  SmallVector<StringRef> names;
  for (StringAttr name : op.getAxes().getAsRange<StringAttr>())
    names.push_back(name.getValue());
  return dist::AxesAttr::get(op.getContext(), names);
}

/// The bytes that every rank of a group receives for one operand.
LogicalResult ProgramMachine::runGroup(plan::CollectiveStartOp op,
                                       ArrayRef<int64_t> group,
                                       unsigned operand, UnderWay &collective) {
  auto inputType =
      cast<plan::BufferType>(op.getInputs()[operand].getType()).getTensor();
  Type element = inputType.getElementType();
  SmallVector<HostTensor> inputs;
  for (int64_t rank : group) {
    ArrayRef<char> bytes(collective.contributed[rank][operand]);
    int64_t count = bytes.size() / HostTensor::getElementBytes(element);
    inputs.push_back(
        HostTensor::copy(RankedTensorType::get({count}, element), bytes));
  }
  for (auto [place, rank] : llvm::enumerate(group)) {
    HostTensor received;
    switch (op.getKind()) {
    case plan::CollectiveKind::AllReduce:
      received = combineAllReduce(*op.getReduction(), inputs).front();
      break;
    case plan::CollectiveKind::AllGather:
      received = concatenate(inputs, 0);
      break;
    case plan::CollectiveKind::ReduceScatter:
      received = getBlock(combineAllReduce(*op.getReduction(), inputs).front(),
                          0, int64_t(place), group.size());
      break;
    case plan::CollectiveKind::Broadcast:
      received = inputs[op.getRoot().value_or(0)];
      break;
    case plan::CollectiveKind::Barrier:
      continue;
    }
    received = received.expand();
    int64_t expected =
        collective.outputs[operand].end - collective.outputs[operand].begin;
    if (received.getNumBytes() != expected)
      return op.emitError("expected an output of ")
             << received.getNumBytes() << " bytes, but got " << expected;
    collective.received[rank][operand].assign(
        received.getData(), received.getData() + received.getNumBytes());
  }
  return success();
}

LogicalResult ProgramMachine::runCollectiveStart(plan::CollectiveStartOp op,
                                                 int64_t iteration) {
  auto mesh =
      symbols.lookupNearestSymbolFrom<dist::MeshOp>(op, op.getMeshAttr());
  if (!mesh || mesh.getNumRanks() != ranks)
    return op.emitError("expected a mesh of ") << ranks << " ranks";
  UnderWay collective;
  collective.contributed.resize(ranks);
  collective.received.assign(
      ranks, std::vector<std::vector<char>>(op.getOutputs().size()));
  for (Value input : op.getInputs())
    collective.inputs.push_back(getRange(input, iteration));
  for (Value output : op.getOutputs())
    collective.outputs.push_back(getRange(output, iteration));
  for (const Range &output : collective.outputs)
    if (failed(checkUntouched(op, output)))
      return failure();
  for (int64_t rank = 0; rank < ranks; ++rank)
    for (const Range &input : collective.inputs)
      collective.contributed[rank].emplace_back(
          arenas[rank].begin() + input.begin, arenas[rank].begin() + input.end);
  for (ArrayRef<int64_t> group : mesh.getGroups(getAxes(op)))
    for (unsigned operand = 0; operand < op.getInputs().size(); ++operand)
      if (failed(runGroup(op, group, operand, collective)))
        return failure();
  for (std::vector<char> &arena : arenas)
    for (const Range &output : collective.outputs)
      std::fill(arena.begin() + output.begin, arena.begin() + output.end,
                char(0xff));
  underWay[int64_t(op.getId())] = std::move(collective);
  return success();
}

LogicalResult ProgramMachine::runCollectiveWait(plan::CollectiveWaitOp op) {
  auto it = underWay.find(int64_t(op.getId()));
  if (it == underWay.end())
    return op.emitError("expected collective ")
           << op.getId() << " to be under way";
  UnderWay &collective = it->second;
  for (int64_t rank = 0; rank < ranks; ++rank)
    for (auto [range, bytes] :
         llvm::zip_equal(collective.outputs, collective.received[rank]))
      std::copy(bytes.begin(), bytes.end(), arenas[rank].begin() + range.begin);
  underWay.erase(it);
  return success();
}

} // namespace lockstep
