//===- ProductEpilogue.h - What a product's kernel does besides -*- C++ -*-===//
//
// A contraction kernel may hold, behind its dot_general, what a matrix product
// can do with its sums before it stores them. Fuse asks here whether a region
// is of that form; emit asks for the parts. Kernels of products without a
// library (compiler/emit/nvptx) round once, at the end, where the region may
// round the sums, too.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_DIALECTS_PLAN_PRODUCTEPILOGUE_H
#define LOCKSTEP_DIALECTS_PLAN_PRODUCTEPILOGUE_H

#include "dialects/plan/StridedView.h"

namespace lockstep::plan {

/// Gelu is x Phi(x), GeluTanh its approximation by tanh.
enum class Activation { None, Gelu, GeluTanh, Relu, Silu };

struct ProductEpilogue {
  GemmShape shape;
  /// Which arguments of the kernel the operands are, at which element they
  /// begin.
  unsigned lhs = 0, rhs = 0;
  int64_t lhsOffset = 0, rhsOffset = 0;
  /// Which result the product goes to, and whether as f32.
  unsigned output = 0;
  bool wide = false;
  /// The argument added to each row, of the product's element type.
  std::optional<unsigned> bias;
  Activation activation = Activation::None;
  /// The result that gets the sums (with bias) before the activation.
  std::optional<unsigned> saved;
  /// The f32 argument of the result's layout to which a wide product is added,
  /// where it lies: the result must have its memory (KernelModel.h).
  std::optional<unsigned> accumulated;
  /// The argument x of the product's layout: the result is the sums times
  /// activation'(x), or, without an activation, the sums plus x.
  std::optional<unsigned> side;

  /// True if there is more than a product and its conversion to f32.
  bool hasWork() const {
    return bias || accumulated || activation != Activation::None || side;
  }
};

/// The parts of a contraction kernel; nothing where the region is not a product
/// with such an epilogue.
std::optional<ProductEpilogue> foldProduct(KernelOp kernel);

/// Whether the product's operands and results can be moved as tiles: each has a
/// dimension of stride one, the others begin at multiples of `bytes`, and there
/// is at most one batch dimension.
bool suitsTiles(const ProductEpilogue &product, int64_t elementBytes,
                int64_t bytes);

} // namespace lockstep::plan

#endif
