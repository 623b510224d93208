// Reading images at computed places: affine_grid and grid_sample. A place
// between pixels is a sum over the pixels around it, each read by a gather and
// weighted; derivatives by image and grid follow from the pieces.
#include "compiler/import/aten/Lowering.h"

using namespace mlir;
using namespace lockstep::train;

namespace lockstep::aten {

namespace {
enum class Interpolation { Linear = 0, Nearest = 1, Cubic = 2 };
enum class Padding { Zeros = 0, Border = 1, Reflection = 2 };

/// Reads an image, [batch, places, channels], at whole positions.
class Sampler {
public:
  Sampler(Emitter &t, Value image, Dims sizes, Padding padding,
          bool alignCorners)
      : t(t), sizes(sizes), padding(padding), alignCorners(alignCorners) {
    Shape toLast = range(rankOf(image));
    toLast.erase(toLast.begin() + 1);
    toLast.push_back(1);
    pixels = t.reshape(t.transpose(image, toLast),
                       {shapeOf(image)[0], countOf(sizes), shapeOf(image)[1]});
  }

  /// From [-1, 1] to pixels.
  Value place(Value grid, size_t k) {
    double size = static_cast<double>(sizes[k]);
    return alignCorners ? t.mul(t.add(grid, 1.0), (size - 1) / 2)
                        : t.add(t.mul(t.add(grid, 1.0), size / 2), -0.5);
  }
  /// Where a place beyond the border is read.
  Value bounded(Value place, size_t k) {
    if (padding == Padding::Zeros)
      return place;
    double last = static_cast<double>(sizes[k]) - 1;
    if (padding == Padding::Reflection)
      place = reflected(place, alignCorners ? 0 : -0.5,
                        alignCorners ? last : last + 1);
    return t.min(t.max(place, 0.0), last);
  }
  /// [batch, places, channels], 0 outside of the image.
  Value read(ArrayRef<Value> positions) {
    Value flat, inside;
    for (auto [k, position] : llvm::enumerate(positions)) {
      double last = static_cast<double>(sizes[k]) - 1;
      Value here = t.logicalAnd(t.ge(position, 0), t.le(position, last));
      Value index =
          t.convert(t.stopGradient(t.min(t.max(position, 0.0), last)), t.i64());
      flat = k ? t.add(t.mul(flat, t.like(flat, static_cast<double>(sizes[k]))),
                       index)
               : index;
      inside = k ? t.logicalAnd(inside, here) : here;
    }
    Value taken = t.gather(pixels, {flat}, {1}, 1);
    return taken ? t.select(t.unsqueeze(inside, rankOf(inside)), taken, 0.0)
                 : taken;
  }

private:
  Value reflected(Value place, double low, double span) {
    if (span == 0)
      return t.like(place, 0);
    Value far = t.abs(t.sub(place, low));
    Value flips = t.unary<FloorOp>(t.div(far, span));
    Value rest = t.sub(far, t.mul(flips, span));
    Value odd =
        t.gt(t.sub(flips, t.mul(t.unary<FloorOp>(t.mul(flips, 0.5)), 2.0)), 0);
    return t.add(t.select(odd, t.sub(span, rest), rest), low);
  }

  Emitter &t;
  Shape sizes;
  Padding padding;
  bool alignCorners;
  Value pixels;
};
} // namespace

/// One tap along one dimension.
struct Tap {
  Value position, weight;
};

static SmallVector<Tap> linearTaps(Emitter &t, Value place) {
  Value low = t.unary<FloorOp>(place), f = t.sub(place, low);
  return {{low, t.sub(1, f)}, {t.add(low, 1.0), f}};
}

static SmallVector<Tap> cubicTaps(Emitter &t, Value place) {
  constexpr double a = -0.75;
  Value low = t.unary<FloorOp>(place), f = t.sub(place, low);
  auto polynomial = [&](Value d, double c3, double c2, double c1, double c0) {
    Value sum = t.mul(t.add(t.mul(d, c3), c2), d);
    return t.add(t.mul(c1 == 0 ? sum : t.add(sum, c1), d), c0);
  };
  auto inner = [&](Value d) { return polynomial(d, a + 2, -(a + 3), 0, 1); };
  auto outer = [&](Value d) { return polynomial(d, a, -5 * a, 8 * a, -4 * a); };
  return {{t.sub(low, 1.0), outer(t.add(f, 1.0))},
          {low, inner(f)},
          {t.add(low, 1.0), inner(t.sub(1, f))},
          {t.add(low, 2.0), outer(t.sub(2, f))}};
}

/// The taps' products over all dimensions, added up.
static Value sumTaps(Emitter &t, Sampler &sampler,
                     ArrayRef<SmallVector<Tap>> taps) {
  Value total;
  size_t combinations = 1;
  for (const SmallVector<Tap> &along : taps)
    combinations *= along.size();
  for (size_t i = 0; i < combinations; ++i) {
    size_t rest = i;
    SmallVector<Value> positions;
    Value weight;
    for (const SmallVector<Tap> &along : taps) {
      const Tap &tap = along[rest % along.size()];
      rest /= along.size();
      positions.push_back(tap.position);
      weight = weight ? t.mul(weight, tap.weight) : tap.weight;
    }
    Value taken = sampler.read(positions);
    if (!taken || !weight)
      return {};
    taken = t.mul(taken, t.unsqueeze(weight, rankOf(weight)));
    total = total ? t.add(total, taken) : taken;
  }
  return total;
}

static void lowerGridSampler(OpCall &op) {
  Value x = op.tensor("input"), grid = op.tensor("grid");
  int64_t mode = op.integer("interpolation_mode", 0),
          padding = op.integer("padding_mode", 0);
  bool alignCorners = op.flag("align_corners");
  if (op.bad())
    return;
  int64_t spatial = rankOf(x) - 2;
  if (spatial < 2 || spatial > 3 || rankOf(grid) != rankOf(x) ||
      shapeOf(grid).back() != spatial || mode < 0 || mode > 2 || padding < 0 ||
      padding > 2 || (mode == 2 && spatial != 2))
    return op.unsupported("this form of grid_sample");
  Dims sizes = shapeOf(x).drop_front(2);
  Shape places(shapeOf(grid).drop_back());
  Sampler sampler(op.t, x, sizes, static_cast<Padding>(padding), alignCorners);
  SmallVector<SmallVector<Tap>> taps;
  for (int64_t k = 0; k < spatial; ++k) {
    // The last dimension's coordinate comes first.
    Value place = op.t.reshape(
        op.t.at(grid, spatial + 1, spatial - 1 - k),
        {places[0], countOf(places) / std::max<int64_t>(places[0], 1)});
    place = sampler.place(place, k);
    if (static_cast<Interpolation>(mode) == Interpolation::Cubic) {
      taps.push_back(cubicTaps(op.t, place));
      for (Tap &tap : taps.back())
        tap.position = sampler.bounded(tap.position, k);
      continue;
    }
    place = sampler.bounded(place, k);
    if (static_cast<Interpolation>(mode) == Interpolation::Linear) {
      taps.push_back(linearTaps(op.t, place));
      continue;
    }
    Value nearest = op.t.unary<RoundNearestEvenOp>(place);
    taps.push_back({{nearest, nearest ? op.t.like(nearest, 1) : nearest}});
  }
  Value sampled = sumTaps(op.t, sampler, taps);
  if (!sampled)
    return;
  places.push_back(shapeOf(x)[1]);
  Shape toSecond{0, static_cast<int64_t>(places.size()) - 1};
  for (int64_t k = 0; k < spatial; ++k)
    toSecond.push_back(k + 1);
  op.result(op.t.transpose(op.t.reshape(sampled, places), toSecond));
}

/// [batch, sizes..., dimensions]: each place of the result times theta.
static void lowerAffineGrid(OpCall &op) {
  Value theta = op.tensor("theta");
  Shape size = op.integers("size");
  bool alignCorners = op.flag("align_corners");
  if (op.bad())
    return;
  int64_t spatial = static_cast<int64_t>(size.size()) - 2;
  if (spatial < 2 || rankOf(theta) != 3 || shapeOf(theta)[2] != spatial + 1)
    return op.unsupported("this form of affine_grid");
  Dims sizes = ArrayRef(size).drop_front(2);
  int64_t places = countOf(sizes);
  SmallVector<Value> columns;
  for (int64_t k = spatial - 1; k >= 0; --k) {
    double n = static_cast<double>(sizes[k]);
    Value i = op.t.iota(sizes, elementOf(theta), k);
    Value place = !alignCorners  ? op.t.add(op.t.mul(i, 2 / n), 1 / n - 1)
                  : sizes[k] > 1 ? op.t.add(op.t.mul(i, 2 / (n - 1)), -1.0)
                                 : op.t.mul(i, 0.0);
    columns.push_back(op.t.reshape(place, {places, 1}));
  }
  columns.push_back(op.t.constant({places, 1}, elementOf(theta), 1));
  Value grid =
      op.t.dot(theta, op.t.concat(columns, 1), {}, {}, {2}, {1}); // [N, d, P]
  op.result(op.t.reshape(op.t.transpose(grid, {0, 2, 1}), op.resultShape()));
}

void addGridSampling(OperatorTable &table) {
  table.add({"grid_sampler", "grid_sampler_2d", "grid_sampler_3d"},
            lowerGridSampler);
  table.add("affine_grid_generator", lowerAffineGrid);
}

} // namespace lockstep::aten
