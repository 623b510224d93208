// Programs on a GPU. Each is recorded once as a CUDA graph (several runs of a
// step, if asked for) and launched as a whole: kernels, products, copies and
// collectives, on one stream for compute and one for communication.
#ifndef LOCKSTEP_RUNTIME_EXECUTOR_CUDA_EXECUTOR_H
#define LOCKSTEP_RUNTIME_EXECUTOR_CUDA_EXECUTOR_H

#include "runtime/executor/cuda_program.h"
#include "runtime/executor/executor.h"
#include "runtime/executor/program_memory.h"

namespace lockstep::runtime {

struct CudaOptions {
  bool allowJit = false; ///< PTX may be compiled by the driver
  /// Graphs are recorded. Otherwise every operation is awaited, so that an
  /// error names its kernel.
  bool graph = true;
  /// The most runs of the step program in one launch.
  int64_t stepsPerLaunch = 1;
};

class CudaExecutor final : public Executor {
public:
  /// Loads code and libraries and resolves every program. `artifact`, `device`
  /// and `collectives` must outlive the executor.
  static StatusOr<std::unique_ptr<Executor>>
  create(const ArtifactReader &artifact, cuda::CudaDevice &device,
         const NcclCollectives &collectives, const CudaOptions &options);
  ~CudaExecutor() override;

  std::byte *place(const artifact::ProgramT &program, int64_t offset,
                   int64_t run) override;
  bool copiesAhead() const override { return true; }
  Status stage(const artifact::ProgramT &program, int64_t runs) override;
  Status start(const artifact::ProgramT &program, int64_t runs) override;
  Status finish() override;

private:
  struct Program {
    std::string name;
    std::vector<CudaOperation> operations;
    std::optional<ProgramMemory> memory;
    std::map<int64_t, cuda::GraphExec> graphs; ///< by runs of a launch
  };
  /// Orders a collective between the two streams.
  struct CollectiveEvents {
    cuda::Event begun, ended;
  };

  CudaExecutor(const ArtifactReader &artifact, cuda::CudaDevice &device,
               const NcclCollectives &collectives, const CudaOptions &options)
      : artifact(artifact), device(device), collectives(collectives),
        options(options), api(device.gpu().driver()) {}
  Status load();
  Status makeEvents(const Program &program);

  Status launchGraph(Program &program, int64_t runs);
  StatusOr<cuda::GraphExec> record(const Program &program, int64_t runs);
  Status enqueueRun(const Program &program, int64_t run);
  Status enqueue(const CudaOperation &operation);
  Status launch(const CudaOperation &operation);
  Status launchWithParameters(const CudaOperation &operation);
  Status startCollective(const CudaOperation &operation);

  /// Without a graph: awaits each operation, and names it in an error.
  Status runOneByOne(const Program &program, int64_t run);
  /// With times between operations, from events.
  Status runProfiled(const Program &program, int64_t run);
  void addTimes(const Program &program, const std::vector<float> &milliseconds);
  std::string nameOf(const CudaOperation &operation) const;

  const ArtifactReader &artifact;
  cuda::CudaDevice &device;
  const NcclCollectives &collectives;
  CudaOptions options;
  const cuda::Driver &api;
  std::unique_ptr<CudaKernels> kernels;
  cuda::Stream compute, communication, copies;
  std::map<uint32_t, CollectiveEvents> events;
  std::map<const artifact::ProgramT *, Program> programs;
  std::vector<cuda::Event> marks; ///< of the profile
  bool manyRanks = false;
};

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_EXECUTOR_CUDA_EXECUTOR_H
