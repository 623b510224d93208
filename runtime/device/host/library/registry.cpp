#include "runtime/device/host/library/library_kernel.h"

namespace lockstep::runtime {

static LibraryKernelFactory factoryOf(artifact::LibraryKernel kind) {
  using Kind = artifact::LibraryKernel;
  switch (kind) {
  case Kind::None:
    return nullptr;
  case Kind::Gemm:
    return createGemm;
  case Kind::AttentionForward:
    return createAttentionForward;
  case Kind::AttentionBackward:
    return createAttentionBackward;
  case Kind::ConvolutionForward:
    return createConvolutionForward;
  case Kind::ConvolutionInputGradient:
    return createConvolutionInputGradient;
  case Kind::ConvolutionFilterGradient:
    return createConvolutionFilterGradient;
  case Kind::Sort:
    return createSort;
  case Kind::TopK:
    return createTopK;
  case Kind::ScatterAdd:
    return createScatterAdd;
  case Kind::Copy:
    return createCopy;
  case Kind::Fill:
    return createFill;
  }
  return nullptr;
}

StatusOr<std::unique_ptr<LibraryKernel>>
createLibraryKernel(const artifact::KernelT &kernel) {
  LibraryKernelFactory factory = factoryOf(kernel.library);
  if (!factory)
    return internalFault("kernel '" + kernel.name +
                         "' names no library kernel of this runtime");
  Attributes attributes(kernel);
  return factory(attributes);
}

} // namespace lockstep::runtime
