//===- Target.cpp - Targets by name ---------------------------------------===//
#include "compiler/emit/Target.h"
#include "compiler/emit/nvptx/NvptxTarget.h"
#include "compiler/emit/nvptx/ptx/LowerToPtx.h"
#include "compiler/emit/x86/X86Target.h"

using namespace lockstep;
using namespace lockstep::emit;

std::unique_ptr<Target> Target::create(llvm::StringRef name,
                                       const TargetOptions &options) {
  if (isPtxChip(name))
    return std::make_unique<NvptxTarget>(name, options);
  return X86Target::create(name);
}
