// Kernels that call a library or are written by hand. README.md in this folder
// is the reference of their operands and attributes.
#ifndef LOCKSTEP_RUNTIME_DEVICE_HOST_LIBRARY_LIBRARY_KERNEL_H
#define LOCKSTEP_RUNTIME_DEVICE_HOST_LIBRARY_LIBRARY_KERNEL_H

#include "runtime/device/host/library/attributes.h"
#include "runtime/support/status.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace lockstep::runtime {

/// A kernel prepared for its attributes: shapes checked, primitives made.
class LibraryKernel {
public:
  virtual ~LibraryKernel() = default;

  /// Least bytes of each operand; the executor checks launches against it.
  virtual std::vector<int64_t> operandBytes() const = 0;

  /// Runs once on the calling thread, which may open parallel regions. Operands
  /// must not overlap unless the README says so. Error: data that the kernel
  /// cannot accept (an index out of range).
  virtual Status run(void *const *operands) = 0;
};

using LibraryKernelFactory =
    StatusOr<std::unique_ptr<LibraryKernel>> (*)(Attributes &);

StatusOr<std::unique_ptr<LibraryKernel>> createGemm(Attributes &);
StatusOr<std::unique_ptr<LibraryKernel>> createAttentionForward(Attributes &);
StatusOr<std::unique_ptr<LibraryKernel>> createAttentionBackward(Attributes &);
StatusOr<std::unique_ptr<LibraryKernel>> createConvolutionForward(Attributes &);
StatusOr<std::unique_ptr<LibraryKernel>>
createConvolutionInputGradient(Attributes &);
StatusOr<std::unique_ptr<LibraryKernel>>
createConvolutionFilterGradient(Attributes &);
StatusOr<std::unique_ptr<LibraryKernel>> createSort(Attributes &);
StatusOr<std::unique_ptr<LibraryKernel>> createTopK(Attributes &);
StatusOr<std::unique_ptr<LibraryKernel>> createScatterAdd(Attributes &);
StatusOr<std::unique_ptr<LibraryKernel>> createCopy(Attributes &);
StatusOr<std::unique_ptr<LibraryKernel>> createFill(Attributes &);

/// Prepares the library kernel that `kernel` names. Errors name kernel and
/// attribute.
StatusOr<std::unique_ptr<LibraryKernel>>
createLibraryKernel(const artifact::KernelT &kernel);

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_DEVICE_HOST_LIBRARY_LIBRARY_KERNEL_H
