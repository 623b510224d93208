//===- ProductKernel.cpp - Products on the tensor cores -------------------===//
#include "compiler/emit/nvptx/ProductKernel.h"
#include "compiler/emit/nvptx/gemm/GemmChoice.h"
#include "compiler/emit/nvptx/gemm/GemmKernel.h"
#include "dialects/plan/ProductEpilogue.h"
#include "llvm/ADT/STLExtras.h"
#include <cstring>

using namespace mlir;
using namespace lockstep;
using namespace lockstep::emit;

/// What the tensor copy engine asks for.
static constexpr int64_t kTileBytes = 16;
static constexpr int64_t kOperandBytes = 2;

static gemm::Activation translate(plan::Activation activation) {
  switch (activation) {
  case plan::Activation::None:
    return gemm::Activation::None;
  case plan::Activation::Gelu:
    return gemm::Activation::Gelu;
  case plan::Activation::GeluTanh:
    return gemm::Activation::GeluTanh;
  case plan::Activation::Relu:
    return gemm::Activation::Relu;
  case plan::Activation::Silu:
    return gemm::Activation::Silu;
  }
  llvm_unreachable("all activations are handled");
}

static gemm::Side getSide(const plan::ProductEpilogue &product) {
  if (product.saved)
    return gemm::Side::SavePreactivation;
  if (!product.side)
    return gemm::Side::None;
  return product.activation == plan::Activation::None
             ? gemm::Side::AddResidual
             : gemm::Side::ActivationGradient;
}

/// A product whose result is stored by columns is that of the transposed
/// operands, stored by rows.
static void storeByRows(plan::ProductEpilogue &product) {
  plan::GemmShape &shape = product.shape;
  if (shape.cColumn == 1)
    return;
  std::swap(product.lhs, product.rhs);
  std::swap(product.lhsOffset, product.rhsOffset);
  std::swap(shape.m, shape.n);
  std::swap(shape.cRow, shape.cColumn);
  std::swap(shape.aRow, shape.bColumn);
  std::swap(shape.aColumn, shape.bRow);
  std::swap(shape.aBatch, shape.bBatch);
}

static gemm::GemmRequest getRequest(const plan::ProductEpilogue &product) {
  const plan::GemmShape &shape = product.shape;
  gemm::GemmRequest request;
  request.size = {shape.m, shape.n, shape.k,
                  shape.batch.empty() ? 1 : shape.batch.front()};
  request.a = shape.aColumn == 1 ? gemm::Major::K : gemm::Major::Outer;
  request.b = shape.bRow == 1 ? gemm::Major::K : gemm::Major::Outer;
  request.output = product.accumulated ? gemm::Output::Float32Accumulate
                   : product.wide      ? gemm::Output::Float32
                                       : gemm::Output::BFloat16;
  request.bias = product.bias.has_value();
  request.activation = translate(product.activation);
  request.side = getSide(product);
  request.hasAlternative = !product.hasWork();
  return request;
}

static gemm::GemmStrides getStrides(const plan::GemmShape &shape) {
  gemm::GemmStrides strides;
  strides.a = shape.aColumn == 1 ? shape.aRow : shape.aColumn;
  strides.b = shape.bRow == 1 ? shape.bColumn : shape.bRow;
  strides.d = shape.cRow;
  if (!shape.batch.empty()) {
    strides.aBatch = shape.aBatch.front();
    strides.bBatch = shape.bBatch.front();
    strides.dBatch = shape.cBatch.front();
  }
  return strides;
}

std::optional<ProductKernel>
emit::planProduct(plan::KernelOp kernel, llvm::ArrayRef<int64_t> alignments,
                  int multiprocessors) {
  auto dot = dyn_cast_or_null<train::DotGeneralOp>(kernel.getAnchor());
  if (!dot || !getElementTypeOrSelf(dot.getLhs().getType()).isBF16())
    return std::nullopt;
  std::optional<plan::ProductEpilogue> product = plan::foldProduct(kernel);
  if (!product || !plan::suitsTiles(*product, kOperandBytes, kTileBytes) ||
      llvm::any_of(alignments, [](int64_t a) { return a % kTileBytes; }))
    return std::nullopt;
  storeByRows(*product);
  gemm::GemmRequest request = getRequest(*product);
  gemm::GemmStrides strides = getStrides(product->shape);
  std::optional<gemm::GemmChoice> choice =
      gemm::chooseGemm(request, multiprocessors);
  if (!choice ||
      !gemm::checkStrides(choice->config, request.size, strides).empty())
    return std::nullopt;
  ProductKernel planned;
  planned.config = choice->config;
  planned.launch = gemm::planLaunch(choice->config, request.size, strides,
                                    multiprocessors, choice->group);
  uint32_t results = kernel.getArgumentTypes().size();
  planned.a = {product->lhs, product->lhsOffset * kOperandBytes};
  planned.b = {product->rhs, product->rhsOffset * kOperandBytes};
  planned.d.operand = results + product->output;
  if (product->saved)
    planned.side.operand = results + *product->saved;
  if (product->side)
    planned.side.operand = *product->side;
  if (product->bias)
    planned.bias.operand = *product->bias;
  return planned;
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

static const ProductKernel::Place &getPlace(const ProductKernel &product,
                                            gemm::GemmTensor tensor) {
  switch (tensor) {
  case gemm::GemmTensor::A:
    return product.a;
  case gemm::GemmTensor::B:
    return product.b;
  case gemm::GemmTensor::D:
    return product.d;
  case gemm::GemmTensor::Side:
    return product.side;
  case gemm::GemmTensor::Bias:
    return product.bias;
  }
  llvm_unreachable("all tensors are handled");
}

static std::unique_ptr<artifact::KernelParameterT>
describeParameter(const ProductKernel &product, const ScratchLayout &scratch,
                  const gemm::LaunchParameter &from) {
  using Kind = gemm::LaunchParameter::Kind;
  auto parameter = std::make_unique<artifact::KernelParameterT>();
  auto setRange = [&](artifact::ParameterKind kind, int64_t offset,
                      int64_t bytes) {
    parameter->kind = kind;
    parameter->offset = offset;
    parameter->bytes = bytes;
  };
  switch (from.kind) {
  case Kind::TensorMap:
    describeMap(from.map, *parameter);
    break;
  case Kind::Pointer:
    parameter->kind = artifact::ParameterKind::Pointer;
    break;
  case Kind::TileTable:
    setRange(artifact::ParameterKind::Constant, 0,
             product.launch.table.items.size() * sizeof(gemm::TileItem));
    break;
  case Kind::Workspace:
    setRange(artifact::ParameterKind::Scratch, scratch.getWorkspaceOffset(),
             product.launch.workspaceBytes);
    break;
  case Kind::Counters:
    setRange(artifact::ParameterKind::Scratch, 0, product.launch.counterBytes);
    break;
  case Kind::Number:
    parameter->kind = artifact::ParameterKind::Int32;
    parameter->value = from.number;
    break;
  case Kind::ColumnSums: // No epilogue of a plan has them.
  case Kind::Null:
    parameter->kind = artifact::ParameterKind::Null;
    break;
  }
  if (from.kind == Kind::TensorMap || from.kind == Kind::Pointer) {
    const ProductKernel::Place &place = getPlace(product, from.tensor);
    parameter->operand = place.operand;
    parameter->byte_offset = place.byteOffset;
  }
  return parameter;
}

static KernelLaunch describeLaunch(const ProductKernel &product,
                                   const ScratchLayout &scratch) {
  const gemm::GemmLaunch &from = product.launch;
  KernelLaunch launch;
  for (const gemm::LaunchParameter &parameter : from.parameters)
    launch.parameters.push_back(describeParameter(product, scratch, parameter));
  launch.constants.resize(from.table.items.size() * sizeof(gemm::TileItem));
  std::memcpy(launch.constants.data(), from.table.items.data(),
              launch.constants.size());
  launch.grid = from.gridBlocks;
  launch.cluster = from.clusterBlocks > 1 ? from.clusterBlocks : 0;
  launch.overlap = from.overlap;
  return launch;
}

void emit::addLaunch(const ProductKernel &product, const ScratchLayout &scratch,
                     SharedCode &code, GeneratedKernel &kernel) {
  gemm::GemmConfig config = product.config;
  kernel.symbol =
      code.add("gemm", gemm::printConfig(config),
               [=](ModuleOp module, StringRef symbol) {
                 return gemm::buildGemmKernel(module, config, symbol);
               });
  kernel.shape.threads = product.launch.threads;
  kernel.shape.sharedBytes = product.launch.sharedBytes;
  kernel.launch = describeLaunch(product, scratch);
}
