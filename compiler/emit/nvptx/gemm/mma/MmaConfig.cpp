//===- MmaConfig.cpp - GEMM kernels by mma.sync ---------------------------===//
#include "compiler/emit/nvptx/gemm/mma/MmaConfig.h"

using namespace lockstep;
using namespace lockstep::gemm;

MmaConfig gemm::getMmaConfig(const GemmConfig &config) {
  return {config.a,    config.b,          config.output,
          config.bias, config.activation, config.side};
}

std::string gemm::checkConfig(const MmaConfig &config) {
  GemmConfig same;
  same.output = config.output;
  same.bias = config.bias;
  same.activation = config.activation;
  same.side = config.side;
  return checkEpilogue(same);
}
