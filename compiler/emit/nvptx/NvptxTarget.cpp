//===- NvptxTarget.cpp - NVIDIA GPUs --------------------------------------===//
//
// Kernels are lowered to PTX in groups, one module each, by as many threads as
// there are cores; the groups depend on the kernels alone, so that the bytes do
// not depend on the threads. The groups' texts make one PTX module, which ptxas
// assembles.
//
//===----------------------------------------------------------------------===//
#include "compiler/emit/nvptx/NvptxTarget.h"
#include "compiler/emit/nvptx/GridFunction.h"
#include "compiler/emit/nvptx/ptx/LowerToPtx.h"
#include "compiler/emit/nvptx/ptx/Ptxas.h"
#include "mlir/IR/Threading.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::emit;

static constexpr size_t kKernelsPerGroup = 4;

bool NvptxTarget::hasLibrary(plan::KernelKind kind) const {
  return kind == plan::KernelKind::Contraction;
}

std::string NvptxTarget::getToolVersion() const {
  std::string version = getPtxasVersion();
  return version.empty() ? std::string() : "ptxas " + version;
}

static FailureOr<std::string>
lowerGroup(llvm::MutableArrayRef<GeneratedKernel> kernels,
           llvm::StringRef chip) {
  MLIRContext *context = kernels.front().kernel.getContext();
  OwningOpRef<ModuleOp> module(ModuleOp::create(UnknownLoc::get(context)));
  for (GeneratedKernel &entry : kernels) {
    FailureOr<KernelShape> shape = emitGridKernel(entry, *module);
    if (failed(shape))
      return failure();
    entry.shape = *shape;
  }
  return lowerToPtx(*module, chip);
}

/// The text behind the directives that begin every module.
static llvm::StringRef dropHeader(llvm::StringRef ptx) {
  constexpr llvm::StringLiteral last = ".address_size 64\n";
  size_t at = ptx.find(last);
  assert(at != llvm::StringRef::npos && "expected PTX with a header");
  return ptx.drop_front(at + last.size());
}

LogicalResult
NvptxTarget::compileToPtx(ModuleOp module,
                          llvm::MutableArrayRef<GeneratedKernel> kernels,
                          std::string &ptx) {
  loadPtxDialects(*module.getContext());
  size_t groups = llvm::divideCeil(kernels.size(), kKernelsPerGroup);
  std::vector<std::string> texts(groups);
  LogicalResult result = failableParallelForEachN(
      module.getContext(), 0, groups, [&](size_t i) -> LogicalResult {
        size_t first = i * kKernelsPerGroup;
        FailureOr<std::string> text =
            lowerGroup(kernels.slice(first, std::min(kKernelsPerGroup,
                                                     kernels.size() - first)),
                       chip);
        if (failed(text))
          return failure();
        texts[i] = std::move(*text);
        return success();
      });
  if (failed(result))
    return failure();
  for (auto [i, text] : llvm::enumerate(texts))
    ptx += i == 0 ? llvm::StringRef(text) : dropHeader(text);
  return success();
}

LogicalResult
NvptxTarget::compile(ModuleOp module,
                     llvm::MutableArrayRef<GeneratedKernel> kernels,
                     std::string &object) {
  std::string ptx;
  if (failed(compileToPtx(module, kernels, ptx)))
    return failure();
  CubinResult assembled = assembleCubin(ptx, chip);
  switch (assembled.status) {
  case CubinResult::Status::Assembled:
    object = std::move(assembled.cubin);
    section = chip;
    return success();
  case CubinResult::Status::NoPtxas:
    object = std::move(ptx);
    section = "ptx-" + chip;
    return success();
  case CubinResult::Status::Failed:
    return module.emitError("ptxas cannot assemble the kernels: ")
           << assembled.messages;
  }
  llvm_unreachable("all outcomes are handled");
}
