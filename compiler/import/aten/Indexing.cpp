// Reads at computed positions: advanced indexing, gather, embedding.
#include "compiler/import/aten/Indexing.h"

#include "compiler/import/recognize/ConstantFold.h"

#include <cmath>

using namespace mlir;
using namespace lockstep::train;

namespace lockstep::aten {

/// True where the values cannot be negative: counts, positions, and what is
/// made of them.
static bool isNonNegative(Value value, int depth = 0) {
  Operation *op = value.getDefiningOp();
  if (!op || depth > 16)
    return false;
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    auto elements = dyn_cast<DenseIntElementsAttr>(constant.getValue());
    return elements &&
           llvm::none_of(elements.getValues<APInt>(), [](const APInt &i) {
             return i.isNegative() && i.getBitWidth() > 1;
           });
  }
  if (isa<IotaOp, ArgReduceOp>(op))
    return true;
  if (isa<SortOp>(op))
    return value == op->getResult(1);
  if (isa<AddOp, MultiplyOp, MaximumOp>(op))
    return isNonNegative(op->getOperand(0), depth + 1) &&
           isNonNegative(op->getOperand(1), depth + 1);
  if (isa<ReshapeOp, BroadcastInDimOp, TransposeOp, SliceOp, ReverseOp,
          GatherOp>(op))
    return isNonNegative(op->getOperand(0), depth + 1);
  if (auto convert = dyn_cast<ConvertOp>(op))
    return elementOf(convert.getOperand()).isInteger(1) ||
           (!isFloat(convert.getOperand()) &&
            isNonNegative(convert.getOperand(), depth + 1));
  return false;
}

Value wrapNegative(Emitter &t, Value index, int64_t size) {
  if (!index)
    return index;
  index = t.convert(index, t.i64());
  if (isNonNegative(index))
    return index;
  return t.select(t.lt(index, 0),
                  t.add(index, t.constantInt(shapeOf(index), t.i64(), size)),
                  index);
}

Value takeAlong(Emitter &t, Value x, Value index, int64_t dim) {
  if (!x || !index || rankOf(x) != rankOf(index))
    return t.fail("expected index and tensor of one rank");
  if (rankOf(x) == 0)
    return x;
  // The other dimensions are the batch; what the index does not reach is cut
  // off first.
  Shape limits(shapeOf(index));
  limits[dim] = shapeOf(x)[dim];
  for (int64_t i = 0; i < rankOf(x); ++i)
    if (limits[i] > shapeOf(x)[i])
      return t.fail("an index larger than the tensor");
  x = t.slice(x, Shape(rankOf(x), 0), limits, Shape(rankOf(x), 1));
  int64_t last = rankOf(x) - 1;
  Shape toLast = range(rankOf(x));
  toLast.erase(toLast.begin() + dim);
  toLast.push_back(dim);
  Shape back = range(last);
  back.insert(back.begin() + dim, last);
  Value taken =
      t.gather(t.transpose(x, toLast),
               {t.transpose(t.convert(index, t.i64()), toLast)}, {last}, last);
  return taken ? t.transpose(taken, back) : taken;
}

//===----------------------------------------------------------------------===//
// Advanced indexing
//===----------------------------------------------------------------------===//

/// A constant mask becomes one table of positions for each of its dimensions.
static bool expandMask(Emitter &t, Value mask, SmallVector<Value> &tables) {
  std::optional<HostTensor> value =
      recognize::evaluateConstant(mask, int64_t(1) << 24);
  if (!value) {
    t.fail("unsupported: indexing with a mask that depends on values, so that "
           "the result's size does");
    return false;
  }
  std::vector<int64_t> elements = value->toInts();
  Dims shape = shapeOf(mask);
  SmallVector<Shape> positions(shape.size());
  for (auto [flat, set] : llvm::enumerate(elements))
    if (set) {
      int64_t rest = flat;
      for (size_t dim = shape.size(); dim-- > 0; rest /= shape[dim])
        positions[dim].push_back(rest % shape[dim]);
    }
  for (const Shape &table : positions)
    tables.push_back(t.table(table));
  return true;
}

bool AdvancedIndex::build(Emitter &t, ArrayRef<Value> list, Dims operand) {
  // Dimensions in the order of the list; a mask stands for as many as it has.
  SmallVector<std::pair<int64_t, Value>> found;
  int64_t dim = 0;
  for (Value index : list) {
    if (!index) {
      ++dim;
    } else if (elementOf(index).isInteger(1) ||
               elementOf(index).isUnsignedInteger(8)) {
      SmallVector<Value> tables;
      if (!expandMask(t, index, tables))
        return false;
      for (Value table : tables)
        found.push_back({dim++, table});
    } else {
      found.push_back({dim++, index});
    }
  }
  if (dim > static_cast<int64_t>(operand.size()) || found.empty())
    return t.fail("more indices than dimensions"), false;
  for (auto [at, index] : found) {
    Shape wide;
    if (!broadcastShapes(shape, shapeOf(index), wide))
      return t.fail("index tensors do not broadcast"), false;
    shape = wide;
  }
  bool adjacent = found.back().first - found.front().first + 1 ==
                  static_cast<int64_t>(found.size());
  position = adjacent ? found.front().first : 0;
  for (auto [at, index] : found) {
    dims.push_back(at);
    indices.push_back(
        t.broadcastTo(wrapNegative(t, index, operand[at]), shape));
  }
  return !t.failed();
}

Shape AdvancedIndex::toResult(int64_t rank) const {
  int64_t count = shape.size();
  Shape permutation = llvm::to_vector(llvm::seq<int64_t>(count, rank));
  Shape own = range(count);
  permutation.insert(permutation.begin() + position, own.begin(), own.end());
  return permutation;
}

static void lowerIndex(OpCall &op) {
  // Inside vmap the hidden dimensions of the index tensors lead; those of the
  // operand are indexed by their own count.
  SmallVector<Value> list;
  const pt2::Argument *argument = op.argument("indices");
  TensorRef *self = op.ref("self");
  auto *optionals =
      argument ? argument->getIf<std::vector<pt2::OptionalTensorArgument>>()
               : nullptr;
  auto *tensors =
      argument ? argument->getIf<std::vector<pt2::TensorArgument>>() : nullptr;
  SmallVector<std::string_view> names;
  if (optionals)
    for (const auto &tensor : *optionals)
      names.push_back(tensor.name);
  if (tensors)
    for (const auto &tensor : *tensors)
      names.push_back(tensor.name);
  if (!self || op.bad() || names.empty())
    return void(op.t.fail("expected index tensors"));
  SmallVector<TensorRef *> refs;
  size_t rank = 0;
  op.levels = self->levels;
  for (std::string_view name : names) {
    auto it = op.scope.tensors.find(name);
    refs.push_back(name.empty() || it == op.scope.tensors.end() ? nullptr
                                                                : &it->second);
    if (!name.empty() && !refs.back())
      return void(op.t.fail("an index has no value"));
    if (!refs.back())
      continue;
    for (int64_t level : refs.back()->levels)
      if (!llvm::is_contained(op.levels, level))
        op.levels.push_back(level);
    rank = std::max(rank,
                    rankOf(refs.back()->cached) - refs.back()->levels.size());
  }
  llvm::sort(op.levels);
  Value x = self->read(op.t);
  if (!op.levels.empty() &&
      (!self->levels.empty() || llvm::is_contained(refs, nullptr)))
    return op.unsupported("this form of indexing inside torch.vmap");
  for (TensorRef *ref : refs) {
    Value index = ref ? ref->read(op.t) : Value();
    if (index && !op.levels.empty()) {
      Shape shape;
      size_t next = 0;
      for (int64_t level : op.levels)
        shape.push_back(next < ref->levels.size() && ref->levels[next] == level
                            ? shapeOf(index)[next++]
                            : 1);
      Dims own = shapeOf(index).drop_front(ref->levels.size());
      shape.append(rank - own.size(), 1);
      llvm::append_range(shape, own);
      index = op.t.reshape(index, shape);
    }
    list.push_back(index);
  }
  AdvancedIndex index;
  if (op.bad() || !index.build(op.t, list, shapeOf(x)))
    return;
  if (!op.levels.empty())
    index.position = 0;
  Value taken = op.t.gather(x, index.indices, index.dims, 0);
  op.result(taken ? op.t.transpose(taken, index.toResult(rankOf(taken)))
                  : taken);
}

//===----------------------------------------------------------------------===//
// Other reads
//===----------------------------------------------------------------------===//

static void lowerGather(OpCall &op) {
  Value x = op.tensor("self"),
        index = op.tensor(op.base == "gather" ? "index" : "indices");
  op.ignore({"sparse_grad"});
  if (op.bad())
    return;
  if (op.base == "take_along_dim") {
    if (!op.has("dim"))
      x = op.t.reshape(x, {countOf(shapeOf(x))}),
      index = op.t.reshape(index, {countOf(shapeOf(index))});
    Shape common;
    int64_t dim = op.dim("dim", rankOf(x), 0);
    Shape xs(shapeOf(x)), is(shapeOf(index));
    if (xs.size() != is.size())
      return void(op.t.fail("expected tensor and index of one rank"));
    int64_t own = xs[dim], taken = is[dim];
    xs[dim] = is[dim] = 1;
    if (!broadcastShapes(xs, is, common))
      return void(op.t.fail("tensor and index do not broadcast"));
    common[dim] = own;
    x = op.t.broadcastTo(x, common);
    common[dim] = taken;
    index = op.t.broadcastTo(wrapNegative(op.t, index, own), common);
    return op.result(takeAlong(op.t, x, index, dim));
  }
  op.result(takeAlong(op.t, x, index, op.dim("dim", rankOf(x))));
}

static void lowerIndexSelect(OpCall &op) {
  Value x = op.tensor("self"), index = op.tensor("index");
  if (op.bad())
    return;
  int64_t dim = op.dim("dim", rankOf(x));
  if (rankOf(x) == 0)
    return op.result(x);
  if (rankOf(index) != 1)
    index = op.t.reshape(index, {countOf(shapeOf(index))});
  Value taken =
      op.t.gather(x, {wrapNegative(op.t, index, shapeOf(x)[dim])}, {dim}, 0);
  Shape permutation = llvm::to_vector(llvm::seq<int64_t>(1, rankOf(x)));
  permutation.insert(permutation.begin() + dim, 0);
  op.result(taken ? op.t.transpose(taken, permutation) : taken);
}

static void lowerTake(OpCall &op) {
  Value x = op.tensor("self"), index = op.tensor("index");
  if (op.bad())
    return;
  Value flat = op.t.reshape(x, {countOf(shapeOf(x))});
  op.result(op.t.gather(flat, {wrapNegative(op.t, index, countOf(shapeOf(x)))},
                        {0}, 0));
}

static void lowerMaskedSelect(OpCall &op) {
  Value x = op.tensor("self"), mask = op.tensor("mask");
  Shape common;
  if (op.bad() || !broadcastShapes(shapeOf(x), shapeOf(mask), common))
    return;
  AdvancedIndex index;
  if (index.build(op.t, {op.t.broadcastTo(mask, common)}, common))
    op.result(
        op.t.gather(op.t.broadcastTo(x, common), index.indices, index.dims, 0));
}

static void lowerOneHot(OpCall &op) {
  Value x = op.tensor("self");
  op.ignore({"num_classes"});
  Shape shape = op.resultShape();
  if (op.bad() || shape.empty())
    return;
  Value same =
      op.t.compare(CompareDirection::EQ,
                   op.t.unsqueeze(op.t.convert(x, op.t.i64()), rankOf(x)),
                   op.t.iota(shape, op.t.i64(), shape.size() - 1));
  op.result(op.t.convert(same, op.t.i64()));
}

//===----------------------------------------------------------------------===//
// Embedding
//===----------------------------------------------------------------------===//

/// The same rows, whose gradients are divided by how often each is read.
static Value scaleByFrequency(Emitter &t, Value table, Value rows, Value ids) {
  if (!table || !rows || rankOf(ids) == 0)
    return rows;
  Type type = elementOf(table);
  Value flat = t.reshape(ids, {countOf(shapeOf(ids))});
  Value counts =
      t.scatter(ScatterKind::Add, t.constant({shapeOf(table)[0]}, type, 0),
                {flat}, t.constant({countOf(shapeOf(ids))}, type, 1), {0}, 0);
  Value share = t.div(1, t.gather(counts, {ids}, {0}, 0));
  Value still = t.stopGradient(rows);
  return t.add(still,
               t.mul(t.sub(rows, still), t.unsqueeze(share, rankOf(ids))));
}

static Value embedding(OpCall &op, Value table, Value ids, int64_t padding) {
  bool scaled = op.flag("scale_grad_by_freq");
  Operation *lookup = op.t.inferred<EmbeddingOp>({table, ids}, [&](auto &p) {
    if (padding >= 0)
      p.padding_idx = op.t.integer(padding);
  });
  Value rows = lookup ? lookup->getResult(0) : Value();
  return scaled ? scaleByFrequency(op.t, table, rows, ids) : rows;
}

static int64_t paddingIndex(OpCall &op, Value table) {
  int64_t padding = op.has("padding_idx") ? op.integer("padding_idx") : -1;
  // -1 means none in the operator; Python has made negative indices positive
  // before.
  return padding < -1 && table ? padding + shapeOf(table)[0] : padding;
}

static void lowerEmbedding(OpCall &op) {
  Value table = op.tensor("weight"), ids = op.tensor("indices");
  int64_t padding = paddingIndex(op, table);
  op.result(embedding(op, table, ids, padding));
}

/// Bags lie one after the other in `indices`; bag j starts at offsets[j].
static void lowerEmbeddingBag(OpCall &op) {
  Value table = op.tensor("weight"), ids = op.tensor("indices"),
        offsets = op.tensor("offsets"),
        weights = op.optionalTensor("per_sample_weights");
  int64_t mode = op.integer("mode", 0), padding = paddingIndex(op, table);
  bool last = op.flag("include_last_offset");
  if (op.bad() || rankOf(ids) != 1 || rankOf(offsets) != 1 || mode < 0 ||
      mode > 2)
    return op.unsupported("this form of embedding_bag");
  int64_t count = shapeOf(ids)[0], bags = shapeOf(offsets)[0] - last,
          width = shapeOf(table)[1];
  Value rows = embedding(op, table, ids, padding), kept;
  if (padding >= 0)
    kept = op.t.compare(CompareDirection::NE, op.t.convert(ids, op.t.i64()),
                        static_cast<double>(padding));
  if (weights)
    rows = op.t.mul(rows, op.t.unsqueeze(weights, 1));
  // The bag of a position is the number of offsets at or before it, less one.
  offsets = op.t.convert(op.t.sliceDim(offsets, 0, 0, bags), op.t.i64());
  Value before = op.t.compare(CompareDirection::GE,
                              op.t.iota({count, bags}, op.t.i64(), 0), offsets);
  Value bag = op.t.sub(op.t.sum(op.t.convert(before, op.t.i64()), {1}), 1);
  Value mine =
      op.t.compare(CompareDirection::EQ, op.t.unsqueeze(bag, 1),
                   op.t.iota({count, bags}, op.t.i64(), 1)); // [count, bags]
  if (kept)
    mine = op.t.logicalAnd(mine, op.t.unsqueeze(kept, 1));
  Type type = elementOf(table);
  Value share = op.t.convert(mine, type);
  if (mode == 2) {
    Value member = op.t.unsqueeze(mine, 2),
          wide =
              op.t.broadcastTo(op.t.unsqueeze(rows, 1), {count, bags, width});
    Value top =
        op.t.reduce(ReduceKind::Max, op.t.select(member, wide, -INFINITY), {0});
    op.result(0, op.t.select(op.t.compare(CompareDirection::EQ, top, -INFINITY),
                             0, top));
  } else {
    Value sum = op.t.dot(share, rows, {}, {}, {0}, {0});
    if (mode == 1)
      sum =
          op.t.div(sum, op.t.max(op.t.unsqueeze(op.t.sum(share, {0}), 1), 1.0));
    op.result(0, sum);
  }
  for (size_t i = 1; i < op.resultCount(); ++i)
    if (op.isResultUsed(i))
      op.unsupported("the buffers of embedding_bag");
}

void addIndexing(OperatorTable &table) {
  table.add({"index", "_unsafe_index"}, lowerIndex);
  table.add({"gather", "take_along_dim"}, lowerGather);
  table.add("index_select", lowerIndexSelect);
  table.add("take", lowerTake);
  table.add("masked_select", lowerMaskedSelect);
  table.add("one_hot", lowerOneHot);
  table.add("embedding", lowerEmbedding);
  table.add({"embedding_bag", "_embedding_bag", "_embedding_bag_forward_only"},
            lowerEmbeddingBag);
}

} // namespace lockstep::aten
