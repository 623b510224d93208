//===- DistInterfaces.td - What every collective answers ---*- tablegen -*-===//
#ifndef LOCKSTEP_DIALECTS_DIST_DISTINTERFACES_TD
#define LOCKSTEP_DIALECTS_DIST_DISTINTERFACES_TD

include "mlir/IR/OpBase.td"

def CollectiveOpInterface : OpInterface<"CollectiveOpInterface"> {
  let cppNamespace = "::lockstep::dist";
  let description = [{
    An operation in which every rank of a group takes part. Groups are as `dist`'s description says. All tensor operands are
    contributed and all results received.
  }];
  let methods = [
    InterfaceMethod<"The mesh.", "::mlir::FlatSymbolRefAttr", "getCollectiveMesh", (ins), [{}], [{ return $_op.getMeshAttr(); }]>,
    InterfaceMethod<"The axes that span a group.", "::lockstep::dist::AxesAttr", "getCollectiveAxes", (ins), [{}], [{ return $_op.getAxesAttr(); }]>];
}

#endif
