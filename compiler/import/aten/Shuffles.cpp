// Operators that arrange elements anew: joining, repeating, rolling, padding,
// and the pixel and patch rearrangements.
#include "compiler/import/aten/Lowering.h"

using namespace mlir;
using namespace lockstep::train;

namespace lockstep::aten {

//===----------------------------------------------------------------------===//
// Joining
//===----------------------------------------------------------------------===//

/// Operands of one element type; the old empty tensors of shape [0] are left
/// out.
static SmallVector<Value> joined(OpCall &op, StringRef name) {
  SmallVector<Value> inputs;
  Type type = op.resultElement();
  for (Value input : op.tensors(name))
    if (input && shapeOf(input) != Dims{0})
      inputs.push_back(op.t.convert(input, type));
  if (inputs.empty() && !op.bad())
    inputs.push_back(op.t.constant(op.resultShape(), type, 0));
  return inputs;
}

static void lowerCat(OpCall &op) {
  SmallVector<Value> inputs = joined(op, "tensors");
  if (op.bad())
    return;
  int64_t dim = op.dim("dim", rankOf(inputs.front()), 0);
  op.result(op.t.concat(inputs, dim));
}

static void lowerStack(OpCall &op) {
  SmallVector<Value> inputs = joined(op, "tensors");
  if (op.bad())
    return;
  int64_t dim = op.dim("dim", rankOf(inputs.front()) + 1, 0);
  for (Value &input : inputs)
    input = rankOf(input) < dim ? op.t.fail("tensors of different ranks")
                                : op.t.unsqueeze(input, dim);
  if (!op.bad())
    op.result(op.t.concat(inputs, dim));
}

/// hstack, vstack, dstack, column_stack.
static void lowerStackAlong(OpCall &op) {
  SmallVector<Value> inputs = joined(op, "tensors");
  if (op.bad())
    return;
  int64_t dim = op.base == "vstack" || op.base == "row_stack" ? 0
                : op.base == "dstack"                         ? 2
                                                              : 1;
  for (Value &input : inputs) {
    Shape shape(shapeOf(input));
    if (dim == 1 && op.base == "column_stack")
      while (shape.size() < 2)
        shape.push_back(1);
    if (dim != 1 && shape.size() < 2)
      shape.insert(shape.begin(), 2 - shape.size(), 1);
    while (dim == 2 && shape.size() < 3)
      shape.push_back(1);
    if (shape.empty())
      shape.push_back(1);
    input = op.t.reshape(input, shape);
  }
  op.result(
      op.t.concat(inputs, dim == 1 && rankOf(inputs.front()) == 1 ? 0 : dim));
}

//===----------------------------------------------------------------------===//
// Repeating and turning
//===----------------------------------------------------------------------===//

/// The tensor `repeats[i]` times along dimension i.
static Value repeat(Emitter &t, Value x, Shape repeats) {
  if (!x)
    return x;
  Shape shape(shapeOf(x));
  if (repeats.size() < shape.size())
    repeats.insert(repeats.begin(), shape.size() - repeats.size(), 1);
  shape.insert(shape.begin(), repeats.size() - shape.size(), 1);
  if (llvm::any_of(repeats, [](int64_t n) { return n < 0; }))
    return t.fail("expected repeats that are not negative");
  Shape spaced, wide, merged;
  for (auto [size, times] : llvm::zip_equal(shape, repeats)) {
    spaced.append({1, size});
    wide.append({times, size});
    merged.push_back(times * size);
  }
  return t.reshape(t.broadcastTo(t.reshape(x, spaced), wide), merged);
}

static void lowerRepeat(OpCall &op) {
  Value x = op.tensor("self");
  op.result(
      repeat(op.t, x, op.integers(op.base == "tile" ? "dims" : "repeats")));
}

static void lowerRepeatInterleave(OpCall &op) {
  op.ignore({"output_size"});
  if (op.isTensor("repeats") || !op.has("repeats"))
    return op.unsupported("repeat_interleave with a tensor of repeats");
  Value x = op.tensor("self");
  int64_t times = op.integer("repeats");
  if (op.bad())
    return;
  if (!op.has("dim"))
    x = op.t.reshape(x, {countOf(shapeOf(x))});
  int64_t dim = op.dim("dim", rankOf(x), 0);
  Shape wide(shapeOf(x)), merged(wide);
  if (wide.empty() || times < 0)
    return void(op.t.fail("expected repeats that are not negative"));
  wide.insert(wide.begin() + dim + 1, times);
  merged[dim] *= times;
  op.result(
      op.t.reshape(op.t.broadcastTo(op.t.unsqueeze(x, dim + 1), wide), merged));
}

static Value roll(Emitter &t, Value x, int64_t dim, int64_t shift) {
  int64_t size = shapeOf(x)[dim];
  shift = size ? ((shift % size) + size) % size : 0;
  if (!shift)
    return x;
  return t.concat({t.sliceDim(x, dim, size - shift, size),
                   t.sliceDim(x, dim, 0, size - shift)},
                  dim);
}

static void lowerRoll(OpCall &op) {
  Value x = op.tensor("self");
  Shape shifts = op.integers("shifts"), given = op.integers("dims", Shape());
  if (op.bad())
    return;
  if (given.empty() && shifts.size() == 1)
    return op.result(op.t.reshape(
        roll(op.t, op.t.reshape(x, {countOf(shapeOf(x))}), 0, shifts[0]),
        shapeOf(x)));
  if (given.size() != shifts.size())
    return void(op.t.fail("expected as many dims as shifts"));
  for (auto [dim, shift] : llvm::zip_equal(given, shifts)) {
    dim = dim < 0 ? dim + rankOf(x) : dim;
    if (dim < 0 || dim >= rankOf(x))
      return void(op.t.fail("dimension out of range"));
    x = roll(op.t, x, dim, shift);
  }
  op.result(x);
}

static void lowerFlip(OpCall &op) {
  Value x = op.tensor("self");
  if (op.bad())
    return;
  Shape dims = op.base == "fliplr"   ? Shape{1}
               : op.base == "flipud" ? Shape{0}
               : op.has("dims") && !op.integers("dims").empty()
                   ? op.dims("dims", rankOf(x))
                   : Shape();
  if (!op.bad())
    op.result(op.t.reverse(x, dims));
}

static void lowerRot90(OpCall &op) {
  Value x = op.tensor("self");
  int64_t times = ((op.integer("k", 1) % 4) + 4) % 4;
  Shape dims = op.integers("dims", Shape{0, 1});
  if (op.bad() || dims.size() != 2)
    return;
  for (int64_t &dim : dims)
    dim = dim < 0 ? dim + rankOf(x) : dim;
  if (dims[0] < 0 || dims[1] < 0 || dims[0] >= rankOf(x) ||
      dims[1] >= rankOf(x) || dims[0] == dims[1])
    return void(op.t.fail("expected two dimensions"));
  if (times == 2)
    x = op.t.reverse(x,
                     {std::min(dims[0], dims[1]), std::max(dims[0], dims[1])});
  if (times == 1)
    x = op.t.swapDims(op.t.reverse(x, {dims[1]}), dims[0], dims[1]);
  if (times == 3)
    x = op.t.reverse(op.t.swapDims(x, dims[0], dims[1]), {dims[1]});
  op.result(x);
}

//===----------------------------------------------------------------------===//
// Padding
//===----------------------------------------------------------------------===//

static Value padWithCopies(Emitter &t, Value x, int64_t dim, int64_t low,
                           int64_t high, StringRef mode) {
  int64_t size = shapeOf(x)[dim];
  auto edge = [&](int64_t at, int64_t times) {
    Shape shape(shapeOf(x));
    shape[dim] = times;
    return t.broadcastTo(t.sliceDim(x, dim, at, at + 1), shape);
  };
  bool reflects = mode == "reflect";
  if (low > size - reflects || high > size - reflects || size == 0)
    if (mode != "replicate" || size == 0)
      return t.fail("padding of " + Twine(std::max(low, high)) +
                    " for a dimension of size " + Twine(size));
  SmallVector<Value> parts;
  if (low > 0)
    parts.push_back(mode == "replicate" ? edge(0, low)
                    : reflects
                        ? t.reverse(t.sliceDim(x, dim, 1, low + 1), {dim})
                        : t.sliceDim(x, dim, size - low, size));
  parts.push_back(t.sliceDim(x, dim, std::max<int64_t>(0, -low),
                             size - std::max<int64_t>(0, -high)));
  if (high > 0)
    parts.push_back(
        mode == "replicate" ? edge(size - 1, high)
        : reflects
            ? t.reverse(t.sliceDim(x, dim, size - 1 - high, size - 1), {dim})
            : t.sliceDim(x, dim, 0, high));
  return t.concat(parts, dim);
}

/// `pads` has (low, high) of the last dimension first.
static void padAll(OpCall &op, StringRef mode, double value) {
  Value x = op.tensor("self");
  Shape pads = op.integers(op.argument("pad") ? "pad" : "padding");
  if (op.bad())
    return;
  if (pads.size() % 2 || pads.size() / 2 > static_cast<size_t>(rankOf(x)))
    return void(op.t.fail("expected two numbers for each padded dimension"));
  Shape low(rankOf(x), 0), high(rankOf(x), 0);
  for (size_t i = 0; i < pads.size() / 2; ++i) {
    low[rankOf(x) - 1 - i] = pads[2 * i];
    high[rankOf(x) - 1 - i] = pads[2 * i + 1];
  }
  if (mode == "constant")
    return op.result(op.t.pad(x, op.t.scalar(elementOf(x), value), low, high,
                              Shape(rankOf(x), 0)));
  for (int64_t dim = 0; dim < rankOf(x) && !op.bad(); ++dim)
    if (low[dim] || high[dim])
      x = padWithCopies(op.t, x, dim, low[dim], high[dim], mode);
  op.result(x);
}

static void lowerPad(OpCall &op) {
  if (op.base == "constant_pad_nd")
    return padAll(op, "constant", op.real("value", 0));
  if (op.base.starts_with("reflection"))
    return padAll(op, "reflect", 0);
  if (op.base.starts_with("replication"))
    return padAll(op, "replicate", 0);
  std::string mode = op.string("mode", "constant");
  double value = op.real("value", 0);
  if (mode != "constant" && mode != "reflect" && mode != "replicate" &&
      mode != "circular")
    return op.unsupported("padding mode '" + Twine(mode) + "'");
  padAll(op, mode, value);
}

//===----------------------------------------------------------------------===//
// Pixels and patches
//===----------------------------------------------------------------------===//

static void lowerPixelShuffle(OpCall &op) {
  bool shuffle = op.base == "pixel_shuffle";
  Value x = op.tensor("self");
  int64_t r = op.integer(shuffle ? "upscale_factor" : "downscale_factor");
  if (op.bad() || rankOf(x) < 3 || r < 1)
    return void(op.t.fail("expected an image of rank 3 or more"));
  Shape lead(shapeOf(x).drop_back(3)), split(lead), merged(lead),
      order = range(lead.size());
  int64_t n = lead.size(), c = shapeOf(x)[n], h = shapeOf(x)[n + 1],
          w = shapeOf(x)[n + 2];
  if (shuffle) {
    split.append({c / (r * r), r, r, h, w});
    order.append({n, n + 3, n + 1, n + 4, n + 2});
    merged.append({c / (r * r), h * r, w * r});
  } else {
    split.append({c, h / r, r, w / r, r});
    order.append({n, n + 2, n + 4, n + 1, n + 3});
    merged.append({c * r * r, h / r, w / r});
  }
  op.result(
      op.t.reshape(op.t.transpose(op.t.reshape(x, split), order), merged));
}

static void lowerChannelShuffle(OpCall &op) {
  Value x = op.tensor("self");
  int64_t groups = op.integer("groups");
  if (op.bad() || rankOf(x) < 2 || groups < 1)
    return;
  Shape split(shapeOf(x));
  split[1] /= groups;
  split.insert(split.begin() + 1, groups);
  op.result(
      op.t.reshape(op.t.swapDims(op.t.reshape(x, split), 1, 2), shapeOf(x)));
}

struct Patches {
  Shape kernel, dilation, padding, stride;
  bool read(OpCall &op) {
    kernel = op.integers("kernel_size"), dilation = op.integers("dilation"),
    padding = op.integers("padding"), stride = op.integers("stride");
    return !op.bad() && kernel.size() == 2 && dilation.size() == 2 &&
           padding.size() == 2 && stride.size() == 2 && stride[0] > 0 &&
           stride[1] > 0;
  }
  int64_t count(int64_t size, int i) const {
    return (size + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) /
               stride[i] +
           1;
  }
};

/// im2col: the elements under each kernel position, one strided slice for each
/// kernel element.
static void lowerUnfoldPatches(OpCall &op) {
  Value x = op.tensor("self");
  Patches p;
  if (!p.read(op) || rankOf(x) != 4)
    return op.unsupported("im2col of an unbatched image");
  Shape zeros(4, 0), pads{0, 0, p.padding[0], p.padding[1]}, shape(shapeOf(x));
  int64_t rows = p.count(shape[2], 0), columns = p.count(shape[3], 1);
  Value padded = op.t.pad(x, op.t.scalar(elementOf(x), 0), pads, pads, zeros);
  SmallVector<Value> parts;
  for (int64_t i = 0; i < p.kernel[0]; ++i)
    for (int64_t k = 0; k < p.kernel[1]; ++k) {
      Shape starts{0, 0, i * p.dilation[0], k * p.dilation[1]};
      Shape limits{shape[0], shape[1], starts[2] + (rows - 1) * p.stride[0] + 1,
                   starts[3] + (columns - 1) * p.stride[1] + 1};
      Value part =
          op.t.slice(padded, starts, limits, {1, 1, p.stride[0], p.stride[1]});
      parts.push_back(
          op.t.reshape(part, {shape[0], shape[1], 1, rows * columns}));
    }
  op.result(op.t.reshape(
      op.t.concat(parts, 2),
      {shape[0], shape[1] * p.kernel[0] * p.kernel[1], rows * columns}));
}

/// col2im: the sum of the patches at their places.
static void lowerFoldPatches(OpCall &op) {
  Value x = op.tensor("self");
  Shape size = op.integers("output_size");
  Patches p;
  if (!p.read(op) || rankOf(x) != 3 || size.size() != 2)
    return op.unsupported("col2im of an unbatched tensor");
  int64_t batch = shapeOf(x)[0],
          channels = shapeOf(x)[1] / (p.kernel[0] * p.kernel[1]);
  int64_t rows = p.count(size[0], 0), columns = p.count(size[1], 1);
  Value split = op.t.reshape(
            x, {batch, channels, p.kernel[0] * p.kernel[1], rows, columns}),
        sum;
  for (int64_t i = 0; i < p.kernel[0]; ++i)
    for (int64_t k = 0; k < p.kernel[1]; ++k) {
      Shape low{0, 0, i * p.dilation[0] - p.padding[0],
                k * p.dilation[1] - p.padding[1]},
          high{0, 0, 0, 0};
      high[2] = size[0] - low[2] - ((rows - 1) * p.stride[0] + 1);
      high[3] = size[1] - low[3] - ((columns - 1) * p.stride[1] + 1);
      Value part = op.t.pad(op.t.at(split, 2, i * p.kernel[1] + k),
                            op.t.scalar(elementOf(x), 0), low, high,
                            {0, 0, p.stride[0] - 1, p.stride[1] - 1});
      sum = sum ? op.t.add(sum, part) : part;
    }
  op.result(sum);
}

/// Tensor.unfold: windows of one dimension become a last dimension.
static void lowerUnfold(OpCall &op) {
  Value x = op.tensor("self");
  int64_t size = op.integer("size"), step = op.integer("step");
  int64_t dim = op.bad() ? 0 : op.dim("dimension", rankOf(x));
  if (op.bad() || rankOf(x) == 0 || step < 1 || size < 0 ||
      size > shapeOf(x)[dim])
    return void(
        op.t.fail("window of " + Twine(size) + " in a smaller dimension"));
  int64_t count = (shapeOf(x)[dim] - size) / step + 1;
  Shape shape{count, size};
  Value index = op.t.add(
      op.t.mul(op.t.iota(shape, op.t.i64(), 0), static_cast<double>(step)),
      op.t.iota(shape, op.t.i64(), 1));
  Value windows = op.t.gather(x, {index}, {dim}, 0); // [count, size, others]
  Shape permutation = llvm::to_vector(llvm::seq<int64_t>(2, rankOf(x) + 1));
  permutation.insert(permutation.begin() + dim, 0);
  permutation.push_back(1);
  op.result(op.t.transpose(windows, permutation));
}

/// Differences of neighbours, n times.
static void lowerDiff(OpCall &op) {
  Value x = op.tensor("self"), before = op.optionalTensor("prepend"),
        after = op.optionalTensor("append");
  int64_t times = op.integer("n", 1),
          dim = op.bad() ? 0 : op.dim("dim", rankOf(x), -1);
  if (op.bad() || rankOf(x) == 0)
    return;
  SmallVector<Value> parts;
  for (Value part : {before, x, after})
    if (part)
      parts.push_back(part);
  x = op.t.concat(parts, dim);
  for (int64_t i = 0; i < times && x; ++i) {
    int64_t size = shapeOf(x)[dim];
    Value upper = op.t.sliceDim(x, dim, std::min<int64_t>(1, size), size),
          lower = op.t.sliceDim(x, dim, 0, std::max<int64_t>(0, size - 1));
    x = elementOf(x).isInteger(1) ? op.t.binary<XorOp>(upper, lower)
                                  : op.t.sub(upper, lower);
  }
  op.result(x);
}

void addShuffles(OperatorTable &table) {
  table.add({"cat", "concat", "concatenate"}, lowerCat);
  table.add("stack", lowerStack);
  table.add({"hstack", "vstack", "dstack", "column_stack", "row_stack"},
            lowerStackAlong);
  table.add({"repeat", "tile"}, lowerRepeat);
  table.add("repeat_interleave", lowerRepeatInterleave);
  table.add("roll", lowerRoll);
  table.add({"flip", "fliplr", "flipud"}, lowerFlip);
  table.add("rot90", lowerRot90);
  table.add({"pad", "constant_pad_nd", "reflection_pad1d", "reflection_pad2d",
             "reflection_pad3d", "replication_pad1d", "replication_pad2d",
             "replication_pad3d"},
            lowerPad);
  table.add({"pixel_shuffle", "pixel_unshuffle"}, lowerPixelShuffle);
  table.add({"channel_shuffle", "native_channel_shuffle"}, lowerChannelShuffle);
  table.add("im2col", lowerUnfoldPatches);
  table.add("col2im", lowerFoldPatches);
  table.add("unfold", lowerUnfold);
  table.add("diff", lowerDiff);
}

} // namespace lockstep::aten
