//===- Ptxas.h - The CUDA toolkit's assembler ------------------*- C++ -*-===//
//
// ptxas turns PTX into the machine code of one chip. It is looked for in
// $LOCKSTEP_PTXAS, $CUDA_HOME/bin, PATH and /usr/local/cuda/bin; where there is
// none, an artifact can only hold PTX. An empty $LOCKSTEP_PTXAS says that none
// is to be used.
//
//===----------------------------------------------------------------------===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_PTX_PTXAS_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_PTX_PTXAS_H

#include "llvm/ADT/StringRef.h"
#include <string>

namespace lockstep::emit {

/// Path of ptxas; empty where there is none.
std::string findPtxas();

/// The release of ptxas that findPtxas found, such as "V13.0.88"; empty where
/// there is none or it does not run. The same PTX gives the same cubin with the
/// same release, so that it belongs to what an artifact's hash covers.
std::string getPtxasVersion();

struct CubinResult {
  enum class Status { Assembled, NoPtxas, Failed };
  Status status = Status::Failed;
  /// The machine code, an ELF file; empty unless assembled.
  std::string cubin;
  /// What ptxas wrote: the reason of a failure; of an assembled one the
  /// warnings, and registers and spills where they were asked for.
  std::string messages;
};

/// Assembles PTX for a chip (sm_80, sm_90a, sm_100a). The bytes depend on the
/// PTX, the chip and the release of ptxas alone.
CubinResult assembleCubin(llvm::StringRef ptx, llvm::StringRef chip,
                          bool reportResources = false);

} // namespace lockstep::emit

#endif
