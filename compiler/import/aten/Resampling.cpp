// Changing the size of images: nearest neighbours by repetition or a table of
// positions, linear and cubic interpolation as products with small matrices,
// one for each dimension.
#include "compiler/import/aten/Lowering.h"

#include <cmath>

using namespace mlir;

namespace lockstep::aten {

Value applyAlong(Emitter &t, Value x, int64_t dim, ArrayRef<double> matrix,
                 int64_t outSize);

/// Input positions per output position, for each spatial dimension.
static SmallVector<double> readScales(OpCall &op, Dims in, Dims out,
                                      bool alignCorners) {
  SmallVector<std::optional<double>> given(in.size());
  if (const pt2::Argument *factors = op.argument("scale_factors"))
    if (auto *list = factors->getIf<std::vector<double>>())
      for (size_t i = 0; i < std::min(list->size(), given.size()); ++i)
        given[i] = (*list)[i];
  StringRef names[] = {"scales_d", "scales_h", "scales_w"};
  for (size_t i = 0; i < in.size(); ++i) {
    StringRef name = in.size() == 1 ? "scales" : names[3 - in.size() + i];
    if (std::optional<double> scale = op.optionalReal(name))
      given[i] = scale;
  }
  op.ignore({"output_size", "size"});
  SmallVector<double> scales;
  for (size_t i = 0; i < in.size(); ++i) {
    if (alignCorners)
      scales.push_back(out[i] > 1 ? static_cast<double>(in[i] - 1) /
                                        static_cast<double>(out[i] - 1)
                                  : 0);
    else
      scales.push_back(given[i] && *given[i] > 0
                           ? 1 / *given[i]
                           : static_cast<double>(in[i]) /
                                 static_cast<double>(out[i]));
  }
  return scales;
}

static Value nearest(Emitter &t, Value x, int64_t dim, int64_t out,
                     double scale, bool exact) {
  int64_t in = shapeOf(x)[dim];
  if (!exact && in > 0 && out % in == 0 &&
      scale == static_cast<double>(in) / static_cast<double>(out)) {
    Shape wide(shapeOf(x)), merged(wide);
    wide.insert(wide.begin() + dim + 1, out / in);
    merged[dim] = out;
    return t.reshape(t.broadcastTo(t.unsqueeze(x, dim + 1), wide), merged);
  }
  Shape positions;
  for (int64_t i = 0; i < out; ++i) {
    float place = static_cast<float>(scale) *
                  (static_cast<float>(i) + (exact ? 0.5f : 0.0f));
    positions.push_back(
        std::min<int64_t>(static_cast<int64_t>(std::floor(place)), in - 1));
  }
  Value taken = t.gather(x, {t.table(positions)}, {dim}, 0);
  Shape permutation = llvm::to_vector(llvm::seq<int64_t>(1, rankOf(x)));
  permutation.insert(permutation.begin() + dim, 0);
  return taken ? t.transpose(taken, permutation) : taken;
}

static SmallVector<double> interpolationMatrix(int64_t in, int64_t out,
                                               double scale, bool alignCorners,
                                               bool cubic) {
  SmallVector<double> matrix(in * out, 0);
  auto put = [&](int64_t i, int64_t at, double weight) {
    matrix[i * in + std::clamp<int64_t>(at, 0, in - 1)] += weight;
  };
  for (int64_t i = 0; i < out; ++i) {
    double place = alignCorners ? scale * static_cast<double>(i)
                                : scale * (static_cast<double>(i) + 0.5) - 0.5;
    if (!cubic)
      place = std::max(place, 0.0);
    int64_t low = static_cast<int64_t>(std::floor(place));
    double f = place - static_cast<double>(low);
    if (!cubic) {
      put(i, low, 1 - f), put(i, low + 1, f);
      continue;
    }
    constexpr double a = -0.75;
    auto inner = [&](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
    auto outer = [&](double d) {
      return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
    };
    put(i, low - 1, outer(f + 1)), put(i, low, inner(f)),
        put(i, low + 1, inner(1 - f)), put(i, low + 2, outer(2 - f));
  }
  return matrix;
}

static void lowerUpsample(OpCall &op) {
  StringRef name = op.argument("self") ? "self" : "input";
  Value x = op.tensor(name);
  bool alignCorners = op.flag("align_corners"),
       exact = op.base.contains("exact"),
       isNearest = op.base.contains("nearest"),
       cubic = op.base.contains("bicubic");
  Shape result = op.resultShape();
  if (op.bad() || static_cast<int64_t>(result.size()) != rankOf(x) ||
      rankOf(x) < 3)
    return;
  Dims in = shapeOf(x).drop_front(2), out = ArrayRef(result).drop_front(2);
  SmallVector<double> scales = readScales(op, in, out, alignCorners);
  if (llvm::is_contained(in, 0) || llvm::is_contained(out, 0))
    return void(op.t.fail("an image without elements"));
  Type type = elementOf(x);
  x = op.t.toCompute(x);
  for (size_t i = 0; i < scales.size() && x; ++i) {
    int64_t dim = static_cast<int64_t>(i) + 2;
    if (in[i] == out[i] && scales[i] == 1)
      continue;
    x = isNearest ? nearest(op.t, x, dim, out[i], scales[i], exact)
                  : applyAlong(op.t, x, dim,
                               interpolationMatrix(in[i], out[i], scales[i],
                                                   alignCorners, cubic),
                               out[i]);
  }
  op.result(op.t.convert(x, type));
}

void addResampling(OperatorTable &table) {
  table.add({"upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d",
             "_upsample_nearest_exact1d", "_upsample_nearest_exact2d",
             "_upsample_nearest_exact3d", "upsample_linear1d",
             "upsample_bilinear2d", "upsample_trilinear3d",
             "upsample_bicubic2d"},
            lowerUpsample);
}

} // namespace lockstep::aten
