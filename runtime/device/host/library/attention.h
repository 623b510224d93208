// What the two attention kernels share: sizes and strides of the operands, the
// scores of a tile of queries x keys, and which keys a tile of queries sees.
// Tiles fit the cache: sgemm for the products, attention_math for what is
// between them; the scores are never stored as a whole. Work is cut and summed
// in an order that does not depend on the number of threads.
#ifndef LOCKSTEP_RUNTIME_DEVICE_HOST_LIBRARY_ATTENTION_H
#define LOCKSTEP_RUNTIME_DEVICE_HOST_LIBRARY_ATTENTION_H

#include "runtime/device/host/library/attention_math.h"
#include "runtime/device/host/library/library_kernel.h"
#include "runtime/device/host/library/sgemm.h"
#include "runtime/device/host/library/strided.h"
#include "runtime/device/host/parallel.h"

#include <algorithm>

namespace lockstep::runtime {

inline constexpr int64_t queryTile = 64;
inline constexpr int64_t keyTile = 256;

struct AttentionShape {
  int64_t batch = 1, heads = 1, kvHeads = 1, queries = 1, keys = 1;
  int64_t headDim = 1, valueDim = 1;
  Ints q, k, v, out, dout, dq, dk, dv, lse;
  enum class Mask { None, Add, Bool } mask = Mask::None;
  Ints maskStrides = {0, 0, 0, 0};
  bool causal = false;
  int64_t causalOffset = 0, window = 0;
  float scale = 1;
};

/// parallelFor whose body multiplies matrices on its own thread, even when
/// there is but one chunk: products on several threads may add in another
/// order.
template <typename Body> void forEachTile(int64_t chunks, Body body) {
  parallelFor(std::max<int64_t>(chunks, 2), [&](int64_t chunk) {
    if (chunk < chunks)
      body(chunk);
  });
}

/// The position of [b, h, 0] in an operand.
template <typename T>
T *at(T *base, const Ints &strides, int64_t b, int64_t h) {
  return base + b * strides[0] + h * strides[1];
}

inline int64_t padTo8(int64_t count) { return (count + 7) / 8 * 8; }

/// What forward and backward share: the operands' sizes, the scores of a tile,
/// and which keys a tile of queries can see.
class Attention : public LibraryKernel {
public:
  explicit Attention(AttentionShape shape) : s(std::move(shape)) {}

protected:
  int64_t bytesOf(const Ints &strides, int64_t heads, int64_t length,
                  int64_t width) const {
    Ints all = strides;
    all.push_back(1);
    return 4 * extentOf({s.batch, heads, length, width}, all);
  }
  void pushInputBytes(std::vector<int64_t> &bytes) const;
  size_t maskOperands() const {
    return s.mask == AttentionShape::Mask::None ? 0 : 1;
  }

  /// Not worth a second thread.
  bool isLittle() const {
    return double(s.batch * s.heads) * s.queries * s.keys * s.headDim < 2e5;
  }

  /// Keys [begin, end) that any of the queries [first, last] may see.
  void keyRange(int64_t first, int64_t last, int64_t &begin,
                int64_t &end) const;
  TileMask tileMask(const void *mask, int64_t b, int64_t h, int64_t query,
                    int64_t key) const;
  void scores(const float *q, const float *k, int64_t rows, int64_t columns,
              float *tile, int64_t stride) const {
    sgemm(Transposed::No, Transposed::Yes, rows, columns, s.headDim, s.scale, q,
          s.q[2], k, s.k[2], 0, tile, stride);
  }

  AttentionShape s;
};

/// Reads and checks the attributes of either kernel.
StatusOr<AttentionShape> readAttentionShape(Attributes &attributes,
                                            bool backward);

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_DEVICE_HOST_LIBRARY_ATTENTION_H
