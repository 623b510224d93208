//===- GradientCheck.h - A function's gradients two ways --------*- C++ -*-===//
//
// Parses one function of `train` operations in float64, and gives the gradients
// of <cotangents, results> with respect to its floating-point arguments: as the
// derivative rules build them, and as central finite differences of the
// interpreter's results.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_TEST_AUTODIFF_GRADIENTCHECK_H
#define LOCKSTEP_TEST_AUTODIFF_GRADIENTCHECK_H

#include "compiler/reference/HostTensor.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include <set>
#include <string>

namespace lockstep::testing {

/// Where random arguments come from: |x| uniform in [low, high], of either sign
/// if `bothSigns`; integers in [0, integers).
struct Domain {
  double low = 0.2, high = 1.5;
  bool bothSigns = true;
  int64_t integers = 3;
};

class GradientCheck {
public:
  /// `text` holds one function. Throws std::runtime_error where it is wrong.
  explicit GradientCheck(const std::string &text);

  std::vector<HostTensor> randomArguments(const Domain &domain) const;
  /// One per result: random, or all ones; empty tensors for results that are no
  /// floats.
  std::vector<HostTensor> randomCotangents() const;
  std::vector<HostTensor> unitCotangents() const;

  /// One per argument; empty for arguments that are no floats.
  std::vector<std::vector<double>>
  builtGradients(const std::vector<HostTensor> &arguments,
                 const std::vector<HostTensor> &cotangents);
  std::vector<std::vector<double>>
  finiteDifferences(const std::vector<HostTensor> &arguments,
                    const std::vector<HostTensor> &cotangents);

  /// Names of the operations of the function.
  std::set<std::string> getOperations();

private:
  mlir::func::FuncOp
  buildGradientFunction(const std::vector<HostTensor> &cotangents);
  double evaluate(const std::vector<HostTensor> &arguments,
                  const std::vector<HostTensor> &cotangents);

  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp function;
};

/// The context of all checks: our dialects with their derivatives and
/// evaluations.
mlir::MLIRContext &getContext();

} // namespace lockstep::testing

#endif
