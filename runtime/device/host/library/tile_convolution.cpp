#include "runtime/device/host/library/tile_convolution.h"
#include "runtime/device/host/library/strided.h"
#include "runtime/device/host/library/tile_product.h"
#include "runtime/device/host/parallel.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace lockstep::runtime {

namespace {

int64_t product(const Ints &sizes, size_t from = 0) {
  return std::accumulate(sizes.begin() + long(from), sizes.end(), int64_t(1),
                         std::multiplies<int64_t>());
}

Ints spatialOf(const Ints &shape) { return {shape.begin() + 2, shape.end()}; }

/// The offsets of all positions of a box, row-major.
Offsets tableOf(const Ints &sizes, const Ints &strides) {
  std::vector<int32_t> values = {0};
  for (size_t d = 0; d < sizes.size(); ++d) {
    std::vector<int32_t> next;
    next.reserve(values.size() * size_t(sizes[d]));
    for (int32_t value : values)
      for (int64_t i = 0; i < sizes[d]; ++i)
        next.push_back(value + int32_t(i * strides[d]));
    values = std::move(next);
  }
  return Offsets(std::move(values));
}

Ints joined(Ints first, const Ints &rest) {
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

Ints scaled(Ints values, const Ints &factors) {
  for (size_t d = 0; d < values.size(); ++d)
    values[d] *= factors[d];
  return values;
}

/// An operand [N, C, spatial...] with a zero border.
class Bordered {
public:
  Bordered() = default;
  Bordered(Ints shape, Ints low, const Ints &high)
      : shape(std::move(shape)), low(std::move(low)), full(this->shape) {
    for (size_t d = 0; d < this->low.size(); ++d)
      full[2 + d] += this->low[d] + high[d];
    strides = denseStrides(full);
  }

  int64_t sampleStride() const { return strides[0]; }
  int64_t channelStride() const { return strides[1]; }
  Ints spatialStrides() const { return spatialOf(strides); }
  int64_t elements() const { return product(full); }

  /// The operand with its border: itself without one, else a copy that the next
  /// call replaces.
  const float *fill(const float *operand) const {
    if (full == shape)
      return operand;
    float *copy = threadScratchOf<float>(5, elements());
    parallelFor(shape[0] * shape[1], [&](int64_t plane) {
      fillPlane(operand + plane * product(shape, 2),
                copy + plane * channelStride());
    });
    return copy;
  }

private:
  void fillPlane(const float *from, float *to) const {
    std::memset(to, 0, size_t(channelStride()) * sizeof(float));
    int64_t width = shape.back(), rows = product(shape, 2) / width;
    for (int64_t row = 0; row < rows; ++row) {
      int64_t rest = row, at = low.back();
      for (size_t d = low.size() - 1; d-- > 0; rest /= shape[2 + d])
        at += (rest % shape[2 + d] + low[d]) * strides[2 + d];
      std::memcpy(to + at, from + row * width, size_t(width) * sizeof(float));
    }
  }

  Ints shape, low, full, strides;
};

/// A product and where its operands begin. Factor b is the bordered one.
struct Part {
  TileProduct product;
  int64_t aBegin = 0, bBegin = 0, cBegin = 0;
};

class TileConvolution final : public LibraryKernel {
public:
  TileConvolution(const ConvolutionShape &shape, ConvolutionPass pass)
      : s(shape), pass(pass) {
    if (pass == ConvolutionPass::Forward)
      planForward();
    else if (pass == ConvolutionPass::InputGradient)
      planInputGradient();
    else
      planFilterGradient();
  }

  std::vector<int64_t> operandBytes() const override;
  Status run(void *const *operands) override;

  int64_t borderedElements() const { return bordered.elements(); }

private:
  void planForward();
  void planFilterGradient();
  void planInputGradient();
  void planPhase(const Ints &phase, const Ints &border);
  void setBias(const float *bias, float *y) const;

  /// Where the windows of one output position and of one (channel, tap) lie in
  /// the bordered input.
  Offsets outputs() const {
    return tableOf(joined({s.y[0]}, spatialOf(s.y)),
                   joined({bordered.sampleStride()},
                          scaled(bordered.spatialStrides(), s.strides)));
  }
  Offsets taps() const {
    return tableOf(joined({s.w[1]}, spatialOf(s.w)),
                   joined({bordered.channelStride()},
                          scaled(bordered.spatialStrides(), s.dilation)));
  }
  /// Positions (n, p) of a dense tensor [N, C, spatial].
  static Offsets positions(const Ints &shape) {
    int64_t places = lockstep::runtime::product(shape, 2);
    return tableOf({shape[0], places}, {shape[1] * places, 1});
  }

  ConvolutionShape s;
  ConvolutionPass pass;
  Bordered bordered;
  std::vector<Part> parts;
  bool leavesGaps = false; ///< inputs that no window reads have gradient 0
};

std::vector<int64_t> TileConvolution::operandBytes() const {
  int64_t x = bytesOf(s.x), w = bytesOf(s.w), y = bytesOf(s.y);
  if (pass == ConvolutionPass::InputGradient)
    return {y, w, x};
  if (pass == ConvolutionPass::FilterGradient)
    return {x, y, w};
  if (s.bias)
    return {x, w, 4 * s.y[1], y};
  return {x, w, y};
}

/// y[o, (n, p)] = sum over (c, tap) of w[o, (c, tap)] x[(c, tap), (n, p)].
void TileConvolution::planForward() {
  bordered = Bordered(s.x, s.low, s.high);
  int64_t terms = product(s.w, 1);
  TileProduct p{Offsets::strided(s.w[0], terms),
                Offsets::strided(terms, 1),
                outputs(),
                taps(),
                Offsets::strided(s.y[1], product(s.y, 2)),
                positions(s.y)};
  p.beta = s.bias ? 1 : 0;
  parts.push_back({std::move(p)});
}

/// dw[o, (c, tap)] = sum over (n, p) of dy[o, (n, p)] x[(n, p), (c, tap)].
void TileConvolution::planFilterGradient() {
  bordered = Bordered(s.x, s.low, s.high);
  int64_t terms = product(s.w, 1);
  parts.push_back({TileProduct{
      Offsets::strided(s.y[1], product(s.y, 2)), positions(s.y), taps(),
      outputs(), Offsets::strided(s.w[0], terms), Offsets::strided(terms, 1)}});
}

/// The taps of one dimension that reach inputs i with (i + low) % stride ==
/// phase. There i + low = stride * u + phase, and tap k reads output u - e.
struct PhaseTaps {
  std::vector<int64_t> taps;   ///< in the order of falling e
  std::vector<int64_t> before; ///< e
  int64_t firstInput = 0, inputs = 0, firstU = 0;

  PhaseTaps(const ConvolutionShape &s, size_t d, int64_t phase) {
    int64_t stride = s.strides[d];
    for (int64_t k = s.w[2 + d]; k-- > 0;)
      if (k * s.dilation[d] % stride == phase) {
        taps.push_back(k);
        before.push_back((k * s.dilation[d] - phase) / stride);
      }
    firstInput = phase - s.low[d] % stride;
    firstInput += firstInput < 0 ? stride : 0;
    inputs =
        std::max<int64_t>(0, (s.x[2 + d] - firstInput + stride - 1) / stride);
    firstU = (firstInput + s.low[d] - phase) / stride;
  }
  /// Zeros needed in front of the outputs, and behind `outputs` of them.
  int64_t low() const {
    return taps.empty() ? 0 : std::max<int64_t>(0, before.front() - firstU);
  }
  int64_t high(int64_t outputs) const {
    return taps.empty() ? 0
                        : std::max<int64_t>(0, firstU + inputs - before.back() -
                                                   outputs);
  }
};

/// dx[c, (n, i)] = sum over (o, tap) of w[c, (o, tap)] dy[(o, tap), (n, i)],
/// one product for each phase of the strides: the inputs that the same taps
/// reach.
void TileConvolution::planInputGradient() {
  Ints low(s.spatial(), 0), high(s.spatial(), 0);
  for (size_t d = 0; d < s.spatial(); ++d)
    for (int64_t phase = 0; phase < s.strides[d]; ++phase) {
      PhaseTaps taps(s, d, phase);
      low[d] = std::max(low[d], taps.low());
      high[d] = std::max(high[d], taps.high(s.y[2 + d]));
    }
  bordered = Bordered(s.y, low, high);
  for (int64_t index = 0; index < product(s.strides); ++index) {
    Ints phase(s.spatial());
    int64_t rest = index;
    for (size_t d = s.spatial(); d-- > 0; rest /= s.strides[d])
      phase[d] = rest % s.strides[d];
    planPhase(phase, low);
  }
}

void TileConvolution::planPhase(const Ints &phase, const Ints &border) {
  Ints strides = bordered.spatialStrides(), xStrides = denseStrides(s.x),
       wStrides = denseStrides(s.w);
  // Boxes of inputs and taps; the tap dimensions are tables of their own, since
  // the filter is walked against the outputs.
  Ints inputs = {s.x[0]}, inputStrides = {bordered.sampleStride()},
       gradientStrides = {xStrides[0]};
  Ints tapSizes = {s.w[0]}, filterStrides = {wStrides[0]},
       outputStrides = {bordered.channelStride()};
  Part part;
  for (size_t d = 0; d < s.spatial(); ++d) {
    PhaseTaps taps(s, d, phase[d]);
    if (!taps.inputs)
      return;
    if (taps.taps.empty()) {
      leavesGaps = true;
      return;
    }
    inputs.push_back(taps.inputs);
    inputStrides.push_back(strides[d]);
    gradientStrides.push_back(s.strides[d] * xStrides[2 + d]);
    // Taps of a phase are equally far apart, and so are the outputs they read.
    int64_t count = int64_t(taps.taps.size());
    tapSizes.push_back(count);
    filterStrides.push_back(
        count > 1 ? (taps.taps[1] - taps.taps[0]) * wStrides[2 + d] : 0);
    outputStrides.push_back(
        count > 1 ? (taps.before[0] - taps.before[1]) * strides[d] : 0);
    part.aBegin += taps.taps.front() * wStrides[2 + d];
    part.bBegin += (taps.firstU + border[d] - taps.before.front()) * strides[d];
    part.cBegin += taps.firstInput * xStrides[2 + d];
  }
  part.product = {
      Offsets::strided(s.w[1], wStrides[1]), tableOf(tapSizes, filterStrides),
      tableOf(inputs, inputStrides),         tableOf(tapSizes, outputStrides),
      Offsets::strided(s.x[1], xStrides[1]), tableOf(inputs, gradientStrides)};
  parts.push_back(std::move(part));
}

void TileConvolution::setBias(const float *bias, float *y) const {
  int64_t places = product(s.y, 2);
  parallelFor(s.y[0] * s.y[1], [&](int64_t plane) {
    std::fill_n(y + plane * places, places, bias[plane % s.y[1]]);
  });
}

Status TileConvolution::run(void *const *operands) {
  auto read = [&](size_t i) { return static_cast<const float *>(operands[i]); };
  bool isForward = pass == ConvolutionPass::Forward;
  auto *result = static_cast<float *>(operands[isForward && s.bias ? 3 : 2]);
  const float *a = read(1); // w, w, dy
  const float *b = bordered.fill(read(0));
  if (isForward && s.bias)
    setBias(read(2), result);
  if (leavesGaps)
    std::memset(result, 0, size_t(bytesOf(s.x)));
  for (const Part &part : parts)
    part.product.run(a + part.aBegin, b + part.bBegin, result + part.cBegin);
  return Status::success();
}

/// Whether tiles are faster than oneDNN, which changes the layout of the filter
/// before (or after) it multiplies.
bool areTilesFaster(const ConvolutionShape &s, ConvolutionPass pass) {
  int64_t places = s.y[0] * product(s.y, 2), terms = product(s.w, 1);
  double perFilterElement = 0.4; // ns
  double library = vectorNanoseconds(s.w[0], places, terms) +
                   perFilterElement * double(product(s.w));
  if (pass == ConvolutionPass::Forward)
    return tileNanoseconds(s.w[0], places, terms) < library;
  if (pass == ConvolutionPass::FilterGradient)
    return tileNanoseconds(s.w[0], terms, places) < library;
  // The filter is gathered along its second dimension.
  int64_t phases = product(s.strides);
  double perGathered = 1;
  return double(phases) *
             tileNanoseconds(s.w[1], s.x[0] * product(s.x, 2) / phases,
                             s.w[0] * product(s.w, 2) / phases, perGathered) <
         library;
}

bool suitsTiles(const ConvolutionShape &s) {
  auto isNegative = [](int64_t value) { return value < 0; };
  return hasTiles() && s.groups == 1 &&
         std::none_of(s.low.begin(), s.low.end(), isNegative) &&
         std::none_of(s.high.begin(), s.high.end(), isNegative);
}

} // namespace

std::unique_ptr<LibraryKernel>
createTileConvolution(const ConvolutionShape &shape, ConvolutionPass pass) {
  constexpr int64_t most = (int64_t(1) << 31) - 1; // of an offset
  if (!suitsTiles(shape) || !areTilesFaster(shape, pass) ||
      std::max({bytesOf(shape.x), bytesOf(shape.w), bytesOf(shape.y)}) > most)
    return nullptr;
  auto kernel = std::make_unique<TileConvolution>(shape, pass);
  if (kernel->borderedElements() > most)
    return nullptr;
  return kernel;
}

} // namespace lockstep::runtime
