// What the tools that write kernels for a bench share: a kernel becomes
// LABEL.ptx and LABEL.cubin in a folder.
#ifndef LOCKSTEP_TOOLS_BENCH_GPU_KERNEL_FILES_H
#define LOCKSTEP_TOOLS_BENCH_GPU_KERNEL_FILES_H

#include "mlir/IR/BuiltinOps.h"
#include "runtime/support/status.h"

#include <filesystem>
#include <functional>
#include <string>

namespace lockstep {

/// Adds a kernel to an empty module.
using BuildKernel = std::function<mlir::LogicalResult(mlir::ModuleOp)>;

Status writeFile(const std::filesystem::path &path, const std::string &bytes);

/// Builds a kernel for sm_90a, assembles it and writes both files. Prints the
/// label, `facts`, and what ptxas says of registers, spills and serialization.
Status writeKernel(const std::string &label, const std::string &facts,
                   const BuildKernel &build,
                   const std::filesystem::path &folder);

} // namespace lockstep

#endif
