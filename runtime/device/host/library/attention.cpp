#include "runtime/device/host/library/attention.h"

#include <cmath>

namespace lockstep::runtime {

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
/// Strides of [batch, head, position] whose rows of `width` do not overlap.
static Ints rowStrides(Attributes &attributes, const char *name, int64_t width,
                       int64_t length, std::optional<Ints> otherwise = {}) {
  Ints strides = attributes.integers(name, 3, std::move(otherwise));
  if (length == 1)
    strides[2] = std::max(strides[2], width);
  if (strides[0] < 0 || strides[1] < 0 || strides[2] < width)
    attributes.reject(name, "gives rows that overlap");
  return strides;
}

StatusOr<AttentionShape> readAttentionShape(Attributes &attributes,
                                            bool backward) {
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
} // namespace lockstep::runtime
