// Attention forward: a tile of queries goes over its keys with a running
// maximum and sum.
#include "runtime/device/host/library/attention.h"

#include <cmath>
#include <cstring>

namespace lockstep::runtime {

namespace {

class AttentionForward final : public Attention {
public:
  using Attention::Attention;
  std::vector<int64_t> operandBytes() const override {
    std::vector<int64_t> bytes;
    pushInputBytes(bytes);
    bytes.push_back(bytesOf(s.out, s.heads, s.queries, s.valueDim));
    bytes.push_back(4 * extentOf({s.batch, s.heads, s.queries}, s.lse));
    return bytes;
  }
  Status run(void *const *operands) override;

private:
  void tile(void *const *operands, int64_t b, int64_t h, int64_t query) const;
};

Status AttentionForward::run(void *const *operands) {
  OneThread little(isLittle());
  int64_t tiles = (s.queries + queryTile - 1) / queryTile;
  forEachTile(s.batch * s.heads * tiles, [&](int64_t chunk) {
    // Later tiles of a causal row cost more: they go first.
    int64_t index = tiles - 1 - chunk % tiles;
    int64_t pair = chunk / tiles;
    tile(operands, pair / s.heads, pair % s.heads, index * queryTile);
  });
  return Status::success();
}

void AttentionForward::tile(void *const *operands, int64_t b, int64_t h,
                            int64_t query) const {
  size_t m = maskOperands();
  int64_t kv = h / (s.heads / s.kvHeads);
  const float *q =
      at(static_cast<const float *>(operands[0]), s.q, b, h) + query * s.q[2];
  const float *k = at(static_cast<const float *>(operands[1]), s.k, b, kv);
  const float *v = at(static_cast<const float *>(operands[2]), s.v, b, kv);
  float *out =
      at(static_cast<float *>(operands[3 + m]), s.out, b, h) + query * s.out[2];
  float *lse =
      at(static_cast<float *>(operands[4 + m]), s.lse, b, h) + query * s.lse[2];
  int64_t rows = std::min(queryTile, s.queries - query);
  float maximum[queryTile], sum[queryTile], correction[queryTile];
  std::fill_n(maximum, rows, -INFINITY);
  std::fill_n(sum, rows, 0.0f);
  float *tile = threadScratchOf<float>(0, queryTile * keyTile);
  int64_t begin, end;
  keyRange(query, query + rows - 1, begin, end);
  bool first = true;
  for (int64_t key = begin; key < end; key += keyTile, first = false) {
    int64_t columns = std::min(keyTile, end - key);
    int64_t stride = padTo8(columns);
    scores(q, k + key * s.k[2], rows, columns, tile, stride);
    softmaxTile(tile, stride, rows, columns,
                tileMask(m ? operands[3] : nullptr, b, h, query, key), maximum,
                sum, correction);
    if (!first)
      for (int64_t i = 0; i < rows; ++i)
        scaleRow(out + i * s.out[2], s.valueDim, correction[i]);
    sgemm(Transposed::No, Transposed::No, rows, s.valueDim, columns, 1, tile,
          stride, v + key * s.v[2], s.v[2], first ? 0 : 1, out, s.out[2]);
  }
  for (int64_t i = 0; i < rows; ++i) {
    bool any = maximum[i] != -INFINITY;
    if (any && !first)
      scaleRow(out + i * s.out[2], s.valueDim, 1 / sum[i]);
    else
      std::memset(out + i * s.out[2], 0, size_t(s.valueDim) * 4);
    lse[i * s.lse[2]] = any ? maximum[i] + std::log(sum[i]) : -INFINITY;
  }
}
} // namespace

StatusOr<std::unique_ptr<LibraryKernel>>
createAttentionForward(Attributes &attributes) {
  LOCKSTEP_ASSIGN_OR_RETURN(AttentionShape s,
                            readAttentionShape(attributes, false));
  return std::unique_ptr<LibraryKernel>(new AttentionForward(std::move(s)));
}

} // namespace lockstep::runtime
