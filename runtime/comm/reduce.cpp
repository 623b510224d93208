#include "runtime/comm/collectives.h"
#include "runtime/support/half.h"

#include <algorithm>
#include <cstring>

namespace lockstep::runtime {

namespace {

using artifact::DType;
using artifact::Reduction;

struct Sum {
  template <typename T> static T apply(T a, T b) { return T(a + b); }
};
struct Max {
  /// A NaN on either side wins, so that it is seen by every rank.
  template <typename T> static T apply(T a, T b) {
    return a > b || a != a ? a : b;
  }
};
struct Min {
  template <typename T> static T apply(T a, T b) {
    return a < b || a != a ? a : b;
  }
};

template <typename T, typename Operation>
void reduce(void *dst, const void *a, const void *b, size_t count) {
  auto *out = static_cast<T *>(dst);
  auto *x = static_cast<const T *>(a);
  auto *y = static_cast<const T *>(b);
  for (size_t i = 0; i < count; ++i)
    out[i] = Operation::apply(x[i], y[i]);
}

template <float (*toFloat)(uint16_t), uint16_t (*fromFloat)(float),
          typename Operation>
void reduceHalf(void *dst, const void *a, const void *b, size_t count) {
  auto *out = static_cast<uint16_t *>(dst);
  auto *x = static_cast<const uint16_t *>(a);
  auto *y = static_cast<const uint16_t *>(b);
  for (size_t i = 0; i < count; ++i)
    out[i] = fromFloat(Operation::apply(toFloat(x[i]), toFloat(y[i])));
}

template <typename Operation> ReduceFunction select(DType dtype) {
  switch (dtype) {
  case DType::F32:
    return reduce<float, Operation>;
  case DType::F64:
    return reduce<double, Operation>;
  case DType::I32:
    return reduce<int32_t, Operation>;
  case DType::I64:
    return reduce<int64_t, Operation>;
  case DType::U8:
  case DType::Bool:
    return reduce<uint8_t, Operation>;
  case DType::BF16:
    return reduceHalf<bfloat16ToFloat, floatToBfloat16, Operation>;
  case DType::F16:
    return reduceHalf<float16ToFloat, floatToFloat16, Operation>;
  default:
    return nullptr;
  }
}

/// The only rank: every collective is a copy.
class SingleRank final : public Collectives {
public:
  int rank() const override { return 0; }
  int ranks() const override { return 1; }
  void start(Collective collective) override {
    for (const CollectiveRange &range : collective.ranges)
      if (range.input != range.output)
        std::memcpy(range.output, range.input,
                    size_t(std::min(range.inputBytes, range.outputBytes)));
  }
  Status wait(uint32_t) override { return Status::success(); }
  Status broadcast(void *, int64_t, int) override { return Status::success(); }
  Status barrier() override { return Status::success(); }
};

} // namespace

ReduceFunction reduceFunction(DType dtype, Reduction reduction) {
  switch (reduction) {
  case Reduction::Sum:
    return select<Sum>(dtype);
  case Reduction::Max:
    return select<Max>(dtype);
  case Reduction::Min:
    return select<Min>(dtype);
  }
  return nullptr;
}

std::unique_ptr<Collectives> createSingleRank() {
  return std::make_unique<SingleRank>();
}

} // namespace lockstep::runtime
