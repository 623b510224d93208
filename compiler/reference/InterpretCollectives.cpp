//===- InterpretCollectives.cpp - Collectives over ranks in one process
//------------===//
//
// A collective is computed group by group from what the ranks of the group
// hold, in group order. Sums are in double, rounded once, so they do not depend
// on an algorithm's order.
//
//===----------------------------------------------------------------------===//
#include "compiler/reference/EvaluateSupport.h"
#include "compiler/reference/InterpreterState.h"

using namespace mlir;

namespace lockstep {

//===--- Tensors ---===//

template <typename T>
static std::vector<T> combineAll(train::ReduceKind kind, std::vector<T> first,
                                 ArrayRef<std::vector<T>> rest) {
  for (const std::vector<T> &other : rest)
    for (size_t i = 0; i < first.size(); ++i)
      first[i] = combine(kind, first[i], other[i]);
  return first;
}

SmallVector<HostTensor> combineAllReduce(train::ReduceKind kind,
                                         ArrayRef<HostTensor> inputs) {
  HostTensor result;
  RankedTensorType type = inputs.front().getType();
  if (inputs.front().isFloat()) {
    std::vector<std::vector<double>> all;
    for (const HostTensor &input : inputs)
      all.push_back(input.toDoubles());
    result = HostTensor::fromDoubles(
        type,
        combineAll<double>(kind, all.front(), ArrayRef(all).drop_front()));
  } else {
    std::vector<std::vector<int64_t>> all;
    for (const HostTensor &input : inputs)
      all.push_back(input.toInts());
    result = HostTensor::fromInts(
        type,
        combineAll<int64_t>(kind, all.front(), ArrayRef(all).drop_front()));
  }
  return SmallVector<HostTensor>(inputs.size(), result);
}

//===--- What a group does ---===//

/// Results of every member of a group, from the inputs of every member: [place]
/// -> tensor.
static SmallVector<HostTensor> runGroup(Operation *op,
                                        ArrayRef<HostTensor> inputs) {
  int64_t count = inputs.size();
  SmallVector<HostTensor> results;
  TypeSwitch<Operation *>(op)
      .Case([&](dist::AllReduceOp op) {
        results = combineAllReduce(op.getKind(), inputs);
      })
      .Case([&](dist::AllGatherOp op) {
        results.assign(count, concatenate(inputs, op.getDim()));
      })
      .Case([&](dist::ReduceScatterOp op) {
        HostTensor whole = combineAllReduce(op.getKind(), inputs).front();
        for (int64_t place = 0; place < count; ++place)
          results.push_back(getBlock(whole, op.getDim(), place, count));
      })
      .Case([&](dist::AllToAllOp op) {
        for (int64_t place = 0; place < count; ++place) {
          SmallVector<HostTensor> blocks =
              llvm::map_to_vector(inputs, [&](const HostTensor &t) {
                return getBlock(t, op.getSplitDim(), place, count);
              });
          results.push_back(concatenate(blocks, op.getConcatDim()));
        }
      })
      .Case([&](dist::BroadcastOp op) {
        results.assign(count, inputs[op.getRoot()]);
      })
      .Case([&](dist::CollectivePermuteOp op) {
        results.assign(count, HostTensor::splat(inputs.front().getType(), 0));
        for (size_t i = 0; i + 1 < op.getPairs().size(); i += 2)
          results[op.getPairs()[i + 1]] = inputs[op.getPairs()[i]];
      });
  return results;
}

FailureOr<dist::MeshOp> Interpreter::getMesh(Operation *op,
                                             FlatSymbolRefAttr name) {
  auto mesh = symbols.lookupNearestSymbolFrom<dist::MeshOp>(op, name);
  if (!mesh)
    return op->emitError("expected a mesh, but got '") << name << "'";
  if (mesh.getNumRanks() != ranks)
    return op->emitError("expected a mesh of ")
           << ranks << " ranks, but got " << mesh.getNumRanks();
  return mesh;
}

LogicalResult Interpreter::runCollective(Operation *op) {
  auto collective = cast<dist::CollectiveOpInterface>(op);
  FailureOr<dist::MeshOp> mesh = getMesh(op, collective.getCollectiveMesh());
  if (failed(mesh))
    return failure();
  SmallVector<RankTensors> inputs = getOperands(op->getOperands());
  SmallVector<RankTensors> results(inputs.size(), RankTensors(ranks));
  for (ArrayRef<int64_t> group :
       mesh->getGroups(collective.getCollectiveAxes()))
    for (auto [input, result] : llvm::zip_equal(inputs, results)) {
      SmallVector<HostTensor> contributed = llvm::map_to_vector(
          group, [&, &input = input](int64_t rank) { return input[rank]; });
      SmallVector<HostTensor> received = runGroup(op, contributed);
      if (received.empty())
        return op->emitError("the reference interpreter cannot run '")
               << op->getName() << "'";
      for (auto [rank, tensor] : llvm::zip_equal(group, received))
        result[rank] = tensor;
    }
  setResults(op, results);
  return success();
}

/// A started collective is computed at once; its results are given out at the
/// wait.
LogicalResult Interpreter::runStart(dist::StartOp op) {
  FailureOr<SmallVector<RankTensors>> results =
      runBlock(op.getBody().front(), {});
  if (failed(results))
    return failure();
  underWay[op.getToken()] = *results;
  return success();
}

LogicalResult Interpreter::runWait(dist::WaitOp op) {
  auto it = underWay.find(op.getToken());
  if (it == underWay.end())
    return op.emitError(
        "expected a collective that was started and not waited for");
  setResults(op, it->second);
  underWay.erase(it);
  return success();
}

LogicalResult Interpreter::runCoordinate(dist::CoordinateOp op) {
  FailureOr<dist::MeshOp> mesh = getMesh(op, op.getMeshAttr());
  if (failed(mesh))
    return failure();
  RankTensors results;
  for (int64_t rank = 0; rank < ranks; ++rank)
    results.push_back(HostTensor::splat(
        getResultType(op), double(mesh->getCoordinate(rank, op.getAxes()))));
  setResults(op, {results});
  return success();
}

LogicalResult Interpreter::runLocalSlice(dist::LocalSliceOp op) {
  FailureOr<dist::MeshOp> mesh = getMesh(op, op.getMeshAttr());
  if (failed(mesh))
    return failure();
  RankTensors results;
  int64_t count = mesh->getSize(op.getAxes());
  for (auto [rank, tensor] : llvm::enumerate(values[op.getInput()]))
    results.push_back(getBlock(tensor, op.getDim(),
                               mesh->getCoordinate(int64_t(rank), op.getAxes()),
                               count));
  setResults(op, {results});
  return success();
}

} // namespace lockstep
