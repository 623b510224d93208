//===- Domain.h - The iteration space of a loop kernel ----------*- C++ -*-===//
//
// A kernel's domain is a number of elements and, where it reduces, which of its
// dimensions are reduced, up to reshape: the shape is brought to a normal form
// in which neighbours are alternately reduced and kept. A value's level in it:
//   Element   one value per element of the domain, in row-major order
//   Row       one value per combination of the kept dimensions, in row-major
//   order
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_FUSE_DOMAIN_H
#define LOCKSTEP_COMPILER_FUSE_DOMAIN_H

#include "dialects/plan/StridedView.h"

namespace lockstep::fuse {

enum class Level { Element, Row };

struct Domain {
  struct Dim {
    int64_t size;
    bool reduced;
    bool operator==(const Dim &other) const {
      return size == other.size && reduced == other.reduced;
    }
  };

  int64_t elements = 0;
  /// Empty as long as nothing is reduced.
  llvm::SmallVector<Dim> dims;

  static Domain getPointwise(int64_t elements) { return {elements, {}}; }
  static Domain getReduction(llvm::ArrayRef<int64_t> shape,
                             llvm::ArrayRef<int64_t> reducedDims);

  bool reduces() const { return !dims.empty(); }
  /// Combinations of the kept dimensions; 1 without reduction.
  int64_t getRows() const;
  /// True if values after a reduce may be used at the element level: the
  /// reduced dimension is innermost (a row is read at once), and there are
  /// enough rows to run in parallel. Otherwise (column sums) the kernel passes
  /// over its elements once.
  bool allowsSecondPass() const;

  /// Both as one; nothing if they disagree.
  static std::optional<Domain> unite(const Domain &a, const Domain &b);
  /// True if `view`, of the domain's shape or a reshape of it, reads row-level
  /// values as broadcasting along the reduced dimensions does.
  bool isRowBroadcast(const plan::StridedView &view) const;
};

/// True if the view reads all of a row-major tensor in order.
bool isWhole(const plan::StridedView &view);

} // namespace lockstep::fuse

#endif
