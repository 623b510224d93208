// Collectives of a plan as work on a CUDA stream, so that they can be part of a
// graph. The host's Collectives remain for start-up and checkpoints.
#ifndef LOCKSTEP_RUNTIME_COMM_NCCL_COLLECTIVES_H
#define LOCKSTEP_RUNTIME_COMM_NCCL_COLLECTIVES_H

#include "runtime/comm/collectives.h"
#include "runtime/comm/control_client.h"
#include "runtime/comm/nccl.h"
#include "runtime/device/cuda/gpu.h"

#include <map>

namespace lockstep::runtime {

class NcclCollectives {
public:
  /// Makes a communicator for every group of the plan that this rank is in; a
  /// context of `gpu` must be current. Ids go through the control connection. A
  /// single rank needs no `control`, and no NCCL. Errors: NCCL is not installed
  /// or cannot connect.
  static StatusOr<std::unique_ptr<NcclCollectives>>
  connect(const artifact::PlanT &plan, int rank, const cuda::Gpu &gpu,
          ControlClient *control);
  ~NcclCollectives();
  NcclCollectives(const NcclCollectives &) = delete;
  NcclCollectives &operator=(const NcclCollectives &) = delete;

  /// Whether NCCL reduces elements of this type (asked at load).
  static bool reduces(artifact::DType dtype);

  /// Adds a collective to a stream; ranges hold addresses on the GPU. One of a
  /// group that this rank is not in is nothing.
  Status enqueue(const Collective &collective, cuda::StreamHandle stream) const;

private:
  /// A group of ranks: NCCL's communicator, none for a single member.
  struct Group {
    nccl::Communicator communicator = nullptr;
    size_t members = 1;
  };

  explicit NcclCollectives(const cuda::Gpu &gpu) : gpu(gpu) {}
  Status join(const std::vector<uint32_t> &members, size_t place,
              const std::string &key, ControlClient &control);
  Status enqueueRange(const Collective &c, const CollectiveRange &range,
                      const Group &group, cuda::StreamHandle stream) const;
  Status copy(const CollectiveRange &range, cuda::StreamHandle stream) const;

  const cuda::Gpu &gpu;
  const nccl::Api *api = nullptr;
  std::map<std::vector<uint32_t>, Group> groups;
  std::map<uint32_t, const Group *> byCommunicator;
  cuda::Buffer barrierWord; ///< what a barrier reduces
};

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_COMM_NCCL_COLLECTIVES_H
