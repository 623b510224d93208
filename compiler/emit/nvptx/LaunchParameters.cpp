//===- LaunchParameters.cpp - What launches of kernels pass ---------------===//
#include "compiler/emit/nvptx/LaunchParameters.h"

using namespace lockstep;

void emit::describeMap(const gemm::TensorMapShape &map,
                       artifact::KernelParameterT &parameter) {
  parameter.kind = artifact::ParameterKind::TensorMap;
  parameter.dtype =
      map.elementBytes == 2 ? artifact::DType::BF16 : artifact::DType::F32;
  parameter.dims = map.extents;
  parameter.strides = map.byteStrides;
  parameter.box = map.box;
  parameter.swizzle = map.swizzleBytes;
}
