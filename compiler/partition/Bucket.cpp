//===- Bucket.cpp - All-reduces that share a message ----------------------===//
//
// Each message costs latency, so many small all-reduces are slow; but a bucket
// starts only when its last member is ready, so one large all-reduce hides
// behind nothing. For a fixed order the best cut is found exactly
// (communication.md: "Gradient buckets").
//
// Sums that the computation goes on from (batch norm's, the count of labels)
// share no message with values that only the update reads: the step would stand
// still until all those bytes are there.
//
//===----------------------------------------------------------------------===//
#include "compiler/partition/Passes.h"
#include "mlir/IR/Remarks.h"
#include "runtime/topology/topology.h"
#include "llvm/ADT/MapVector.h"

namespace lockstep::partition {
#define GEN_PASS_DEF_BUCKETPASS
#include "compiler/partition/Passes.h.inc"
} // namespace lockstep::partition

using namespace mlir;
using namespace lockstep;
using dist::AllReduceOp;

namespace {

/// An all-reduce that may be joined with others of its class.
struct Member {
  AllReduceOp op;
  /// Position in the block at which the operand is ready, and of the first user
  /// of the result.
  int64_t ready, firstUse;
  /// Seconds from the block's start until the operand is ready.
  double readySeconds;
  int64_t bytes;
};

/// What must agree between the members of a bucket.
/// Mesh, axes, kind, element type, whether another collective waits for it.
using Key = std::tuple<Attribute, Attribute, uint32_t, Type, uint32_t>;

} // namespace

static int64_t getBytes(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return tensor.getNumElements() *
         std::max<int64_t>(1, tensor.getElementTypeBitWidth() / 8);
}

/// The roofline time of an operation on one rank.
static double getSeconds(Operation &op, const NodeType &device) {
  double flops = 0, bytes = 0;
  if (auto costed = dyn_cast<train::CostedOpInterface>(op)) {
    train::OpCost cost = costed.getCost();
    flops = cost.flops;
    bytes = cost.bytesRead + cost.bytesWritten;
  } else if (!isa<dist::CollectiveOpInterface>(op)) {
    for (Type type : op.getResultTypes())
      if (isa<RankedTensorType>(type))
        bytes += getBytes(type);
  }
  return std::max(device.flops > 0 ? flops / device.flops : 0,
                  device.memoryBandwidth > 0 ? bytes / device.memoryBandwidth
                                             : 0);
}

/// The operations of the block on which a later collective depends.
static DenseSet<Operation *> findForerunners(Block &block) {
  DenseSet<Operation *> forerunners;
  for (Operation &op : llvm::reverse(block))
    if (llvm::any_of(op.getUsers(), [&](Operation *user) {
          Operation *reader = block.findAncestorOpInBlock(*user);
          return isa<dist::CollectiveOpInterface>(reader) ||
                 forerunners.contains(reader);
        }))
      forerunners.insert(&op);
  return forerunners;
}

/// The latency's part of a large bucket's time.
static constexpr double kLatencyPart = 0.1;

/// Where each bucket ends, for members in the order of their readiness: C(j) =
/// min over i < j of max(C(i), r_j) + T(S_j - S_i), plus the computing that the
/// messages take away, which is their time. On a CPU a message's thread runs on
/// the rank's core. On a GPU its blocks hold processors for which persistent
/// kernels (products, attention) have planned work, which waits: two H200 lost
/// 2 of 58 ms to messages of 2.7 ms. Before the last bucket, to be done earlier
/// than the next member is ready is worth nothing. Each prefix keeps its best
/// cut, which is exact but for the computing taken away.
static SmallVector<size_t>
cutBuckets(ArrayRef<Member> members, int64_t maxBytes,
           llvm::function_ref<double(int64_t)> getTime) {
  struct Cut {
    double finish = 0, taken = 0;
    size_t start = 0;
  };
  size_t count = members.size();
  SmallVector<Cut> best(count + 1);
  for (size_t j = 1; j <= count; ++j) {
    best[j].finish = std::numeric_limits<double>::infinity();
    double awaited = j < count ? members[j].readySeconds : 0;
    auto getCost = [&](const Cut &cut) {
      return std::max(cut.finish, awaited) + cut.taken;
    };
    int64_t bytes = 0, firstUse = std::numeric_limits<int64_t>::max();
    for (size_t i = j; i-- > 0;) {
      bytes += members[i].bytes;
      firstUse = std::min(firstUse, members[i].firstUse);
      // A member whose result is used before the bucket can start does not wait
      // for it. A bucket whose latency is a small part of its time gains
      // nothing by more members, and starts the later for them.
      bool isFull =
          bytes > maxBytes ||
          getTime(bytes - members[i].bytes) * kLatencyPart > getTime(0);
      if (i + 1 < j && (isFull || firstUse <= members[j - 1].ready))
        break;
      double time = getTime(bytes);
      Cut cut = {std::max(best[i].finish, members[j - 1].readySeconds) + time,
                 best[i].taken + time, i};
      if (getCost(cut) < getCost(best[j]))
        best[j] = cut;
    }
  }
  SmallVector<size_t> ends;
  for (size_t j = count; j > 0; j = best[j].start)
    ends.push_back(j);
  std::reverse(ends.begin(), ends.end());
  return ends;
}

/// One all_reduce for all members, where the last of them becomes ready.
static void joinMembers(ArrayRef<Member> members) {
  SmallVector<Value> inputs;
  SmallVector<Location> locations;
  int64_t bytes = 0;
  for (const Member &member : members) {
    AllReduceOp op = member.op;
    inputs.push_back(op.getInputs()[0]);
    locations.push_back(op.getLoc());
    bytes += member.bytes;
  }
  AllReduceOp first = members.front().op, last = members.back().op;
  remark::passed(last.getLoc(), remark::RemarkOpts::name("Bucket").category(
                                    "lockstep-partition"))
      << remark::metric("Members", members.size())
      << remark::metric("Bytes", bytes);
  if (members.size() == 1)
    return;
  OpBuilder builder(last);
  auto bucket = AllReduceOp::create(
      builder, builder.getFusedLoc(locations), ValueRange(inputs).getTypes(),
      first.getKind(), inputs, first.getMesh(), first.getAxesAttr());
  for (auto [member, result] : llvm::zip_equal(members, bucket.getOutputs())) {
    AllReduceOp op = member.op;
    op.getOutputs()[0].replaceAllUsesWith(result);
    op.erase();
  }
}

namespace {

struct Bucket : partition::impl::BucketPassBase<Bucket> {
  using BucketPassBase::BucketPassBase;

  void runOnOperation() override {
    for (dist::MeshOp mesh : getOperation().getOps<dist::MeshOp>()) {
      FailureOr<Topology> cluster = loadTopology(mesh);
      if (failed(cluster))
        return signalPassFailure();
      for (func::FuncOp function : getOperation().getOps<func::FuncOp>())
        function.walk(
            [&](Block *block) { bucketBlock(*block, mesh, *cluster); });
    }
  }

  FailureOr<Topology> loadTopology(dist::MeshOp mesh) {
    StatusOr<Topology> loaded =
        topology.empty()
            ? StatusOr<Topology>(Topology::localCpu(mesh.getNumRanks()))
            : Topology::load(topology);
    Status status = loaded.ok()
                        ? loaded->checkRanks(mesh.getNumRanks()).at(topology)
                        : loaded.status();
    if (status.ok())
      return std::move(*loaded);
    mesh.emitError(status.toString());
    return failure();
  }

  void bucketBlock(Block &block, dist::MeshOp mesh, const Topology &cluster) {
    llvm::MapVector<Key, SmallVector<Member>> classes =
        collect(block, mesh, cluster);
    for (auto &[key, members] : classes) {
      SmallVector<int64_t> group =
          mesh.getGroups(cast<dist::AxesAttr>(std::get<1>(key))).front();
      std::vector<int64_t> ranks(group.begin(), group.end());
      auto getTime = [&](int64_t bytes) {
        return cluster.allReduceSeconds(bytes, ranks);
      };
      size_t begin = 0;
      for (size_t end : cutBuckets(members, maxBytes, getTime)) {
        joinMembers(ArrayRef(members).slice(begin, end - begin));
        begin = end;
      }
    }
  }

  /// The block's single-operand all-reduces over this mesh, by class, in the
  /// order in which they become ready.
  llvm::MapVector<Key, SmallVector<Member>>
  collect(Block &block, dist::MeshOp mesh, const Topology &cluster) {
    llvm::MapVector<Key, SmallVector<Member>> classes;
    DenseMap<Operation *, int64_t> position;
    SmallVector<double> seconds = {0};
    DenseSet<Operation *> forerunners = findForerunners(block);
    for (Operation &op : block) {
      position[&op] = seconds.size();
      seconds.push_back(seconds.back() + getSeconds(op, cluster.typeOf(0)));
    }
    for (AllReduceOp op : block.getOps<AllReduceOp>()) {
      if (op.getMesh() != mesh.getSymName() || op.getInputs().size() != 1)
        continue;
      int64_t firstUse = std::numeric_limits<int64_t>::max();
      for (Operation *user : op.getOutputs()[0].getUsers())
        firstUse = std::min(
            firstUse, position.lookup(block.findAncestorOpInBlock(*user)));
      Type type = op.getInputs()[0].getType();
      Key key = {op.getMeshAttr(), op.getAxesAttr(),
                 static_cast<uint32_t>(op.getKind()),
                 getElementTypeOrSelf(type),
                 uint32_t(forerunners.contains(op))};
      classes[key].push_back({op, position[op], firstUse,
                              seconds[position[op] - 1], getBytes(type)});
    }
    return classes;
  }
};

} // namespace
