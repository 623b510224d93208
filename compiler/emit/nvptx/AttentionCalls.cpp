//===- AttentionCalls.cpp - Attention on the tensor cores -----------------===//
#include "compiler/emit/nvptx/AttentionCalls.h"
#include "compiler/emit/nvptx/attention/AttentionConfigText.h"
#include "compiler/emit/nvptx/attention/AttentionKernels.h"
#include "llvm/ADT/STLExtras.h"
#include <cstring>

using namespace mlir;
using namespace lockstep;
using namespace lockstep::emit;
using attention::AttentionKernel;
using attention::AttentionTensor;

//===----------------------------------------------------------------------===//
// Which kernels
//===----------------------------------------------------------------------===//

static attention::Mask getMask(const plan::AttentionForm &form) {
  return form.window   ? attention::Mask::CausalWindow
         : form.causal ? attention::Mask::Causal
                       : attention::Mask::Full;
}

static attention::AttentionSize getSize(const plan::AttentionForm &form) {
  attention::AttentionSize size;
  size.batch = form.batches;
  size.queryHeads = form.queryHeads;
  size.keyHeads = form.keyHeads;
  size.queries = form.queries;
  size.keys = form.keys;
  size.headDim = form.headDim;
  size.window = form.window.value_or(0);
  return size;
}

static const plan::AttentionForm::Tensor &
getTensor(const plan::AttentionForm &form, AttentionTensor tensor) {
  switch (tensor) {
  case AttentionTensor::Query:
    return form.query;
  case AttentionTensor::Key:
    return form.key;
  case AttentionTensor::Value:
    return form.value;
  case AttentionTensor::Output:
    return form.output;
  case AttentionTensor::OutputGradient:
    return form.outputGradient;
  case AttentionTensor::QueryGradient:
    return form.queryGradient;
  case AttentionTensor::KeyGradient:
    return form.keyGradient;
  case AttentionTensor::ValueGradient:
    return form.valueGradient;
  case AttentionTensor::LogSumExp:
  case AttentionTensor::KeyMask:
  case AttentionTensor::Mask:
    break;
  }
  llvm_unreachable("not a tensor of rows");
}

static attention::AttentionStrides getStrides(const plan::AttentionForm &form) {
  SmallVector<AttentionTensor> tensors{
      AttentionTensor::Query, AttentionTensor::Key, AttentionTensor::Value,
      AttentionTensor::Output};
  if (form.isGradient)
    tensors.append(
        {AttentionTensor::OutputGradient, AttentionTensor::QueryGradient,
         AttentionTensor::KeyGradient, AttentionTensor::ValueGradient});
  attention::AttentionStrides strides;
  for (AttentionTensor tensor : tensors) {
    const plan::AttentionForm::Tensor &place = getTensor(form, tensor);
    strides[tensor] = {place.row, place.head, place.batch};
  }
  if (const auto &mask = form.mask)
    strides[mask->isOfKeys() ? AttentionTensor::KeyMask
                             : AttentionTensor::Mask] = {
        mask->row, mask->head, mask->batch, mask->column};
  return strides;
}

static attention::MaskElement getElement(const plan::AttentionForm &form) {
  using Element = plan::AttentionForm::Mask::Element;
  switch (form.mask->element) {
  case Element::Boolean:
    return attention::MaskElement::Boolean;
  case Element::F32:
    return attention::MaskElement::F32;
  case Element::BFloat16:
    return attention::MaskElement::BFloat16;
  }
  llvm_unreachable("a mask of no element");
}

/// A mask takes shared memory; a stage makes room for it.
template <typename Config>
static void addMask(const plan::AttentionForm &form, Config &config) {
  if (!form.mask)
    return;
  if (form.mask->isOfKeys())
    config.keyBias = true;
  else
    config.tensorMask = getElement(form) == attention::MaskElement::Boolean
                            ? attention::TensorMask::Boolean
                            : attention::TensorMask::Added;
  if (!checkConfig(config).empty())
    --config.stages;
  assert(checkConfig(config).empty() && "expected room for two stages");
}

/// Up to so many queries the pair is as fast as the kernel that adds up in any
/// order (docs/gpu-kernels.md).
static constexpr int64_t kPairQueries = 512;

std::optional<AttentionCalls> emit::planAttention(plan::KernelOp kernel,
                                                  int multiprocessors,
                                                  bool deterministic) {
  std::optional<plan::AttentionForm> form = plan::foldAttention(kernel);
  if (!form)
    return std::nullopt;
  attention::AttentionSize size = getSize(*form);
  attention::AttentionStrides strides = getStrides(*form);
  attention::Mask mask = getMask(*form);
  int headDim = attention::getKernelHeadDim(form->headDim);
  if (!attention::checkSize(headDim, mask, size).empty() ||
      !attention::checkStrides(strides).empty())
    return std::nullopt;
  AttentionCalls calls;
  calls.form = *form;
  if (!form->isGradient) {
    calls.forward = attention::getForwardConfig(headDim, mask);
    addMask(*form, calls.forward);
    calls.plan = attention::planForward(calls.forward, size, strides,
                                        form->scale, multiprocessors);
    return calls;
  }
  // Above a head dimension of 128 there is nothing else.
  bool pair =
      deterministic || headDim > 128 ||
      (headDim == 64 && std::max(size.queries, size.keys) <= kPairQueries);
  calls.backward = attention::getBackwardConfig(headDim, mask, pair);
  addMask(*form, calls.backward);
  if (!pair) {
    calls.plan = attention::planBackward(calls.backward, size, strides,
                                         form->scale, multiprocessors);
    return calls;
  }
  calls.queryGradient = attention::getQueryGradientConfig(headDim, mask);
  addMask(*form, *calls.queryGradient);
  calls.plan =
      attention::planBackward(*calls.queryGradient, calls.backward, size,
                              strides, form->scale, multiprocessors);
  return calls;
}

//===----------------------------------------------------------------------===//
// Their code
//===----------------------------------------------------------------------===//

/// A pass over a mask, for one of its elements.
template <typename BuildPass>
static std::string addMaskPass(const AttentionCalls &calls, StringRef name,
                               BuildPass build, SharedCode &code) {
  attention::MaskElement element = getElement(calls.form);
  return code.add(name, (name + " " + Twine(int(element))).str(),
                  [=](ModuleOp module, StringRef symbol) {
                    return build(module, element, symbol);
                  });
}

static std::string addCode(const AttentionCalls &calls, AttentionKernel kernel,
                           SharedCode &code) {
  attention::ForwardConfig forward = calls.forward;
  attention::BackwardConfig backward = calls.backward;
  switch (kernel) {
  case AttentionKernel::KeyBias:
    return addMaskPass(calls, "attention_key_bias",
                       attention::buildKeyBiasKernel, code);
  case AttentionKernel::MaskPieces:
    return addMaskPass(calls, "attention_mask_pieces",
                       attention::buildMaskPiecesKernel, code);
  case AttentionKernel::Forward:
    return code.add("attention_forward", printConfig(forward),
                    [=](ModuleOp module, StringRef symbol) {
                      return attention::buildForwardKernel(module, forward,
                                                           symbol);
                    });
  case AttentionKernel::Prepare:
    return code.add("attention_prepare", "prepare " + printConfig(backward),
                    [=](ModuleOp module, StringRef symbol) {
                      return attention::buildPrepareKernel(module, backward,
                                                           symbol);
                    });
  case AttentionKernel::Backward:
    return code.add("attention_backward", printConfig(backward),
                    [=](ModuleOp module, StringRef symbol) {
                      return attention::buildBackwardKernel(module, backward,
                                                            symbol);
                    });
  case AttentionKernel::Convert:
    return code.add("attention_convert", "convert " + printConfig(backward),
                    [=](ModuleOp module, StringRef symbol) {
                      return attention::buildConvertKernel(module, backward,
                                                           symbol);
                    });
  case AttentionKernel::QueryGradient: {
    attention::QueryGradientConfig config = *calls.queryGradient;
    return code.add("attention_query_gradient", printConfig(config),
                    [=](ModuleOp module, StringRef symbol) {
                      return attention::buildQueryGradientKernel(module, config,
                                                                 symbol);
                    });
  }
  }
  llvm_unreachable("all kernels are handled");
}

static StringRef getLabel(AttentionKernel kernel) {
  switch (kernel) {
  case AttentionKernel::KeyBias:
    return "key_bias";
  case AttentionKernel::MaskPieces:
    return "mask_pieces";
  case AttentionKernel::Forward:
    return "forward";
  case AttentionKernel::Prepare:
    return "prepare";
  case AttentionKernel::Backward:
    return "backward";
  case AttentionKernel::Convert:
    return "convert";
  case AttentionKernel::QueryGradient:
    return "query_gradient";
  }
  llvm_unreachable("all kernels are handled");
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

namespace {
/// Where each scratch of a plan begins.
class ScratchPlaces {
public:
  ScratchPlaces(const attention::AttentionPlan &plan,
                const ScratchLayout &layout) {
    int64_t next = layout.getWorkspaceOffset();
    for (auto [scratch, bytes] : plan.scratchBytes) {
      places[scratch] = {next, bytes};
      next += llvm::alignTo(bytes, 1024);
    }
  }
  std::pair<int64_t, int64_t> get(attention::AttentionScratch scratch) const {
    return places.at(scratch);
  }

private:
  std::map<attention::AttentionScratch, std::pair<int64_t, int64_t>> places;
};
} // namespace

static void setTensor(const plan::AttentionForm &form, AttentionTensor tensor,
                      artifact::KernelParameterT &parameter) {
  if (tensor == AttentionTensor::LogSumExp) {
    parameter.operand = form.lse;
  } else if (tensor == AttentionTensor::KeyMask ||
             tensor == AttentionTensor::Mask) {
    parameter.operand = form.mask->operand;
  } else {
    constexpr int64_t bytes = 2;
    const plan::AttentionForm::Tensor &place = getTensor(form, tensor);
    parameter.operand = place.operand;
    parameter.byte_offset = place.offset * bytes;
  }
}

static std::unique_ptr<artifact::KernelParameterT> describeParameter(
    const AttentionCalls &calls, const attention::AttentionLaunch &launch,
    const ScratchPlaces &places, const attention::LaunchParameter &from) {
  using Kind = attention::LaunchParameter::Kind;
  using artifact::ParameterKind;
  auto parameter = std::make_unique<artifact::KernelParameterT>();
  int64_t tableBytes = launch.table.size() * sizeof(int32_t);
  switch (from.kind) {
  case Kind::TensorMap:
    describeMap(from.map, *parameter);
    setTensor(calls.form, from.tensor, *parameter);
    break;
  case Kind::Pointer:
    parameter->kind = ParameterKind::Pointer;
    setTensor(calls.form, from.tensor, *parameter);
    break;
  case Kind::Scratch:
    parameter->kind = ParameterKind::Scratch;
    std::tie(parameter->offset, parameter->bytes) = places.get(from.scratch);
    break;
  case Kind::Table:
    parameter->kind = ParameterKind::Constant;
    parameter->bytes = tableBytes;
    break;
  case Kind::Bounds:
    parameter->kind = ParameterKind::Constant;
    parameter->offset = tableBytes;
    parameter->bytes = launch.bounds.size() * sizeof(int32_t);
    break;
  case Kind::Null:
    parameter->kind = ParameterKind::Null;
    break;
  case Kind::Number:
    parameter->kind = ParameterKind::Int32;
    parameter->value = from.number;
    break;
  case Kind::Wide:
    parameter->kind = ParameterKind::Int64;
    parameter->value = from.number;
    break;
  case Kind::Scalar:
    parameter->kind = ParameterKind::Float32;
    parameter->real = from.scalar;
    break;
  }
  return parameter;
}

static KernelLaunch describeLaunch(const AttentionCalls &calls,
                                   const attention::AttentionLaunch &from,
                                   const ScratchPlaces &places) {
  KernelLaunch launch;
  for (const attention::LaunchParameter &parameter : from.parameters)
    launch.parameters.push_back(
        describeParameter(calls, from, places, parameter));
  std::vector<int32_t> constants = from.table;
  constants.insert(constants.end(), from.bounds.begin(), from.bounds.end());
  launch.constants.resize(constants.size() * sizeof(int32_t));
  std::memcpy(launch.constants.data(), constants.data(),
              launch.constants.size());
  launch.grid = from.gridBlocks;
  return launch;
}

/// Arithmetic is that of the kernels with products; a pass has its tensors'
/// bytes.
static void setCost(const AttentionCalls &calls, AttentionKernel kernel,
                    plan::KernelOp op, KernelPart &part) {
  double flops = op.getFlops().convertToDouble(),
         bytes = op.getBytes().convertToDouble();
  double rows = double(calls.form.batches) * calls.form.queryHeads *
                calls.form.queries * calls.form.headDim;
  switch (kernel) {
  case AttentionKernel::Forward:
    part.flops = flops;
    part.bytes = bytes;
    break;
  case AttentionKernel::Backward:
    // Of seven products of the pair, four are here.
    part.flops = calls.queryGradient ? flops * 4 / 5 : flops;
    part.bytes = bytes;
    break;
  case AttentionKernel::QueryGradient:
    part.flops = flops * 3 / 5;
    part.bytes = rows * 2 * 4;
    break;
  case AttentionKernel::Prepare: // out and dout
    part.bytes = rows * 2 * 2;
    break;
  case AttentionKernel::Convert: // f32 sums to bf16
    part.bytes = rows * (4 + 2);
    break;
  case AttentionKernel::KeyBias:
    part.bytes = double(calls.form.batches) * calls.form.keys * 5;
    break;
  case AttentionKernel::MaskPieces: // written; a few bytes are read for each
    part.bytes = 2.0 * calls.plan.scratchBytes.at(
                           attention::AttentionScratch::MaskPieces);
    break;
  }
}

void emit::addParts(const AttentionCalls &calls, const ScratchLayout &scratch,
                    SharedCode &code, GeneratedKernel &kernel) {
  ScratchPlaces places(calls.plan, scratch);
  kernel.varies = calls.varies();
  for (const attention::AttentionLaunch &launch : calls.plan.launches) {
    KernelPart &part = kernel.parts.emplace_back();
    part.label = getLabel(launch.kernel).str();
    part.symbol = addCode(calls, launch.kernel, code);
    part.shape.threads = launch.threads;
    part.shape.sharedBytes = launch.sharedBytes;
    part.launch = describeLaunch(calls, launch, places);
    setCost(calls, launch.kernel, kernel.kernel, part);
  }
}
