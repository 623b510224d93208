// Attention backward: scores and their gradients are computed again tile by
// tile from the log sum exp that forward left.
#include "runtime/device/host/library/attention.h"

#include <cstring>

namespace lockstep::runtime {

namespace {

/// With fewer (batch, key head) pairs than this, backward is cut into key and
/// query tiles too, and computes the scores twice.
constexpr int64_t enoughPairs = 8;

class AttentionBackward final : public Attention {
public:
  using Attention::Attention;
  std::vector<int64_t> operandBytes() const override;
  Status run(void *const *operands) override;

private:
  struct Operands {
    const float *q, *k, *v, *out, *lse, *dout;
    const void *mask;
    float *dq, *dk, *dv;
  };
  enum class Wanted { All, Queries, KeysAndValues };
  Operands unpack(void *const *operands) const;
  void tile(const Operands &o, int64_t b, int64_t h, int64_t query, int64_t key,
            int64_t columns, Wanted wanted, bool firstKey) const;
  void head(const Operands &o, int64_t b, int64_t h, int64_t firstQuery,
            int64_t lastQuery, int64_t firstKey, int64_t lastKey,
            Wanted wanted) const;
  void clear(float *base, const Ints &strides, int64_t b, int64_t h,
             int64_t begin, int64_t end, int64_t width) const {
    for (int64_t i = begin; i < end; ++i)
      std::memset(at(base, strides, b, h) + i * strides[2], 0,
                  size_t(width) * 4);
  }
};

std::vector<int64_t> AttentionBackward::operandBytes() const {
  std::vector<int64_t> bytes;
  pushInputBytes(bytes);
  bytes.push_back(bytesOf(s.out, s.heads, s.queries, s.valueDim));
  bytes.push_back(4 * extentOf({s.batch, s.heads, s.queries}, s.lse));
  bytes.push_back(bytesOf(s.dout, s.heads, s.queries, s.valueDim));
  bytes.push_back(bytesOf(s.dq, s.heads, s.queries, s.headDim));
  bytes.push_back(bytesOf(s.dk, s.kvHeads, s.keys, s.headDim));
  bytes.push_back(bytesOf(s.dv, s.kvHeads, s.keys, s.valueDim));
  return bytes;
}

AttentionBackward::Operands
AttentionBackward::unpack(void *const *operands) const {
  size_t m = maskOperands();
  auto read = [&](size_t i) { return static_cast<const float *>(operands[i]); };
  auto write = [&](size_t i) { return static_cast<float *>(operands[i]); };
  return {read(0),
          read(1),
          read(2),
          read(3 + m),
          read(4 + m),
          read(5 + m),
          m ? operands[3] : nullptr,
          write(6 + m),
          write(7 + m),
          write(8 + m)};
}

Status AttentionBackward::run(void *const *operands) {
  OneThread little(isLittle());
  Operands o = unpack(operands);
  int64_t group = s.heads / s.kvHeads, pairs = s.batch * s.kvHeads;
  auto forGroup = [&](int64_t pair, auto &&body) {
    int64_t b = pair / s.kvHeads, kv = pair % s.kvHeads;
    for (int64_t h = kv * group; h < (kv + 1) * group; ++h)
      body(b, h);
  };
  auto clearKeys = [&](int64_t pair, int64_t begin, int64_t end) {
    int64_t b = pair / s.kvHeads, kv = pair % s.kvHeads;
    clear(o.dk, s.dk, b, kv, begin, end, s.headDim);
    clear(o.dv, s.dv, b, kv, begin, end, s.valueDim);
  };
  if (pairs >= enoughPairs) {
    forEachTile(pairs, [&](int64_t pair) {
      clearKeys(pair, 0, s.keys);
      forGroup(pair, [&](int64_t b, int64_t h) {
        head(o, b, h, 0, s.queries, 0, s.keys, Wanted::All);
      });
    });
    return Status::success();
  }
  int64_t keyTiles = (s.keys + keyTile - 1) / keyTile;
  int64_t queryTiles = (s.queries + queryTile - 1) / queryTile;
  int64_t first = pairs * keyTiles;
  forEachTile(first + s.batch * s.heads * queryTiles, [&](int64_t chunk) {
    if (chunk < first) {
      int64_t begin = chunk % keyTiles * keyTile;
      int64_t end = std::min(begin + keyTile, s.keys);
      clearKeys(chunk / keyTiles, begin, end);
      forGroup(chunk / keyTiles, [&](int64_t b, int64_t h) {
        head(o, b, h, 0, s.queries, begin, end, Wanted::KeysAndValues);
      });
      return;
    }
    int64_t index = (chunk - first) / queryTiles;
    int64_t begin = (chunk - first) % queryTiles * queryTile;
    head(o, index / s.heads, index % s.heads, begin,
         std::min(begin + queryTile, s.queries), 0, s.keys, Wanted::Queries);
  });
  return Status::success();
}

/// All tiles of one query head within the given queries and keys.
void AttentionBackward::head(const Operands &o, int64_t b, int64_t h,
                             int64_t firstQuery, int64_t lastQuery,
                             int64_t firstKey, int64_t lastKey,
                             Wanted wanted) const {
  for (int64_t query = firstQuery; query < lastQuery; query += queryTile) {
    int64_t end = std::min(query + queryTile, lastQuery), begin, limit;
    keyRange(query, end - 1, begin, limit);
    // Tiles start at multiples of keyTile, so that both cuts add alike.
    begin = std::max(begin / keyTile * keyTile, firstKey);
    limit = std::min(limit, lastKey);
    bool first = true;
    for (int64_t key = begin; key < limit; key += keyTile, first = false)
      tile(o, b, h, query, key, std::min(keyTile, limit - key), wanted, first);
    if (first && wanted != Wanted::KeysAndValues)
      clear(o.dq, s.dq, b, h, query, end, s.headDim);
  }
}

void AttentionBackward::tile(const Operands &o, int64_t b, int64_t h,
                             int64_t query, int64_t key, int64_t columns,
                             Wanted wanted, bool firstKey) const {
  int64_t kv = h / (s.heads / s.kvHeads);
  int64_t rows = std::min(queryTile, s.queries - query);
  const float *q = at(o.q, s.q, b, h) + query * s.q[2];
  const float *k = at(o.k, s.k, b, kv) + key * s.k[2];
  const float *v = at(o.v, s.v, b, kv) + key * s.v[2];
  const float *out = at(o.out, s.out, b, h) + query * s.out[2];
  const float *dout = at(o.dout, s.dout, b, h) + query * s.dout[2];
  const float *lseOfHead = at(o.lse, s.lse, b, h) + query * s.lse[2];
  float lse[queryTile], delta[queryTile];
  for (int64_t i = 0; i < rows; ++i) {
    lse[i] = lseOfHead[i * s.lse[2]];
    delta[i] = dotRow(dout + i * s.dout[2], out + i * s.out[2], s.valueDim);
  }
  int64_t stride = padTo8(columns);
  float *p = threadScratchOf<float>(0, queryTile * keyTile);
  float *ds = threadScratchOf<float>(1, queryTile * keyTile);
  scores(q, k, rows, columns, p, stride);
  sgemm(Transposed::No, Transposed::Yes, rows, columns, s.valueDim, 1, dout,
        s.dout[2], v, s.v[2], 0, ds, stride);
  gradientTile(p, ds, stride, rows, columns, tileMask(o.mask, b, h, query, key),
               lse, delta, s.scale);
  if (wanted != Wanted::Queries) {
    float *dk = at(o.dk, s.dk, b, kv) + key * s.dk[2];
    float *dv = at(o.dv, s.dv, b, kv) + key * s.dv[2];
    sgemm(Transposed::Yes, Transposed::No, columns, s.valueDim, rows, 1, p,
          stride, dout, s.dout[2], 1, dv, s.dv[2]);
    sgemm(Transposed::Yes, Transposed::No, columns, s.headDim, rows, 1, ds,
          stride, q, s.q[2], 1, dk, s.dk[2]);
  }
  if (wanted != Wanted::KeysAndValues) {
    float *dq = at(o.dq, s.dq, b, h) + query * s.dq[2];
    sgemm(Transposed::No, Transposed::No, rows, s.headDim, columns, 1, ds,
          stride, k, s.k[2], firstKey ? 0 : 1, dq, s.dq[2]);
  }
}
} // namespace

StatusOr<std::unique_ptr<LibraryKernel>>
createAttentionBackward(Attributes &attributes) {
  LOCKSTEP_ASSIGN_OR_RETURN(AttentionShape s,
                            readAttentionShape(attributes, true));
  return std::unique_ptr<LibraryKernel>(new AttentionBackward(std::move(s)));
}

} // namespace lockstep::runtime
