#include "runtime/comm/nccl_collectives.h"
#include "runtime/artifact/types.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace lockstep::runtime {

static std::optional<nccl::DataType> dataType(artifact::DType dtype) {
  using D = artifact::DType;
  switch (dtype) {
  case D::Bool:
  case D::U8:
    return nccl::uint8;
  case D::I8:
    return nccl::int8;
  case D::I32:
    return nccl::int32;
  case D::U32:
    return nccl::uint32;
  case D::I64:
    return nccl::int64;
  case D::U64:
    return nccl::uint64;
  case D::F16:
    return nccl::float16;
  case D::BF16:
    return nccl::bfloat16;
  case D::F32:
    return nccl::float32;
  case D::F64:
    return nccl::float64;
  default:
    return std::nullopt;
  }
}

bool NcclCollectives::reduces(artifact::DType dtype) {
  return dataType(dtype).has_value();
}

StatusOr<std::unique_ptr<NcclCollectives>>
NcclCollectives::connect(const artifact::PlanT &plan, int rank,
                         const cuda::Gpu &gpu, ControlClient *control) {
  std::unique_ptr<NcclCollectives> result(new NcclCollectives(gpu));
  for (uint32_t c = 0; c < plan.communicators.size(); ++c)
    for (size_t g = 0; g < plan.communicators[c]->groups.size(); ++g) {
      const auto &members = plan.communicators[c]->groups[g]->ranks;
      auto own = std::find(members.begin(), members.end(), uint32_t(rank));
      if (own == members.end())
        continue;
      // All collectives run in order on one stream, so groups are shared.
      if (!result->groups.count(members)) {
        result->groups[members].members = members.size();
        if (members.size() > 1)
          LOCKSTEP_RETURN_IF_ERROR(result->join(
              members, size_t(own - members.begin()),
              "nccl/" + std::to_string(c) + "." + std::to_string(g), *control));
      }
      result->byCommunicator[c] = &result->groups[members];
    }
  return result;
}

Status NcclCollectives::join(const std::vector<uint32_t> &members, size_t place,
                             const std::string &key, ControlClient &control) {
  if (!api) {
    LOCKSTEP_ASSIGN_OR_RETURN(api, nccl::load());
    LOCKSTEP_ASSIGN_OR_RETURN(barrierWord,
                              cuda::Buffer::create(gpu, 4, "barriers"));
  }
  nccl::UniqueId id = {};
  if (place == 0) {
    LOCKSTEP_RETURN_IF_ERROR(
        api->check(api->getUniqueId(&id), "ncclGetUniqueId"));
    LOCKSTEP_RETURN_IF_ERROR(
        control.set(key, std::string(id.bytes, sizeof(id.bytes))));
  } else {
    LOCKSTEP_ASSIGN_OR_RETURN(std::string bytes, control.get(key));
    if (bytes.size() != sizeof(id.bytes))
      return internalFault("NCCL's id has " + std::to_string(bytes.size()) +
                           " bytes");
    std::memcpy(id.bytes, bytes.data(), sizeof(id.bytes));
  }
  return api->check(api->initRank(&groups[members].communicator,
                                  int(members.size()), id, int(place)),
                    "connecting " + std::to_string(members.size()) +
                        " ranks through NCCL");
}

NcclCollectives::~NcclCollectives() {
  // Not destroyed but aborted: that waits for no other rank.
  for (auto &[members, group] : groups)
    if (group.communicator)
      api->abort(group.communicator);
}

Status NcclCollectives::copy(const CollectiveRange &range,
                             cuda::StreamHandle stream) const {
  if (range.input == range.output || !range.inputBytes)
    return Status::success();
  return gpu.driver().check(gpu.driver().memcpyDtoDAsync(
                                reinterpret_cast<cuda::Address>(range.output),
                                reinterpret_cast<cuda::Address>(range.input),
                                size_t(range.inputBytes), stream),
                            "copying on the GPU");
}

Status NcclCollectives::enqueue(const Collective &c,
                                cuda::StreamHandle stream) const {
  auto found = byCommunicator.find(c.communicator);
  if (found == byCommunicator.end())
    return Status::success();
  const Group &group = *found->second;
  if (!group.communicator) {
    for (const CollectiveRange &range : c.ranges)
      LOCKSTEP_RETURN_IF_ERROR(copy(range, stream));
    return Status::success();
  }
  if (c.kind == artifact::CollectiveKind::Barrier) {
    auto *word = reinterpret_cast<void *>(barrierWord.address());
    return api->check(api->allReduce(word, word, 1, nccl::int32, nccl::max,
                                     group.communicator, stream),
                      "barrier '" + c.name + "'");
  }
  // The ranges go as one operation.
  LOCKSTEP_RETURN_IF_ERROR(api->check(api->groupStart(), "ncclGroupStart"));
  Status status;
  for (const CollectiveRange &range : c.ranges)
    if (status.ok())
      status = enqueueRange(c, range, group, stream);
  nccl::Result ended = api->groupEnd();
  LOCKSTEP_RETURN_IF_ERROR(status);
  return api->check(ended, "collective '" + c.name + "'");
}

Status NcclCollectives::enqueueRange(const Collective &c,
                                     const CollectiveRange &range,
                                     const Group &group,
                                     cuda::StreamHandle stream) const {
  using Kind = artifact::CollectiveKind;
  if (!range.inputBytes)
    return Status::success();
  size_t size = size_t(sizeOf(c.dtype));
  nccl::DataType dtype = dataType(c.dtype).value_or(nccl::uint8);
  nccl::Operation operation =
      c.reduction == artifact::Reduction::Max   ? nccl::max
      : c.reduction == artifact::Reduction::Min ? nccl::min
                                                : nccl::sum;
  nccl::Result result = 0;
  switch (c.kind) {
  case Kind::AllReduce:
    result = api->allReduce(range.input, range.output,
                            size_t(range.inputBytes) / size, dtype, operation,
                            group.communicator, stream);
    break;
  case Kind::ReduceScatter:
    result = api->reduceScatter(range.input, range.output,
                                size_t(range.outputBytes) / size, dtype,
                                operation, group.communicator, stream);
    break;
  case Kind::AllGather:
    result = api->allGather(range.input, range.output, size_t(range.inputBytes),
                            nccl::uint8, group.communicator, stream);
    break;
  case Kind::Broadcast:
    result =
        api->broadcast(range.input, range.output, size_t(range.inputBytes),
                       nccl::uint8, int(c.root), group.communicator, stream);
    break;
  case Kind::Barrier:
    break;
  }
  return api->check(result, "collective '" + c.name + "'");
}

} // namespace lockstep::runtime
