//===- NvptxTarget.cpp - NVIDIA GPUs --------------------------------------===//
//
// Kernels are lowered to PTX in groups, one module each, by as many threads as
// there are cores; the groups depend on the kernels alone, so that the bytes do
// not depend on the threads. ptxas assembles each group, as many at a time; for
// want of a ptxas the groups' texts make one PTX module. Products and attention
// come first: each configuration of such a kernel is a module of its own, which
// all launches of it share.
//
//===----------------------------------------------------------------------===//
#include "compiler/emit/nvptx/NvptxTarget.h"
#include "compiler/emit/nvptx/AttentionCalls.h"
#include "compiler/emit/nvptx/GridFunction.h"
#include "compiler/emit/nvptx/ptx/LowerToPtx.h"
#include "compiler/emit/nvptx/ptx/Ptxas.h"
#include "mlir/IR/Threading.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::emit;

static constexpr size_t kKernelsPerGroup = 4;

/// Of the large GPU of each capability: A100, H100 and H200, B200. Kernels run
/// on any number, but are divided for this one.
static int getMultiprocessors(llvm::StringRef chip) {
  return llvm::StringSwitch<int>(chip)
      .Case("sm_80", 108)
      .Case("sm_90a", 132)
      .Default(148);
}

/// The kernels of products and attention are written for wgmma.
bool NvptxTarget::hasProductEpilogues() const { return chip == "sm_90a"; }
bool NvptxTarget::hasTileAttention() const { return chip == "sm_90a"; }

std::optional<ProductKernel>
NvptxTarget::planProduct(plan::KernelOp kernel,
                         llvm::ArrayRef<int64_t> alignments) const {
  if (!hasProductEpilogues())
    return std::nullopt;
  return emit::planProduct(kernel, alignments, getMultiprocessors(chip));
}

std::optional<AttentionCalls>
NvptxTarget::planAttention(plan::KernelOp kernel) const {
  if (!hasTileAttention())
    return std::nullopt;
  return emit::planAttention(kernel, getMultiprocessors(chip),
                             options.deterministic);
}

bool NvptxTarget::usesLibrary(plan::KernelOp kernel,
                              llvm::ArrayRef<int64_t> alignments) const {
  return hasLibrary(kernel.getKind()) && !planProduct(kernel, alignments);
}

bool NvptxTarget::hasLibrary(plan::KernelKind kind) const {
  return kind == plan::KernelKind::Contraction;
}

std::string NvptxTarget::getToolVersion() const {
  std::string version = getPtxasVersion();
  return version.empty() ? std::string() : "ptxas " + version;
}

static FailureOr<std::string>
lowerGroup(llvm::ArrayRef<GeneratedKernel *> kernels, llvm::StringRef chip) {
  MLIRContext *context = kernels.front()->kernel.getContext();
  OwningOpRef<ModuleOp> module(ModuleOp::create(UnknownLoc::get(context)));
  for (GeneratedKernel *entry : kernels) {
    FailureOr<KernelShape> shape = emitGridKernel(*entry, *module);
    if (failed(shape))
      return failure();
    entry->shape = *shape;
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

void NvptxTarget::addSharedKernels(
    llvm::MutableArrayRef<GeneratedKernel> kernels, SharedCode &shared,
    std::vector<GeneratedKernel *> &grids) const {
  std::vector<std::pair<GeneratedKernel *, ProductKernel>> products;
  std::vector<std::pair<GeneratedKernel *, AttentionCalls>> attentions;
  ScratchLayout scratch;
  for (GeneratedKernel &kernel : kernels) {
    if (auto product = planProduct(kernel.kernel, kernel.alignments)) {
      scratch.includeCounters(product->launch.counterBytes);
      products.push_back({&kernel, std::move(*product)});
    } else if (auto attention = planAttention(kernel.kernel)) {
      attentions.push_back({&kernel, std::move(*attention)});
    } else {
      grids.push_back(&kernel);
    }
  }
  for (auto &[kernel, product] : products)
    addLaunch(product, scratch, shared, *kernel);
  for (auto &[kernel, calls] : attentions)
    addParts(calls, scratch, shared, *kernel);
}

LogicalResult
NvptxTarget::compileGroups(ModuleOp module,
                           llvm::MutableArrayRef<GeneratedKernel> kernels,
                           std::vector<std::string> &texts) const {
  loadPtxDialects(*module.getContext());
  SharedCode shared(*module.getContext());
  std::vector<GeneratedKernel *> grids;
  addSharedKernels(kernels, shared, grids);
  size_t first = shared.getCount();
  texts.resize(first + llvm::divideCeil(grids.size(), kKernelsPerGroup));
  return failableParallelForEachN(
      module.getContext(), 0, texts.size(), [&](size_t i) -> LogicalResult {
        FailureOr<std::string> text =
            i < first
                ? shared.lower(i, chip)
                : lowerGroup(llvm::ArrayRef(grids)
                                 .drop_front((i - first) * kKernelsPerGroup)
                                 .take_front(kKernelsPerGroup),
                             chip);
        if (failed(text))
          return failure();
        texts[i] = std::move(*text);
        return success();
      });
}

static std::string joinTexts(llvm::ArrayRef<std::string> texts) {
  std::string ptx;
  for (auto [i, text] : llvm::enumerate(texts))
    ptx += i == 0 ? llvm::StringRef(text) : dropHeader(text);
  return ptx;
}

LogicalResult
NvptxTarget::compileToPtx(ModuleOp module,
                          llvm::MutableArrayRef<GeneratedKernel> kernels,
                          std::string &ptx) {
  std::vector<std::string> texts;
  if (failed(compileGroups(module, kernels, texts)))
    return failure();
  ptx = joinTexts(texts);
  return success();
}

LogicalResult
NvptxTarget::compile(ModuleOp module,
                     llvm::MutableArrayRef<GeneratedKernel> kernels,
                     std::vector<std::string> &objects) {
  std::vector<std::string> texts;
  if (failed(compileGroups(module, kernels, texts)))
    return failure();
  if (findPtxas().empty()) {
    objects.push_back(joinTexts(texts));
    section = "ptx-" + chip;
    return success();
  }
  section = chip;
  objects.resize(texts.size());
  return failableParallelForEachN(
      module.getContext(), 0, texts.size(), [&](size_t i) -> LogicalResult {
        CubinResult assembled = assembleCubin(texts[i], chip);
        if (assembled.status != CubinResult::Status::Assembled)
          return module.emitError("ptxas cannot assemble the kernels: ")
                 << assembled.messages;
        objects[i] = std::move(assembled.cubin);
        return success();
      });
}
