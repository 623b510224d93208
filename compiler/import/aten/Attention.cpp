// Attention. Without dropout all variants are one `train.attention`; its mask
// is looked at by recognition afterwards. With dropout on the probabilities the
// composition is written out.
#include "compiler/import/aten/Lowering.h"

#include <cmath>

using namespace mlir;
using namespace lockstep::train;

namespace lockstep::aten {

/// Any rank of at least 2 as [batch, heads, length, width].
static Value toRank4(Emitter &t, Value x) {
  int64_t rank = rankOf(x);
  Shape shape(shapeOf(x).take_back(2));
  int64_t heads = rank > 2 ? shapeOf(x)[rank - 3] : 1;
  int64_t batch = 1;
  for (int64_t i = 0; i < rank - 3; ++i)
    batch *= shapeOf(x)[i];
  shape.insert(shape.begin(), {batch, heads});
  return t.reshape(x, shape);
}

/// The mask with rank 4, unit dimensions unexpanded; masks of tensors of higher
/// rank are broadcast and merged.
static Value maskToRank4(Emitter &t, Value mask, Dims query) {
  if (!mask)
    return mask;
  if (query.size() <= 4) {
    Shape shape(4 - std::min<int64_t>(4, rankOf(mask)), 1);
    llvm::append_range(shape, shapeOf(mask));
    // Queries of rank 3 have their one leading dimension as heads.
    return t.reshape(mask, shape);
  }
  Shape shape(query.drop_back(2));
  llvm::append_range(shape, shapeOf(mask).take_back(2));
  return toRank4(t, t.broadcastTo(mask, shape));
}

/// softmax(scale q k^T + mask), dropped out, times v.
static Value attentionWithDropout(OpCall &op, Value q, Value k, Value v,
                                  Value mask, double scale, bool causal,
                                  double rate) {
  Emitter &t = op.t;
  int64_t heads = shapeOf(q)[1], groups = shapeOf(k)[1];
  auto widen = [&](Value x) {
    if (groups == heads || groups == 0)
      return x;
    Shape wide(shapeOf(x)), merged(wide);
    wide.insert(wide.begin() + 2, heads / groups);
    merged[1] = heads;
    return t.reshape(t.broadcastTo(t.unsqueeze(x, 2), wide), merged);
  };
  k = widen(k), v = widen(v);
  Value scores = t.mul(t.dot(q, k, {0, 1}, {0, 1}, {3}, {3}), scale);
  if (!scores)
    return {};
  if (causal) {
    Shape shape(shapeOf(scores).take_back(2));
    Value seen = t.compare(CompareDirection::GE, t.iota(shape, t.i64(), 0),
                           t.iota(shape, t.i64(), 1));
    scores = t.select(seen, scores, -INFINITY);
  }
  if (mask)
    scores = elementOf(mask).isInteger(1)
                 ? t.select(mask, scores, -INFINITY)
                 : t.add(scores, t.convert(mask, elementOf(scores)));
  Value weights = t.softmax(scores, 3, false);
  if (mask) // A row that sees nothing gives 0.
    weights = t.select(t.compare(CompareDirection::EQ,
                                 t.reduce(ReduceKind::Max, scores, {3}, true),
                                 -INFINITY),
                       0, weights);
  if (!weights)
    return {};
  weights = DropoutOp::create(t.b, t.loc, weights, op.lowering.rng(), Value(),
                              APFloat(rate), op.lowering.nextDropoutId(),
                              DenseI64ArrayAttr())
                .getResult();
  return t.dot(weights, v, {0, 1}, {0, 1}, {3}, {2});
}

static void lowerAttention(OpCall &op) {
  op.ignore({"return_debug_mask", "compute_log_sumexp", "dropout_mask"});
  Value q = op.tensor("query"), k = op.tensor("key"), v = op.tensor("value");
  Value mask =
      op.optionalTensor(op.argument("attn_bias") ? "attn_bias" : "attn_mask");
  double rate = op.real("dropout_p", 0);
  bool causal = op.flag("is_causal");
  std::optional<double> given = op.optionalReal("scale");
  op.ignore({"enable_gqa"});
  if (op.bad() || rankOf(q) < 2 || rankOf(k) != rankOf(q) ||
      rankOf(v) != rankOf(q))
    return void(op.t.fail("expected query, key and value of one rank"));
  double scale =
      given ? *given : 1 / std::sqrt(static_cast<double>(shapeOf(q).back()));
  mask = maskToRank4(op.t, mask, shapeOf(q));
  q = toRank4(op.t, q), k = toRank4(op.t, k), v = toRank4(op.t, v);
  // Leading sizes of 1 broadcast.
  if (!op.bad() &&
      (shapeOf(k)[0] != shapeOf(q)[0] || shapeOf(v)[0] != shapeOf(q)[0])) {
    Shape ks(shapeOf(k)), vs(shapeOf(v)), qs(shapeOf(q));
    int64_t batch = std::max({ks[0], vs[0], qs[0]});
    ks[0] = vs[0] = qs[0] = batch;
    q = op.t.broadcastTo(q, qs), k = op.t.broadcastTo(k, ks),
    v = op.t.broadcastTo(v, vs);
  }
  Value lse;
  Value result;
  if (rate > 0) {
    result = op.bad() || rate >= 1
                 ? op.t.fail("expected a dropout below 1")
                 : attentionWithDropout(op, q, k, v, mask, scale, causal, rate);
  } else {
    SmallVector<Value> operands{q, k, v};
    if (mask)
      operands.push_back(mask);
    Operation *attention =
        op.bad() ? nullptr : op.t.inferred<AttentionOp>(operands, [&](auto &p) {
          p.scale = op.t.real(scale);
          if (causal)
            p.causal = op.t.b.getUnitAttr();
        });
    if (!attention)
      return;
    result = attention->getResult(0), lse = attention->getResult(1);
  }
  if (!result)
    return;
  op.result(0, op.t.reshape(result, op.resultShape(0)));
  if (op.resultCount() > 1 && op.isResultUsed(1)) {
    if (!lse || op.base == "_scaled_dot_product_attention_math")
      return op.unsupported("the attention weights as a result");
    op.result(1, op.t.reshape(lse, op.resultShape(1)));
  }
}

static void lowerFused(OpCall &op) {
  op.ignoreAll();
  op.unsupported("the fused transformer layer of evaluation mode (" + op.base +
                 "); export the model in training mode");
}

void addAttention(OperatorTable &table) {
  table.add({"scaled_dot_product_attention",
             "_scaled_dot_product_flash_attention",
             "_scaled_dot_product_flash_attention_for_cpu",
             "_scaled_dot_product_efficient_attention",
             "_scaled_dot_product_cudnn_attention",
             "_scaled_dot_product_attention_math",
             "_scaled_dot_product_fused_attention_overrideable"},
            lowerAttention);
  table.add({"_transformer_encoder_layer_fwd", "_native_multi_head_attention"},
            lowerFused);
}

} // namespace lockstep::aten
