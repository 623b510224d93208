//===- NvptxTarget.cpp - NVIDIA GPUs --------------------------------------===//
//
// Kernels are lowered to PTX in groups, one module each, by as many threads as
// there are cores; the groups depend on the kernels alone, so that the bytes do
// not depend on the threads. The groups' texts make one PTX module, which ptxas
// assembles. Products come first: each configuration of a GEMM kernel is a
// module of its own, which the products of that configuration share.
//
//===----------------------------------------------------------------------===//
#include "compiler/emit/nvptx/NvptxTarget.h"
#include "compiler/emit/nvptx/GridFunction.h"
#include "compiler/emit/nvptx/gemm/GemmKernel.h"
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

/// The GEMM kernels are written for wgmma.
bool NvptxTarget::hasProductEpilogues() const { return chip == "sm_90a"; }

std::optional<ProductKernel>
NvptxTarget::planProduct(plan::KernelOp kernel,
                         llvm::ArrayRef<int64_t> alignments) const {
  if (!hasProductEpilogues())
    return std::nullopt;
  return emit::planProduct(kernel, alignments, getMultiprocessors(chip));
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

namespace {
/// The GEMM kernels of one object.
class ProductCode {
public:
  explicit ProductCode(MLIRContext &context) : context(context) {}

  void add(GeneratedKernel &kernel, ProductKernel product) {
    configs.insert({gemm::printConfig(product.config), product.config});
    scratch.include(product);
    products.push_back({&kernel, std::move(product)});
  }
  size_t getCount() const { return configs.size(); }

  FailureOr<std::string> lower(size_t index, llvm::StringRef chip) const {
    OwningOpRef<ModuleOp> module(ModuleOp::create(UnknownLoc::get(&context)));
    const gemm::GemmConfig &config = configs.begin()[index].second;
    if (failed(gemm::buildGemmKernel(*module, config, getSymbol(index))))
      return failure();
    return lowerToPtx(*module, chip, PtxOptimization::None);
  }

  /// Symbols, shapes and launches, once all kernels are known.
  void describe() const {
    for (const auto &[kernel, product] : products) {
      auto config = configs.find(gemm::printConfig(product.config));
      kernel->symbol = getSymbol(config - configs.begin());
      kernel->shape.threads = product.launch.threads;
      kernel->shape.sharedBytes = product.launch.sharedBytes;
      kernel->launch = describeLaunch(product, scratch);
    }
  }

private:
  static std::string getSymbol(size_t index) {
    return "gemm_" + std::to_string(index);
  }

  MLIRContext &context;
  llvm::MapVector<std::string, gemm::GemmConfig,
                  std::map<std::string, unsigned>>
      configs;
  std::vector<std::pair<GeneratedKernel *, ProductKernel>> products;
  ScratchLayout scratch;
};
} // namespace

LogicalResult
NvptxTarget::compileToPtx(ModuleOp module,
                          llvm::MutableArrayRef<GeneratedKernel> kernels,
                          std::string &ptx) {
  loadPtxDialects(*module.getContext());
  ProductCode products(*module.getContext());
  std::vector<GeneratedKernel *> grids;
  for (GeneratedKernel &kernel : kernels) {
    if (auto product = planProduct(kernel.kernel, kernel.alignments))
      products.add(kernel, std::move(*product));
    else
      grids.push_back(&kernel);
  }
  size_t first = products.getCount();
  std::vector<std::string> texts(
      first + llvm::divideCeil(grids.size(), kKernelsPerGroup));
  LogicalResult result = failableParallelForEachN(
      module.getContext(), 0, texts.size(), [&](size_t i) -> LogicalResult {
        FailureOr<std::string> text =
            i < first
                ? products.lower(i, chip)
                : lowerGroup(llvm::ArrayRef(grids)
                                 .drop_front((i - first) * kKernelsPerGroup)
                                 .take_front(kKernelsPerGroup),
                             chip);
        if (failed(text))
          return failure();
        texts[i] = std::move(*text);
        return success();
      });
  if (failed(result))
    return failure();
  products.describe();
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
