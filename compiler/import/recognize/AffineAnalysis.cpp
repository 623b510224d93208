#include "compiler/import/recognize/AffineAnalysis.h"

#include "compiler/import/recognize/ConstantFold.h"
#include "compiler/import/recognize/Matching.h"
#include "mlir/IR/Matchers.h"

#include <cmath>

using namespace mlir;
using namespace lockstep::aten;
using namespace lockstep::train;

namespace lockstep::recognize {

/// Values up to this size are computed where no rule applies.
static constexpr int64_t kMaxComputed = int64_t(1) << 20;
/// Bounds the walk over a graph in which values are used many times.
static constexpr int kMaxSteps = 4096;

int64_t Affine::singleCoordinate() const {
  int64_t found = -1;
  for (auto [i, c] : llvm::enumerate(coefficients)) {
    if (c == 0)
      continue;
    if (c != 1 || found >= 0)
      return -1;
    found = i;
  }
  return found;
}

static Affine plus(const Affine &a, const Affine &b, int64_t factor) {
  Affine result = a;
  for (auto [c, d] : llvm::zip_equal(result.coefficients, b.coefficients))
    c += factor * d;
  result.constant += factor * b.constant;
  return result;
}

static Affine times(const Affine &a, int64_t factor) {
  Affine result = a;
  for (int64_t &c : result.coefficients)
    c *= factor;
  result.constant *= factor;
  return result;
}

IndexAnalysis::IndexAnalysis(Value root) : root(root), rank(rankOf(root)) {
  for (int64_t i = 0; i < rank; ++i) {
    identity.push_back(constant(0));
    if (shapeOf(root)[i] != 1)
      identity.back().coefficients[i] = 1;
  }
}

//===----------------------------------------------------------------------===//
// Positions
//===----------------------------------------------------------------------===//

/// The position in shape `from` of the element at `at` in shape `to`. Runs of
/// dimensions with one product correspond.
std::optional<IndexAnalysis::Position>
IndexAnalysis::reshaped(Dims from, Dims to, const Position &at) {
  Position result;
  size_t i = 0, k = 0;
  while (i < from.size() || k < to.size()) {
    size_t i0 = i, k0 = k;
    int64_t left = i < from.size() ? from[i++] : 1,
            right = k < to.size() ? to[k++] : 1;
    while (left != right) {
      if (left < right && i < from.size())
        left *= from[i++];
      else if (right < left && k < to.size())
        right *= to[k++];
      else
        return std::nullopt;
    }
    // The offset within the run.
    Affine flat = constant(0);
    for (size_t d = k0; d < k; ++d)
      flat = plus(times(flat, to[d]), at[d], 1);
    SmallVector<size_t> wide;
    for (size_t d = i0; d < i; ++d)
      if (from[d] != 1)
        wide.push_back(d);
    if (wide.size() > 1 && !flat.isConstant()) {
      // Dimensions that are only regrouped around sizes of 1 correspond one by
      // one.
      SmallVector<size_t> others;
      for (size_t d = k0; d < k; ++d)
        if (to[d] != 1)
          others.push_back(d);
      if (others.size() != wide.size())
        return std::nullopt;
      for (auto [a, b] : llvm::zip_equal(wide, others))
        if (from[a] != to[b])
          return std::nullopt;
      size_t next = 0;
      for (size_t d = i0; d < i; ++d)
        result.push_back(from[d] == 1 ? constant(0) : at[others[next++]]);
      continue;
    }
    int64_t rest = flat.constant;
    SmallVector<Affine> digits;
    for (size_t d = i; d-- > i0;) {
      bool takesAll = wide.size() <= 1;
      digits.push_back(from[d] == 1 ? constant(0)
                       : takesAll   ? flat
                                    : constant(rest % from[d]));
      rest /= from[d] ? from[d] : 1;
    }
    result.append(digits.rbegin(), digits.rend());
  }
  return result;
}

std::optional<std::pair<Value, IndexAnalysis::Position>>
IndexAnalysis::source(Operation *op, const Position &at) {
  Value operand = op->getOperand(0);
  Position from;
  if (auto broadcast = dyn_cast<BroadcastInDimOp>(op)) {
    for (auto [i, dim] : llvm::enumerate(broadcast.getDimensions()))
      from.push_back(shapeOf(operand)[i] == 1 ? constant(0) : at[dim]);
    return std::pair(operand, from);
  }
  if (isa<ReshapeOp>(op)) {
    std::optional<Position> position =
        reshaped(shapeOf(operand), shapeOf(op->getResult(0)), at);
    return position ? std::optional(std::pair(operand, *position))
                    : std::nullopt;
  }
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    from.resize(at.size(), constant(0));
    for (auto [i, dim] : llvm::enumerate(transpose.getPermutation()))
      from[dim] = at[i];
    return std::pair(operand, from);
  }
  if (auto slice = dyn_cast<SliceOp>(op)) {
    for (auto [i, index] : llvm::enumerate(at))
      from.push_back(
          plus(constant(slice.getStarts()[i]), index, slice.getStrides()[i]));
    return std::pair(operand, from);
  }
  if (auto reverse = dyn_cast<ReverseOp>(op)) {
    from = at;
    for (int64_t dim : reverse.getDimensions())
      from[dim] = plus(constant(shapeOf(operand)[dim] - 1), at[dim], -1);
    return std::pair(operand, from);
  }
  if (isa<StopGradientOp>(op))
    return std::pair(operand, at);
  if (auto gather = dyn_cast<GatherOp>(op)) {
    if (gather.getIndices().empty())
      return std::nullopt;
    int64_t batch = gather.getBatchDims(), own = rankOf(gather.getIndices()[0]);
    Position indexPosition(at.begin(), at.begin() + own);
    size_t next = own;
    for (int64_t dim = 0; dim < rankOf(operand); ++dim) {
      auto found = llvm::find(gather.getDims(), dim);
      if (dim < batch) {
        from.push_back(at[dim]);
      } else if (found == gather.getDims().end()) {
        from.push_back(at[next++]);
      } else {
        std::optional<Affine> index =
            number(gather.getIndices()[found - gather.getDims().begin()],
                   indexPosition);
        if (!index)
          return std::nullopt;
        from.push_back(*index);
      }
    }
    return std::pair(operand, from);
  }
  if (auto concat = dyn_cast<ConcatenateOp>(op)) {
    from = at;
    int64_t dim = concat.getDimension(), start = 0;
    if (!at[dim].isConstant())
      return std::nullopt;
    for (Value input : concat.getInputs()) {
      int64_t size = shapeOf(input)[dim];
      if (at[dim].constant < start + size) {
        from[dim] = constant(at[dim].constant - start);
        return std::pair(input, from);
      }
      start += size;
    }
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

/// Computes the value, sees whether it is affine in its own position, and
/// composes.
std::optional<Affine> IndexAnalysis::computed(Value value, const Position &at) {
  auto [entry, isNew] = own.try_emplace(value, std::nullopt);
  if (isNew) {
    std::optional<Affine> found;
    int64_t valueRank = rankOf(value);
    std::optional<HostTensor> tensor =
        countOf(shapeOf(value)) <= kMaxComputed
            ? evaluateConstant(value, kMaxComputed)
            : std::nullopt;
    if (tensor && tensor->getNumElements() > 0) {
      std::vector<double> elements = tensor->toDoubles();
      auto strides = getRowMajorStrides(shapeOf(value));
      Affine guess{Shape(valueRank, 0), static_cast<int64_t>(elements[0])};
      for (int64_t dim = 0; dim < valueRank; ++dim)
        if (shapeOf(value)[dim] > 1)
          guess.coefficients[dim] =
              static_cast<int64_t>(elements[strides[dim]] - elements[0]);
      bool fits = std::abs(elements[0]) < 1e15;
      for (size_t flat = 0; fits && flat < elements.size(); ++flat) {
        double expected = static_cast<double>(guess.constant);
        for (int64_t dim = 0; dim < valueRank; ++dim)
          expected += static_cast<double>(guess.coefficients[dim] *
                                          (static_cast<int64_t>(flat) /
                                           strides[dim] % shapeOf(value)[dim]));
        fits = elements[flat] == expected;
      }
      if (fits)
        found = guess;
    }
    entry->second = found;
  }
  if (!entry->second)
    return std::nullopt;
  Affine result = constant(entry->second->constant);
  for (auto [coefficient, index] :
       llvm::zip_equal(entry->second->coefficients, at))
    result = plus(result, index, coefficient);
  return result;
}

std::optional<Affine> IndexAnalysis::arithmetic(Operation *op,
                                                const Position &at) {
  if (isa<NegateOp>(op)) {
    std::optional<Affine> a = number(op->getOperand(0), at);
    return a ? std::optional(times(*a, -1)) : std::nullopt;
  }
  if (!isa<AddOp, SubtractOp, MultiplyOp, FloorDivideOp, DivideOp, ModuloOp>(
          op))
    return std::nullopt;
  std::optional<Affine> a = number(op->getOperand(0), at),
                        b = number(op->getOperand(1), at);
  if (!a || !b)
    return std::nullopt;
  if (isa<AddOp>(op))
    return plus(*a, *b, 1);
  if (isa<SubtractOp>(op))
    return plus(*a, *b, -1);
  if (isa<MultiplyOp>(op))
    return b->isConstant()   ? std::optional(times(*a, b->constant))
           : a->isConstant() ? std::optional(times(*b, a->constant))
                             : std::nullopt;
  if (!a->isConstant() || !b->isConstant() || b->constant <= 0 ||
      a->constant < 0)
    return std::nullopt;
  if (isa<ModuloOp>(op))
    return constant(a->constant % b->constant);
  bool exact = isa<IntegerType>(elementOf(op->getResult(0))) ||
               isa<FloorDivideOp>(op) || a->constant % b->constant == 0;
  return exact ? std::optional(constant(a->constant / b->constant))
               : std::nullopt;
}

std::optional<Affine> IndexAnalysis::number(Value value, const Position &at) {
  if (++steps > kMaxSteps)
    return std::nullopt;
  Operation *op = value.getDefiningOp();
  if (!op)
    return std::nullopt;
  if (std::optional<double> splat = splatOf(value))
    return std::floor(*splat) == *splat && std::abs(*splat) < 1e15
               ? std::optional(constant(static_cast<int64_t>(*splat)))
               : std::nullopt;
  if (auto iota = dyn_cast<IotaOp>(op))
    return at[iota.getDimension()];
  if (op->getNumOperands() > 0)
    if (auto from = source(op, at))
      if (std::optional<Affine> result = number(from->first, from->second))
        return result;
  if (auto convert = dyn_cast<ConvertOp>(op);
      convert && !elementOf(convert.getOperand()).isInteger(1))
    if (!isFloat(convert.getOperand()) || isFloat(value))
      return number(convert.getOperand(), at);
  if (std::optional<Affine> result = arithmetic(op, at))
    return result;
  // A condition as a number.
  if (auto convert = dyn_cast<ConvertOp>(op);
      convert && elementOf(convert.getOperand()).isInteger(1))
    if (std::optional<Band> band = condition(convert.getOperand(), at);
        band && (band->isAll() || band->isNone()))
      return constant(band->isAll());
  return computed(value, at);
}

//===----------------------------------------------------------------------===//
// Conditions
//===----------------------------------------------------------------------===//

static Band bandOf(CompareDirection direction, int64_t sign, int64_t c) {
  // sign * (column - row) + c <direction> 0.
  Band band;
  bool less = direction == CompareDirection::LT ||
              direction == CompareDirection::LE,
       strict = direction == CompareDirection::LT ||
                direction == CompareDirection::GT;
  if (direction == CompareDirection::EQ)
    return {-sign * c, -sign * c};
  // d < -c, d <= -c, d > -c, d >= -c for sign 1; mirrored for -1.
  int64_t bound = -sign * c;
  if (less == (sign > 0))
    band.high = bound - strict;
  else
    band.low = bound + strict;
  return band;
}

static bool holds(CompareDirection direction, double a, double b) {
  switch (direction) {
  case CompareDirection::EQ:
    return a == b;
  case CompareDirection::NE:
    return a != b;
  case CompareDirection::LT:
    return a < b;
  case CompareDirection::LE:
    return a <= b;
  case CompareDirection::GT:
    return a > b;
  case CompareDirection::GE:
    return a >= b;
  }
  return false;
}

static std::optional<Band> complement(const Band &band) {
  if (band.isAll())
    return Band::none();
  if (band.isNone())
    return Band::all();
  if (band.low <= -Band::kUnbounded)
    return Band{band.high + 1, Band::kUnbounded};
  if (band.high >= Band::kUnbounded)
    return Band{-Band::kUnbounded, band.low - 1};
  return std::nullopt;
}

static Band intersect(const Band &a, const Band &b) {
  Band result{std::max(a.low, b.low), std::min(a.high, b.high)};
  return result.isNone() ? Band::none() : result;
}

static std::optional<Band> unite(const Band &a, const Band &b) {
  if (a.isNone() || b.isAll())
    return b;
  if (b.isNone() || a.isAll())
    return a;
  if (std::max(a.low, b.low) > std::min(a.high, b.high) + 1)
    return std::nullopt;
  return Band{std::min(a.low, b.low), std::max(a.high, b.high)};
}

std::optional<bool>
IndexAnalysis::holdsEverywhere(CompareDirection direction,
                               const Affine &difference) const {
  int64_t low = difference.constant, high = difference.constant;
  for (auto [coefficient, size] :
       llvm::zip_equal(difference.coefficients, shapeOf(root)))
    (coefficient < 0 ? low : high) += coefficient * (size - 1);
  auto at = [&](int64_t value) {
    return holds(direction, static_cast<double>(value), 0);
  };
  // A difference of one sign keeps the answer; so does one that an ordering
  // puts on one side of 0 at both ends.
  bool isOrder =
      direction != CompareDirection::EQ && direction != CompareDirection::NE;
  if (at(low) == at(high) && (isOrder || low > 0 || high < 0))
    return at(low);
  return std::nullopt;
}

std::optional<Band> IndexAnalysis::compare(Operation *op, const Position &at) {
  auto comparison = cast<CompareOp>(op);
  CompareDirection direction = comparison.getDirection();
  std::optional<Affine> a = number(comparison.getLhs(), at),
                        b = a ? number(comparison.getRhs(), at) : std::nullopt;
  if (a && b) {
    Affine d = plus(*a, *b, -1);
    if (d.isConstant())
      return holds(direction, static_cast<double>(d.constant), 0)
                 ? Band::all()
                 : Band::none();
    if (std::optional<bool> always = holdsEverywhere(direction, d))
      return *always ? Band::all() : Band::none();
    if (rank < 2 || direction == CompareDirection::NE)
      return std::nullopt;
    int64_t row = d.coefficients[rank - 2], column = d.coefficients[rank - 1];
    for (int64_t i = 0; i < rank - 2; ++i)
      if (d.coefficients[i])
        return std::nullopt;
    if (row != -column || std::abs(row) != 1)
      return std::nullopt;
    return bandOf(direction, column, d.constant);
  }
  // A two-valued tensor against a number.
  std::optional<TwoValued> left = twoValued(comparison.getLhs(), at);
  std::optional<double> right = splatOf(comparison.getRhs());
  if (!left || !right)
    return std::nullopt;
  bool in = holds(direction, left->in, *right),
       out = holds(direction, left->out, *right);
  if (in == out)
    return in ? Band::all() : Band::none();
  return in ? std::optional(left->band) : complement(left->band);
}

std::optional<Band> IndexAnalysis::condition(Value value, const Position &at) {
  if (++steps > kMaxSteps)
    return std::nullopt;
  Operation *op = value.getDefiningOp();
  if (!op)
    return std::nullopt;
  if (std::optional<double> splat = splatOf(value))
    return *splat != 0 ? Band::all() : Band::none();
  if (isa<CompareOp>(op))
    if (std::optional<Band> band = compare(op, at))
      return band;
  if (isa<AndOp, OrOp>(op)) {
    std::optional<Band> a = condition(op->getOperand(0), at),
                        b = condition(op->getOperand(1), at);
    if (a && b)
      return isa<AndOp>(op) ? std::optional(intersect(*a, *b)) : unite(*a, *b);
    return std::nullopt;
  }
  if (isa<NotOp>(op)) {
    std::optional<Band> a = condition(op->getOperand(0), at);
    return a ? complement(*a) : std::nullopt;
  }
  if (auto convert = dyn_cast<ConvertOp>(op)) {
    if (elementOf(convert.getOperand()).isInteger(1))
      return condition(convert.getOperand(), at);
    if (std::optional<TwoValued> two = twoValued(convert.getOperand(), at);
        two && (two->in != 0) != (two->out != 0))
      return two->in != 0 ? std::optional(two->band) : complement(two->band);
  }
  if (auto select = dyn_cast<SelectOp>(op)) {
    std::optional<Band> p = condition(select.getPred(), at),
                        a = condition(select.getOnTrue(), at),
                        b = condition(select.getOnFalse(), at);
    std::optional<Band> notP = p ? complement(*p) : std::nullopt;
    if (!p || !a || !b)
      return std::nullopt;
    if (b->isNone())
      return intersect(*p, *a);
    if (a->isAll())
      return unite(*p, *b);
    return notP && a->isNone() ? std::optional(intersect(*notP, *b))
                               : std::nullopt;
  }
  if (op->getNumOperands() > 0)
    if (auto from = source(op, at))
      if (std::optional<Band> result = condition(from->first, from->second))
        return result;
  std::optional<Affine> truth = computed(value, at);
  return truth && truth->isConstant()
             ? std::optional(truth->constant ? Band::all() : Band::none())
             : std::nullopt;
}

std::optional<TwoValued> IndexAnalysis::twoValued(Value value,
                                                  const Position &at) {
  if (++steps > kMaxSteps)
    return std::nullopt;
  Operation *op = value.getDefiningOp();
  if (!op)
    return std::nullopt;
  if (std::optional<double> splat = splatOf(value))
    return TwoValued{Band::all(), *splat, *splat};
  if (auto convert = dyn_cast<ConvertOp>(op)) {
    if (!elementOf(convert.getOperand()).isInteger(1))
      return twoValued(convert.getOperand(), at);
    std::optional<Band> band = condition(convert.getOperand(), at);
    return band ? std::optional(TwoValued{*band, 1, 0}) : std::nullopt;
  }
  if (auto select = dyn_cast<SelectOp>(op)) {
    std::optional<Band> band = condition(select.getPred(), at);
    std::optional<TwoValued> a = twoValued(select.getOnTrue(), at),
                             b = twoValued(select.getOnFalse(), at);
    if (!band || !a || !b)
      return std::nullopt;
    if (a->in == a->out && b->in == b->out)
      return TwoValued{*band, a->in, b->in};
    // One band throughout: masked_fill of a mask that has the same shape.
    if ((a->in == a->out || a->band == *band) &&
        (b->in == b->out || b->band == *band))
      return TwoValued{*band, a->in, b->out};
    std::optional<Band> outside = complement(*band);
    if (outside && (a->in == a->out || a->band == *outside) &&
        (b->in == b->out || b->band == *outside))
      return TwoValued{*outside, b->in, a->out};
    return std::nullopt;
  }
  if (isa<AddOp, SubtractOp, MultiplyOp, MaximumOp, MinimumOp>(op)) {
    std::optional<TwoValued> a = twoValued(op->getOperand(0), at),
                             b = twoValued(op->getOperand(1), at);
    if (!a || !b)
      return std::nullopt;
    if (a->in == a->out)
      a->band = b->band;
    if (b->in == b->out)
      b->band = a->band;
    if (!(a->band == b->band))
      return std::nullopt;
    auto combine = [&](double x, double y) {
      return isa<AddOp>(op)        ? x + y
             : isa<SubtractOp>(op) ? x - y
             : isa<MultiplyOp>(op) ? x * y
             : isa<MaximumOp>(op)  ? std::max(x, y)
                                   : std::min(x, y);
    };
    return TwoValued{a->band, combine(a->in, b->in), combine(a->out, b->out)};
  }
  if (op->getNumOperands() > 0)
    if (auto from = source(op, at))
      return twoValued(from->first, from->second);
  return std::nullopt;
}

} // namespace lockstep::recognize
