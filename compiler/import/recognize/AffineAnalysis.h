// What a tensor of numbers or truths is as a function of the position, without
// computing its elements.
//
// Exported graphs build masks and positions from counts: arange, comparisons,
// cumulative sums, advanced indexing. An IndexAnalysis follows a value
// backwards from a position whose coordinates are unknowns i0, i1, ... and
// finds integers that are affine in them, c + a0 i0 + a1 i1 + ..., and
// conditions of the form low <= i_column - i_row <= high (a Band: causal masks,
// sliding windows, all, none). A mask over T x T positions so costs nothing,
// whatever T is. Small values that only look complicated (a cumulative sum of
// zeros) are computed and checked element by element.
#ifndef LOCKSTEP_COMPILER_IMPORT_RECOGNIZE_AFFINEANALYSIS_H
#define LOCKSTEP_COMPILER_IMPORT_RECOGNIZE_AFFINEANALYSIS_H

#include "compiler/import/aten/Emitter.h"
#include "llvm/ADT/DenseMap.h"
#include <optional>

namespace lockstep::recognize {

/// constant + the sum of coefficients[d] * i_d.
struct Affine {
  aten::Shape coefficients;
  int64_t constant = 0;

  bool isConstant() const {
    return llvm::all_of(coefficients, [](int64_t c) { return c == 0; });
  }
  /// The only coordinate it depends on, with coefficient 1; -1 when it is
  /// otherwise.
  int64_t singleCoordinate() const;
};

/// low <= column - row <= high.
struct Band {
  static constexpr int64_t kUnbounded = int64_t(1) << 60;
  int64_t low = -kUnbounded, high = kUnbounded;
  bool isAll() const { return low <= -kUnbounded && high >= kUnbounded; }
  bool isNone() const { return low > high; }
  bool operator==(const Band &o) const {
    return low == o.low && high == o.high;
  }
  static Band all() { return {}; }
  static Band none() { return {1, 0}; }
};

/// Takes value `in` inside of the band and `out` elsewhere.
struct TwoValued {
  Band band;
  double in = 0, out = 0;
};

class IndexAnalysis {
public:
  /// Coordinates of a tensor of that rank; the last two are row and column of
  /// bands.
  explicit IndexAnalysis(mlir::Value root);

  /// The root itself.
  std::optional<Affine> number() { return number(root, identity); }
  std::optional<Band> condition() { return condition(root, identity); }
  std::optional<TwoValued> twoValued() { return twoValued(root, identity); }

private:
  using Position = llvm::SmallVector<Affine>;
  Affine constant(int64_t value) const { return {aten::Shape(rank, 0), value}; }
  std::optional<Affine> number(mlir::Value value, const Position &at);
  std::optional<Band> condition(mlir::Value value, const Position &at);
  std::optional<TwoValued> twoValued(mlir::Value value, const Position &at);
  /// Through an operation that only moves elements: where the element comes
  /// from.
  std::optional<std::pair<mlir::Value, Position>> source(mlir::Operation *op,
                                                         const Position &at);
  std::optional<Position> reshaped(aten::Dims from, aten::Dims to,
                                   const Position &at);
  std::optional<Affine> computed(mlir::Value value, const Position &at);
  std::optional<Band> compare(mlir::Operation *op, const Position &at);
  /// The truth of `difference (direction) 0` where it is the same at all
  /// positions of the root.
  std::optional<bool> holdsEverywhere(train::CompareDirection direction,
                                      const Affine &difference) const;
  std::optional<Affine> arithmetic(mlir::Operation *op, const Position &at);

  mlir::Value root;
  int64_t rank;
  Position identity;
  int steps = 0;
  /// Values computed element by element, as affine in their own position.
  llvm::DenseMap<mlir::Value, std::optional<Affine>> own;
};

} // namespace lockstep::recognize

#endif // LOCKSTEP_COMPILER_IMPORT_RECOGNIZE_AFFINEANALYSIS_H
