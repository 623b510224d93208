// Attention, forward and backward, on tiles of queries x keys that fit the
// cache: sgemm for the products, attention_math for what is between them. The
// scores are never stored as a whole. Work is cut and summed in an order that
// does not depend on the number of threads.
#include "runtime/device/host/library/attention_math.h"
#include "runtime/device/host/library/library_kernel.h"
#include "runtime/device/host/library/sgemm.h"
#include "runtime/device/host/library/strided.h"
#include "runtime/device/host/parallel.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace lockstep::runtime {

namespace {

constexpr int64_t queryTile = 64;
constexpr int64_t keyTile = 256;
/// With fewer (batch, key head) pairs than this, backward is cut into key and
/// query tiles too, and computes the scores twice.
constexpr int64_t enoughPairs = 8;

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

int64_t padTo8(int64_t count) { return (count + 7) / 8 * 8; }

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

void Attention::pushInputBytes(std::vector<int64_t> &bytes) const {
  bytes.push_back(bytesOf(s.q, s.heads, s.queries, s.headDim));
  bytes.push_back(bytesOf(s.k, s.kvHeads, s.keys, s.headDim));
  bytes.push_back(bytesOf(s.v, s.kvHeads, s.keys, s.valueDim));
  if (maskOperands())
    bytes.push_back(
        extentOf({s.batch, s.heads, s.queries, s.keys}, s.maskStrides) *
        (s.mask == AttentionShape::Mask::Add ? 4 : 1));
}

void Attention::keyRange(int64_t first, int64_t last, int64_t &begin,
                         int64_t &end) const {
  begin = 0;
  end = s.keys;
  if (s.causal)
    end = std::min(end, last + s.causalOffset + 1);
  else if (s.window)
    end = std::min(end, last + s.causalOffset + s.window);
  if (s.window)
    begin = std::max(begin, first + s.causalOffset - s.window + 1);
  end = std::max<int64_t>(end, 0);
  begin = std::min(begin, end);
}

TileMask Attention::tileMask(const void *mask, int64_t b, int64_t h,
                             int64_t query, int64_t key) const {
  TileMask tile;
  int64_t diagonal = query + s.causalOffset - key;
  if (s.causal)
    tile.lastEnd = diagonal + 1;
  else if (s.window)
    tile.lastEnd = diagonal + s.window;
  if (s.window)
    tile.firstBegin = diagonal - s.window + 1;
  if (!maskOperands())
    return tile;
  const Ints &m = s.maskStrides;
  int64_t offset = b * m[0] + h * m[1] + query * m[2] + key * m[3];
  if (s.mask == AttentionShape::Mask::Add)
    tile.add = static_cast<const float *>(mask) + offset;
  else
    tile.allowed = static_cast<const uint8_t *>(mask) + offset;
  tile.rowStride = m[2];
  tile.columnStride = m[3];
  return tile;
}

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

/// Strides of [batch, head, position] whose rows of `width` do not overlap.
Ints rowStrides(Attributes &attributes, const char *name, int64_t width,
                int64_t length, std::optional<Ints> otherwise = {}) {
  Ints strides = attributes.integers(name, 3, std::move(otherwise));
  if (length == 1)
    strides[2] = std::max(strides[2], width);
  if (strides[0] < 0 || strides[1] < 0 || strides[2] < width)
    attributes.reject(name, "gives rows that overlap");
  return strides;
}

StatusOr<AttentionShape> readShape(Attributes &attributes, bool backward) {
  AttentionShape s;
  s.batch = attributes.integer("batch");
  s.heads = attributes.integer("heads");
  s.kvHeads = attributes.integer("kv_heads", s.heads);
  s.queries = attributes.integer("queries");
  s.keys = attributes.integer("keys");
  s.headDim = attributes.integer("head_dim");
  s.valueDim = attributes.integer("value_dim", s.headDim);
  s.q = rowStrides(attributes, "q_strides", s.headDim, s.queries);
  s.k = rowStrides(attributes, "k_strides", s.headDim, s.keys);
  s.v = rowStrides(attributes, "v_strides", s.valueDim, s.keys);
  s.out = rowStrides(attributes, "out_strides", s.valueDim, s.queries);
  s.lse = attributes.integers("lse_strides", 3,
                              Ints{s.heads * s.queries, s.queries, 1});
  if (backward) {
    s.dout =
        rowStrides(attributes, "dout_strides", s.valueDim, s.queries, s.out);
    s.dq = rowStrides(attributes, "dq_strides", s.headDim, s.queries, s.q);
    s.dk = rowStrides(attributes, "dk_strides", s.headDim, s.keys, s.k);
    s.dv = rowStrides(attributes, "dv_strides", s.valueDim, s.keys, s.v);
  }
  std::string mask = attributes.text("mask", "none");
  if (mask == "add")
    s.mask = AttentionShape::Mask::Add;
  else if (mask == "bool")
    s.mask = AttentionShape::Mask::Bool;
  else if (mask != "none")
    attributes.reject("mask", "must be none, add or bool");
  if (s.mask != AttentionShape::Mask::None)
    s.maskStrides = attributes.integers("mask_strides", 4);
  s.causal = attributes.integer("causal", 0) != 0;
  s.causalOffset = attributes.integer("causal_offset", 0);
  s.window = attributes.integer("window", 0);
  s.scale = float(attributes.number(
      "scale", 1 / std::sqrt(double(std::max<int64_t>(s.headDim, 1)))));
  if (std::min({s.batch, s.heads, s.kvHeads, s.queries, s.keys, s.headDim,
                s.valueDim}) < 1)
    attributes.reject("batch", "or another size is not positive");
  else if (s.heads % s.kvHeads)
    attributes.reject("kv_heads", "must divide heads");
  if (s.window < 0)
    attributes.reject("window", "must not be negative");
  LOCKSTEP_RETURN_IF_ERROR(attributes.finish());
  return s;
}

} // namespace

StatusOr<std::unique_ptr<LibraryKernel>>
createAttentionForward(Attributes &attributes) {
  LOCKSTEP_ASSIGN_OR_RETURN(AttentionShape s, readShape(attributes, false));
  return std::unique_ptr<LibraryKernel>(new AttentionForward(std::move(s)));
}

StatusOr<std::unique_ptr<LibraryKernel>>
createAttentionBackward(Attributes &attributes) {
  LOCKSTEP_ASSIGN_OR_RETURN(AttentionShape s, readShape(attributes, true));
  return std::unique_ptr<LibraryKernel>(new AttentionBackward(std::move(s)));
}

} // namespace lockstep::runtime
