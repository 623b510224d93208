//===- Sharding.h - Arithmetic of axes and shardings ------------*- C++ -*-===//
//
// What propagation and localization share: sizes along axes, splitting axes
// into sub-axes and joining them again, local types. Everything here is about
// one mesh.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_SHARDING_SHARDING_H
#define LOCKSTEP_COMPILER_SHARDING_SHARDING_H

#include "dialects/dist/Dist.h"

namespace lockstep::sharding {

using dist::AxesAttr;
using dist::AxisAttr;
using dist::MeshOp;
using dist::ShardingAttr;
using AxisList = llvm::SmallVector<AxisAttr, 2>;

/// Ranks along all axes of the list.
int64_t getSize(llvm::ArrayRef<AxisAttr> axes, MeshOp mesh);

bool overlaps(AxisAttr axis, llvm::ArrayRef<AxisAttr> axes);
bool overlaps(llvm::ArrayRef<AxisAttr> a, llvm::ArrayRef<AxisAttr> b);

/// Splits an axis into a major part of `majorSize` ranks, which divides its
/// size, and the rest.
std::pair<AxisAttr, AxisAttr> splitAxis(AxisAttr axis, int64_t majorSize,
                                        MeshOp mesh);

/// Joins neighbouring sub-axes that together are a larger one: (1)2, (2)2 of an
/// axis of size 4 is the axis.
AxesAttr joinAxes(llvm::ArrayRef<AxisAttr> axes, MeshOp mesh);

/// Splits entries of both lists where needed so that they agree in as many
/// leading entries as possible; returns how many.
size_t alignPrefix(AxisList &a, AxisList &b, MeshOp mesh);

/// The type of a rank's part of a tensor of global type `type`.
mlir::RankedTensorType getLocalType(mlir::RankedTensorType type,
                                    ShardingAttr sharding, MeshOp mesh);

/// The same sharding with other dimensions, or without the partial sum.
ShardingAttr withDims(ShardingAttr sharding, llvm::ArrayRef<AxesAttr> dims);
ShardingAttr withoutPartial(ShardingAttr sharding);

AxesAttr getNoAxes(mlir::MLIRContext *context);

/// A constant's block, if all ranks' blocks under `sharding` are equal (a
/// splat, or the same row for every sample).
mlir::DenseElementsAttr getCommonBlock(mlir::ElementsAttr value,
                                       ShardingAttr sharding, MeshOp mesh);

} // namespace lockstep::sharding

#endif
