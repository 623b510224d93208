//===- Recipe.h - How a value is computed again -----------------*- C++ -*-===//
//
// A result of a kernel call is computed again by a call of the part of the
// kernel's region that leads to it. That part begins at the kernel's arguments,
// and at other results of the call that are kept: GELU's output comes from the
// saved preactivation without the product behind which it was computed, a
// norm's from its input, mean and reciprocal deviation without a reduction.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_SCHEDULE_RECIPE_H
#define LOCKSTEP_COMPILER_SCHEDULE_RECIPE_H

#include "dialects/plan/Plan.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SmallBitVector.h"
#include <map>

namespace lockstep::schedule {

/// What a device sustains, in flops and bytes per second, and seconds to start
/// a kernel.
struct Rates {
  /// Of products, convolutions and attention of 16-bit operands, and of others.
  double narrowFlops, wideFlops;
  /// Of everything else.
  double loopFlops;
  double bytes, launch;

  static Rates get(bool gpu);
};

struct Recipe {
  /// The kernel to call.
  plan::KernelOp kernel;
  /// Its operands: operands of the call that computed the value, or other
  /// results of that call.
  llvm::SmallVector<mlir::Value> operands;
  /// Results of that call that it gives, in order.
  llvm::SmallVector<unsigned> results;
  double seconds = 0;
};

/// Finds recipes, and makes the kernels that they need: equal ones once.
class RecipeBook {
public:
  RecipeBook(mlir::ModuleOp module, const Rates &rates)
      : module(module), rates(rates) {}

  /// For `value`, a call's result, where the results of that call in `kept` may
  /// be read. Nothing where it cannot be computed again.
  std::optional<Recipe> find(mlir::OpResult value,
                             const llvm::SmallBitVector &kept);

  /// The kernel as one of the module, named after `from`; an equal one that is
  /// there already takes its place.
  plan::KernelOp insert(plan::KernelOp kernel, llvm::StringRef from);
  double estimateSeconds(plan::KernelOp kernel) const;

  /// Erases the kernels of recipes that nothing calls.
  void eraseUnused();

private:
  /// A kernel and where its arguments come from: argument i < n of the
  /// original, or result i - n of it.
  struct Part {
    plan::KernelOp kernel;
    llvm::SmallVector<unsigned> sources;
    double seconds = 0;
  };

  std::optional<Part> makePart(plan::KernelOp kernel, unsigned result,
                               const llvm::SmallBitVector &kept);
  mlir::ModuleOp module;
  Rates rates;
  std::map<std::tuple<mlir::Operation *, unsigned, std::vector<unsigned>>,
           std::optional<Part>>
      parts;
  llvm::SmallVector<plan::KernelOp> made;
};

} // namespace lockstep::schedule

#endif
