//===- SharedCode.h - Kernels that several launches share -------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_SHAREDCODE_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_SHAREDCODE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/MapVector.h"
#include <functional>
#include <map>
#include <string>

namespace lockstep::emit {

/// The kernels of one object that are made from a configuration, each a module
/// of its own, which every plan.kernel of that configuration launches.
class SharedCode {
public:
  using Build =
      std::function<mlir::LogicalResult(mlir::ModuleOp, llvm::StringRef)>;

  explicit SharedCode(mlir::MLIRContext &context) : context(context) {}

  /// The symbol of the kernel that `key` names, which begins with `prefix`.
  /// `build` adds it to a module.
  std::string add(llvm::StringRef prefix, std::string key, Build build);

  size_t getCount() const { return kernels.size(); }
  /// The PTX of kernel `index`. May run beside others.
  mlir::FailureOr<std::string> lower(size_t index, llvm::StringRef chip) const;

private:
  struct Kernel {
    std::string symbol;
    Build build;
  };
  mlir::MLIRContext &context;
  llvm::MapVector<std::string, Kernel, std::map<std::string, unsigned>> kernels;
};

} // namespace lockstep::emit

#endif
