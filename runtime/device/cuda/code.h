// Machine code of an artifact on a GPU.
#ifndef LOCKSTEP_RUNTIME_DEVICE_CUDA_CODE_H
#define LOCKSTEP_RUNTIME_DEVICE_CUDA_CODE_H

#include "runtime/artifact/artifact_reader.h"
#include "runtime/device/cuda/gpu.h"

#include <vector>

namespace lockstep::runtime::cuda {

/// Whether a code section is for GPUs: "sm_90a" (a cubin), "ptx-sm_90a" (PTX
/// text).
bool isCudaTarget(const std::string &target);

/// The code section that runs on a GPU of this capability (90 for 9.0): a cubin
/// of the same major version that is not newer; of exactly this capability when
/// its name ends in a letter ("sm_90a"); else PTX with `allowJit`. Errors: code
/// for other GPUs only (both are named); PTX only, without `allowJit`.
StatusOr<const CodeSection *> chooseCode(const std::vector<CodeSection> &code,
                                         const Gpu &gpu, bool allowJit);

/// Loaded code: the sections of one target, which the compiler assembled side
/// by side.
class Code {
public:
  /// Error: the driver is too old for the code, or PTX that it cannot compile.
  static StatusOr<Code> load(const Gpu &gpu,
                             const std::vector<CodeSection> &sections,
                             const std::string &target);
  Code() = default;
  Code(Code &&other) noexcept { *this = std::move(other); }
  Code &operator=(Code &&other) noexcept;
  ~Code();

  /// The function of a generated kernel, ready to launch with its threads and
  /// shared memory. Errors: no such symbol, more threads or shared memory than
  /// the function or the GPU allows.
  StatusOr<Function> find(const artifact::KernelT &kernel) const;

private:
  Status add(const Gpu &gpu, const CodeSection &section);

  const Driver *api = nullptr;
  std::vector<Module> modules;
};

} // namespace lockstep::runtime::cuda

#endif // LOCKSTEP_RUNTIME_DEVICE_CUDA_CODE_H
