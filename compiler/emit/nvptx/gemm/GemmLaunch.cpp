//===- GemmLaunch.cpp - What it takes to launch a GEMM kernel -------------===//
#include "compiler/emit/nvptx/gemm/GemmLaunch.h"

using namespace lockstep;
using namespace lockstep::gemm;

namespace {
/// A matrix in memory, seen from its contiguous index.
struct Plane {
  const char *name;
  int64_t inner, outer;
  int64_t leading, batchStride;
  int elementBytes;
};
} // namespace

static Plane getPlaneA(const GemmConfig &config, const GemmSize &size,
                       const GemmStrides &strides) {
  bool isK = config.a == Major::K;
  return {"A",       isK ? size.k : size.m, isK ? size.m : size.k,
          strides.a, strides.aBatch,        2};
}
static Plane getPlaneB(const GemmConfig &config, const GemmSize &size,
                       const GemmStrides &strides) {
  bool isK = config.b == Major::K;
  return {"B",       isK ? size.k : size.n, isK ? size.n : size.k,
          strides.b, strides.bBatch,        2};
}
static Plane getPlaneD(const GemmConfig &config, const GemmSize &size,
                       const GemmStrides &strides) {
  return {"D",       size.n,         size.m,
          strides.d, strides.dBatch, getOutputBytes(config)};
}

std::string gemm::checkStrides(const GemmConfig &config, const GemmSize &size,
                               const GemmStrides &strides) {
  for (const Plane &plane :
       {getPlaneA(config, size, strides), getPlaneB(config, size, strides),
        getPlaneD(config, size, strides)}) {
    int64_t step = 16 / plane.elementBytes;
    std::string leading = std::string("a leading dimension of ") + plane.name;
    if (plane.leading < plane.inner)
      return "expected " + leading + " of at least " +
             std::to_string(plane.inner) + ", but got " +
             std::to_string(plane.leading);
    if (plane.leading % step)
      return "expected " + leading + " that is a multiple of " +
             std::to_string(step) + ", but got " +
             std::to_string(plane.leading);
    if (size.batch > 1 && plane.batchStride % step)
      return std::string("expected matrices of ") + plane.name +
             " a multiple of " + std::to_string(step) +
             " elements apart, but got " + std::to_string(plane.batchStride);
  }
  return {};
}

static LaunchParameter getMap(GemmTensor tensor, const Plane &plane,
                              const CopyBox &box, const GemmConfig &config,
                              const GemmSize &size) {
  LaunchParameter parameter;
  parameter.kind = LaunchParameter::Kind::TensorMap;
  parameter.tensor = tensor;
  TensorMapShape &map = parameter.map;
  map.elementBytes = box.elementBytes;
  map.swizzleBytes = box.swizzleBytes;
  map.extents = {plane.inner, plane.outer};
  map.byteStrides = {plane.leading * box.elementBytes};
  map.box = {box.inner, box.outer};
  if (config.batched) {
    map.extents.push_back(size.batch);
    // One matrix has no next one; a stride may not be zero all the same.
    int64_t stride =
        size.batch > 1 ? plane.batchStride : plane.leading * plane.outer;
    map.byteStrides.push_back(stride * box.elementBytes);
    map.box.push_back(1);
  }
  return parameter;
}

static LaunchParameter getPointer(bool isUsed, LaunchParameter::Kind kind) {
  LaunchParameter parameter;
  parameter.kind = isUsed ? kind : LaunchParameter::Kind::Null;
  return parameter;
}

static LaunchParameter getNumber(int32_t number) {
  LaunchParameter parameter;
  parameter.kind = LaunchParameter::Kind::Number;
  parameter.number = number;
  return parameter;
}

/// In the order of GemmKernel.h.
static std::vector<LaunchParameter> listParameters(const GemmConfig &config,
                                                   const GemmSize &size,
                                                   const GemmStrides &strides,
                                                   const TileTable &table) {
  using Kind = LaunchParameter::Kind;
  Plane d = getPlaneD(config, size, strides);
  bool hasSide = config.side != Side::None;
  LaunchParameter bias = getPointer(config.bias, Kind::Pointer);
  bias.tensor = GemmTensor::Bias;
  return {getMap(GemmTensor::A, getPlaneA(config, size, strides),
                 getBoxA(config), config, size),
          getMap(GemmTensor::B, getPlaneB(config, size, strides),
                 getBoxB(config), config, size),
          getMap(GemmTensor::D, d, getBoxD(config), config, size),
          hasSide
              ? getMap(GemmTensor::Side, d, getBoxSide(config), config, size)
              : getMap(GemmTensor::D, d, getBoxD(config), config, size),
          bias,
          getPointer(true, Kind::TileTable),
          getPointer(table.slots > 0, Kind::Workspace),
          getPointer(table.slots > 0, Kind::Counters),
          getPointer(config.columnSums, Kind::ColumnSums),
          getNumber(table.itemCount),
          getNumber(size.n)};
}

GemmLaunch gemm::planLaunch(const GemmConfig &config, const GemmSize &size,
                            const GemmStrides &strides, int multiprocessors,
                            int group) {
  GemmLaunch launch;
  launch.table = buildTileTable(config, size, multiprocessors, group);
  launch.parameters = listParameters(config, size, strides, launch.table);
  launch.gridBlocks = launch.table.gridBlocks;
  launch.clusterBlocks = getClusterSize(config);
  launch.threads = getThreads(config);
  launch.sharedBytes = getSharedLayout(config).totalBytes;
  launch.overlap = config.overlapLaunch;
  launch.workspaceBytes = getWorkspaceBytes(config, launch.table);
  launch.counterBytes = getCounterBytes(config, launch.table);
  if (config.columnSums)
    launch.columnSumBytes = getColumnSumLines(config, size.m) * size.n * 4;
  return launch;
}
