#include "runtime/executor/draw.h"
#include "runtime/artifact/types.h"
#include "runtime/device/host/parallel.h"
#include "runtime/support/half.h"
#include "runtime/support/normal_numbers.h"
#include "runtime/support/philox.h"

#include <algorithm>

namespace lockstep::runtime {

void storeElement(std::byte *memory, artifact::DType dtype, int64_t index,
                  double value) {
  switch (dtype) {
  case artifact::DType::F32:
    reinterpret_cast<float *>(memory)[index] = float(value);
    break;
  case artifact::DType::F64:
    reinterpret_cast<double *>(memory)[index] = value;
    break;
  case artifact::DType::BF16:
    reinterpret_cast<uint16_t *>(memory)[index] = floatToBfloat16(float(value));
    break;
  case artifact::DType::F16:
    reinterpret_cast<uint16_t *>(memory)[index] = floatToFloat16(float(value));
    break;
  case artifact::DType::I32:
    reinterpret_cast<int32_t *>(memory)[index] = int32_t(value);
    break;
  case artifact::DType::I64:
    reinterpret_cast<int64_t *>(memory)[index] = int64_t(value);
    break;
  default:
    memory[index] = std::byte(value);
  }
}

namespace {
/// A range of a tensor's elements in the making.
struct Range {
  artifact::DType dtype;
  const artifact::InitRuleT &rule;
  uint64_t seed, stream;
  int64_t begin, end;
  std::byte *target; ///< of element `begin`

  void store(int64_t i, double value) const {
    storeElement(target, dtype, i - begin, value);
  }
};
} // namespace

/// In f32, whatever the type: a parameter in f64 gets no more digits.
static void drawNormal(const Range &range) {
  float mean = float(range.rule.a), deviation = float(range.rule.b);
  constexpr int64_t most = 4096;
  float numbers[most];
  for (int64_t at = range.begin; at < range.end; at += most) {
    int64_t count = std::min(most, range.end - at);
    normalNumbers(range.seed, range.stream, uint64_t(at), count, numbers);
    if (range.dtype == artifact::DType::F32) {
      auto *target = reinterpret_cast<float *>(range.target) + at - range.begin;
      for (int64_t i = 0; i < count; ++i)
        target[i] = mean + deviation * numbers[i];
      continue;
    }
    for (int64_t i = 0; i < count; ++i)
      range.store(at + i, double(mean) + double(deviation) * numbers[i]);
  }
}

static void drawUniform(const Range &range) {
  double low = range.rule.a, width = range.rule.b - range.rule.a;
  std::array<uint32_t, 4> words;
  for (int64_t i = range.begin; i < range.end; ++i) {
    if (i == range.begin || i % 4 == 0)
      words = philox(range.seed, uint64_t(i) / 4, range.stream);
    range.store(i, low + width * uniformFrom(words[size_t(i % 4)]));
  }
}

static void drawRange(const Range &range) {
  using Kind = artifact::InitKind;
  if (range.rule.kind == Kind::Normal)
    return drawNormal(range);
  if (range.rule.kind == Kind::Uniform)
    return drawUniform(range);
  double value = range.rule.kind == Kind::Ones ? 1 : range.rule.a;
  for (int64_t i = range.begin; i < range.end; ++i)
    range.store(i, value);
}

void drawElements(const artifact::TensorT &tensor,
                  const artifact::InitRuleT &rule, uint64_t seed, int64_t begin,
                  int64_t end, std::byte *target) {
  uint64_t stream = streamOf(tensor.name);
  int64_t size = sizeOf(tensor.dtype);
  constexpr int64_t piece = 1 << 15;
  parallelFor((end - begin + piece - 1) / piece, [&](int64_t chunk) {
    int64_t first = begin + chunk * piece;
    drawRange({tensor.dtype, rule, seed, stream, first,
               std::min(end, first + piece), target + (first - begin) * size});
  });
}

} // namespace lockstep::runtime
