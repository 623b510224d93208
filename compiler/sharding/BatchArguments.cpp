//===- BatchArguments.cpp - Which arguments hold the batch ----------------===//
#include "compiler/sharding/BatchArguments.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::sharding;
using namespace lockstep::train;

bool sharding::isBatchArgument(func::FuncOp function, unsigned number) {
  auto role =
      function.getArgAttrOfType<RoleAttr>(number, TrainDialect::kRoleAttr);
  return role &&
         (role.getValue() == Role::Input || role.getValue() == Role::Label) &&
         !function.getArgAttr(number, TrainDialect::kWholeAttr);
}

LogicalResult sharding::divideBatchArguments(func::FuncOp function, MeshOp mesh,
                                             StringRef axis, int64_t parts,
                                             StringRef unit) {
  MLIRContext *context = function.getContext();
  AxesAttr divided = AxesAttr::get(context, ArrayRef<StringRef>(axis));
  for (auto [number, type] : llvm::enumerate(function.getArgumentTypes())) {
    if (!isBatchArgument(function, number))
      continue;
    auto tensor = cast<RankedTensorType>(type);
    auto nameAttr =
        function.getArgAttrOfType<StringAttr>(number, TrainDialect::kNameAttr);
    StringRef name = nameAttr ? nameAttr.getValue() : "";
    if (tensor.getRank() == 0)
      return emitError(function.getLoc(), "input '")
             << name << "' has no dimension to divide over " << parts << " "
             << unit << "; pass --whole " << name << " if every rank needs it";
    if (tensor.getDimSize(0) % parts != 0)
      return emitError(function.getLoc(), "input '")
             << name << "': batch " << tensor.getDimSize(0)
             << " is not divisible by " << parts << " " << unit
             << "; choose a batch size that is, or pass --whole " << name
             << " if dimension 0 is not the batch";
    SmallVector<AxesAttr> dims(tensor.getRank(), getNoAxes(context));
    dims[0] = divided;
    function.setArgAttr(
        number, dist::DistDialect::kShardingAttr,
        withDims(ShardingAttr::getReplicated(context, tensor.getRank()), dims));
  }
  return success();
}
