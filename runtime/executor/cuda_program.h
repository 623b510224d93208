// A program of the plan resolved for a GPU: loops unrolled, every launch with
// its final addresses, so that it can be recorded as one graph.
#ifndef LOCKSTEP_RUNTIME_EXECUTOR_CUDA_PROGRAM_H
#define LOCKSTEP_RUNTIME_EXECUTOR_CUDA_PROGRAM_H

#include "runtime/artifact/artifact_reader.h"
#include "runtime/comm/nccl_collectives.h"
#include "runtime/device/cuda/code.h"
#include "runtime/device/cuda/cuda_device.h"
#include "runtime/device/cuda/gemm.h"
#include "runtime/executor/cuda_parameters.h"

#include <optional>

namespace lockstep::runtime {

/// One node of work. Which fields count follows from the kind.
struct CudaOperation {
  enum class Kind { Kernel, Gemm, Copy, Fill, Start, Wait } kind;
  uint32_t kernel = 0; ///< index in the plan
  // Kernel
  cuda::Function function = nullptr;
  unsigned blocks = 0, threads = 0, sharedBytes = 0;
  std::vector<cuda::Address> arguments;
  /// In place of the arguments, where the kernel has a parameter list.
  std::vector<CudaParameter> parameters;
  std::optional<cuda::Gemm> gemm;
  // Copy, Fill
  cuda::Address target = 0, source = 0;
  int64_t bytes = 0;
  unsigned char value = 0;
  Collective collective; ///< Start; of Wait only the id and name count
};

/// What all programs of an artifact share on a GPU: functions, attributes of
/// library kernels, and the tables of segmented launches.
class CudaKernels {
public:
  /// Loads the code and prepares the library kernels. Errors: code that does
  /// not run here, a missing symbol, a library kernel that GPUs do not have,
  /// cuBLASLt missing.
  static StatusOr<std::unique_ptr<CudaKernels>>
  load(const ArtifactReader &artifact, cuda::CudaDevice &device, bool allowJit);

  /// Appends the operations of a program. Errors: operands that do not fit.
  Status resolve(const artifact::ProgramT &program,
                 std::vector<CudaOperation> &to);

  /// Whether a kernel multiplies matrices of bf16, which tensor cores do.
  bool usesTensorCores(uint32_t kernel) const;

  /// Puts the tables of all resolved segmented launches on the GPU and their
  /// addresses into the operations.
  Status placeTables(const std::vector<std::vector<CudaOperation> *> &programs);

private:
  using Body = std::vector<std::unique_ptr<artifact::InstructionT>>;
  /// A library kernel's attributes.
  struct Library {
    std::optional<GemmShape> gemm;
    int64_t bytes = 0;
    unsigned char value = 0;
  };

  CudaKernels(const ArtifactReader &artifact, cuda::CudaDevice &device)
      : artifact(artifact), device(device) {}
  Status loadAll(bool allowJit);
  StatusOr<Library> prepare(const artifact::KernelT &kernel);
  Status resolveBody(const Body &body, int64_t iteration,
                     std::vector<CudaOperation> &to);
  Status resolveLaunch(const artifact::LaunchT &launch, int64_t iteration,
                       std::vector<CudaOperation> &to);
  Status resolveGenerated(const artifact::LaunchT &launch, int64_t iteration,
                          std::vector<CudaOperation> &to);
  Status resolveSegmented(const artifact::LaunchT &launch, int64_t iteration,
                          std::vector<CudaOperation> &to);
  Status resolveLibrary(const artifact::LaunchT &launch, int64_t iteration,
                        std::vector<CudaOperation> &to);
  Status resolveStart(const artifact::CollectiveStartT &start,
                      int64_t iteration, std::vector<CudaOperation> &to);
  cuda::Address addressOf(const artifact::Operand &operand,
                          int64_t iteration) const;

  const ArtifactReader &artifact;
  cuda::CudaDevice &device;
  cuda::Code code;
  std::unique_ptr<cuda::CublasLt> blas;
  std::vector<cuda::Function> functions;
  std::vector<Library> library;
  CudaParameters parameters;
  std::map<uint32_t, std::string> collectiveNames;
  /// Tables in the making; a segmented operation's arguments are offsets here.
  std::vector<std::byte> tableBytes;
  cuda::Buffer tables;
};

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_EXECUTOR_CUDA_PROGRAM_H
