//===- X86Target.cpp - x86-64 shared objects ------------------------------===//
//
// Kernels are compiled in groups, one LLVM module and context each, by as many
// threads as there are cores; the groups depend on the kernels alone, so that
// the bytes do not depend on the threads.
//
//===----------------------------------------------------------------------===//
#include "compiler/emit/x86/X86Target.h"
#include "compiler/emit/library/LibraryKernels.h"
#include "compiler/emit/x86/LowerToLLVM.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"
#include <atomic>
#include <mutex>
#include <thread>

using namespace mlir;
using namespace lockstep;
using namespace lockstep::emit;

static constexpr size_t kernelsPerGroup = 4;

static bool hostHasV4() {
  llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  return llvm::all_of(
      llvm::ArrayRef<llvm::StringRef>{"avx512f", "avx512bw", "avx512cd",
                                      "avx512dq", "avx512vl"},
      [&](llvm::StringRef name) { return features.lookup(name); });
}

std::unique_ptr<X86Target> X86Target::create(llvm::StringRef name) {
  if (name == "native")
    name = hostHasV4() ? "x86-64-v4" : "x86-64-v3";
  if (name != "x86-64-v3" && name != "x86-64-v4")
    return nullptr;
  return std::make_unique<X86Target>(name);
}

bool X86Target::hasLibrary(plan::KernelKind kind) const {
  return isLibraryKind(kind);
}

static void initializeX86() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
}

static std::unique_ptr<llvm::TargetMachine> createMachine(llvm::StringRef cpu) {
  llvm::Triple triple("x86_64-unknown-linux-gnu");
  std::string error;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return nullptr;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, cpu, "", llvm::TargetOptions(), llvm::Reloc::PIC_, std::nullopt,
      llvm::CodeGenOptLevel::Default));
}

/// Everything is inside the object: no function of a library may be assumed,
/// not even memset.
static llvm::TargetLibraryInfoImpl getNoLibrary(const llvm::Triple &triple) {
  llvm::TargetLibraryInfoImpl library(triple);
  library.disableAllFunctions();
  return library;
}

// The code is straight loops over SSA values already: what is left is to
// simplify, hoist, take conditions of the row out of loops, vectorise and
// unroll. LLVM's default pipeline takes longer for the same code.
static constexpr const char *loopPipeline =
    "function(simplifycfg,early-cse<memssa>,instcombine<no-verify-fixpoint>,"
    "loop-mssa(loop-rotate,licm,simple-loop-unswitch<nontrivial>),simplifycfg,"
    "instcombine<no-verify-fixpoint>,"
    "loop(indvars,loop-deletion,loop-unroll-full),early-cse<memssa>,"
    "instcombine<no-verify-fixpoint>,loop-vectorize,instcombine<no-verify-"
    "fixpoint>,simplifycfg,early-cse<memssa>,"
    "loop-mssa(licm),loop-unroll<O3>,instcombine<no-verify-fixpoint>,"
    "simplifycfg,adce)";

static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = true;
  tuning.LoopInterleaving = true;
  tuning.LoopUnrolling = true;
  tuning.SLPVectorization = false;
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine, tuning);
  llvm::TargetLibraryInfoImpl library = getNoLibrary(machine.getTargetTriple());
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(library); });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  llvm::ModulePassManager passes;
  llvm::cantFail(builder.parsePassPipeline(passes, loopPipeline));
  passes.run(module, modules);
}

LogicalResult
X86Target::compileGroup(llvm::MutableArrayRef<GeneratedKernel> kernels,
                        llvm::CodeGenFileType type,
                        llvm::SmallVectorImpl<char> &bytes) const {
  Location loc = kernels.front().kernel.getLoc();
  OwningOpRef<ModuleOp> module(
      ModuleOp::create(UnknownLoc::get(loc.getContext())));
  for (GeneratedKernel &entry : kernels) {
    FailureOr<KernelShape> shape =
        emitKernel(entry.kernel, entry.symbol, *module);
    if (failed(shape))
      return failure();
    entry.shape = *shape;
  }
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> code = lowerToLLVM(*module, context);
  if (!code)
    return failure();
  std::unique_ptr<llvm::TargetMachine> machine = createMachine(level);
  if (!machine)
    return mlir::emitError(loc, "LLVM has no x86-64 code generator");
  code->setTargetTriple(machine->getTargetTriple());
  code->setDataLayout(machine->createDataLayout());
  for (llvm::Function &function : *code) {
    function.addFnAttr("target-cpu", level);
    // LLVM keeps to half vectors for the sake of early processors, which slowed
    // down for whole ones.
    if (level == "x86-64-v4")
      function.addFnAttr("prefer-vector-width", "512");
    function.addFnAttr("no-builtins");
    function.addFnAttr("no-trapping-math", "true");
    function.addFnAttr(llvm::Attribute::NoUnwind);
  }
  optimize(*code, *machine);
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  passes.add(new llvm::TargetLibraryInfoWrapperPass(
      getNoLibrary(machine->getTargetTriple())));
  if (machine->addPassesToEmitFile(passes, stream, nullptr, type))
    return mlir::emitError(loc, "LLVM cannot write x86-64 objects");
  passes.run(*code);
  return success();
}

LogicalResult X86Target::compile(ModuleOp module,
                                 llvm::MutableArrayRef<GeneratedKernel> kernels,
                                 std::vector<std::string> &linked) {
  initializeX86();
  loadEmitDialects(*module.getContext());
  size_t groups = llvm::divideCeil(kernels.size(), kernelsPerGroup);
  std::vector<llvm::SmallVector<char, 0>> objects(groups);
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  auto work = [&] {
    for (size_t i; (i = next++) < groups && !failed;) {
      size_t first = i * kernelsPerGroup;
      if (mlir::failed(compileGroup(
              kernels.slice(first,
                            std::min(kernelsPerGroup, kernels.size() - first)),
              llvm::CodeGenFileType::ObjectFile, objects[i])))
        failed = true;
    }
  };
  size_t threads =
      module.getContext()->isMultithreadingEnabled()
          ? std::min<size_t>(std::max(1u, std::thread::hardware_concurrency()),
                             8)
          : 1;
  std::vector<std::thread> helpers;
  for (size_t i = 1; i < std::min(threads, groups); ++i)
    helpers.emplace_back(work);
  work();
  for (std::thread &helper : helpers)
    helper.join();
  if (failed)
    return failure();
  std::string error;
  std::string object = linkSharedObject(objects, error);
  if (!error.empty())
    return module.emitError(error);
  linked.push_back(std::move(object));
  return success();
}

LogicalResult
X86Target::compileToAssembly(ModuleOp module,
                             llvm::MutableArrayRef<GeneratedKernel> kernels,
                             std::string &assembly) {
  initializeX86();
  loadEmitDialects(*module.getContext());
  llvm::SmallVector<char, 0> bytes;
  if (failed(compileGroup(kernels, llvm::CodeGenFileType::AssemblyFile, bytes)))
    return failure();
  assembly.assign(bytes.begin(), bytes.end());
  return success();
}
