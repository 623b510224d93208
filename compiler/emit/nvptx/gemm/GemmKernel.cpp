//===- GemmKernel.cpp - Generated GEMM kernels ----------------------------===//
#include "compiler/emit/nvptx/gemm/GemmKernel.h"
#include "compiler/emit/nvptx/gemm/KernelFrame.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::gemm;

static constexpr int mapArguments = 4, pointerArguments = 5;

/// The attributes of a tensor map that is passed by value and stays in constant
/// memory.
static DictionaryAttr getMapAttributes(OpBuilder &b) {
  auto bytes = LLVM::LLVMArrayType::get(b.getI8Type(), 128);
  return b.getDictionaryAttr(
      {b.getNamedAttr(LLVM::LLVMDialect::getByValAttrName(),
                      TypeAttr::get(bytes)),
       b.getNamedAttr(LLVM::LLVMDialect::getAlignAttrName(),
                      b.getI64IntegerAttr(64)),
       b.getNamedAttr(NVVM::NVVMDialect::getGridConstantAttrName(),
                      b.getUnitAttr())});
}

static LLVM::LLVMFuncOp createFunction(KernelBuilder &b,
                                       const GemmConfig &config,
                                       llvm::StringRef symbol) {
  MLIRContext *context = b.getContext();
  SmallVector<Type> types(mapArguments, LLVM::LLVMPointerType::get(context));
  SmallVector<DictionaryAttr> attributes(mapArguments, getMapAttributes(b));
  types.append(pointerArguments, b.globalPointer());
  // Results of one block are read by another one: only what is read alone is
  // said not to alias.
  auto noAlias = b.getDictionaryAttr(
      b.getNamedAttr(LLVM::LLVMDialect::getNoAliasAttrName(), b.getUnitAttr()));
  auto nothing = b.getDictionaryAttr({});
  attributes.append({noAlias, noAlias, nothing, nothing, nothing});
  types.append(2, b.getI32Type());
  attributes.append(2, nothing);
  auto type =
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context), types);
  auto function = LLVM::LLVMFuncOp::create(
      b, symbol, type, LLVM::Linkage::External, /*dsoLocal=*/false,
      LLVM::CConv::C, SymbolRefAttr(), ArrayRef<NamedAttribute>(), attributes);
  auto set = [&](llvm::StringRef name, Attribute value) {
    function->setAttr(name, value);
  };
  set(NVVM::NVVMDialect::getKernelFuncAttrName(), b.getUnitAttr());
  // Without a register count at entry ptxas ignores setmaxnreg (C7508).
  set(NVVM::NVVMDialect::getReqntidAttrName(),
      b.getDenseI32ArrayAttr({getThreads(config)}));
  set(NVVM::NVVMDialect::getMinctasmAttrName(), b.getI32IntegerAttr(1));
  if (config.cluster != Cluster::None)
    set(NVVM::NVVMDialect::getClusterDimAttrName(),
        b.getDenseI32ArrayAttr({2, 1, 1}));
  return function;
}

static KernelArguments getArguments(Block &entry) {
  KernelArguments arguments;
  unsigned next = 0;
  for (Value *value :
       {&arguments.mapA, &arguments.mapB, &arguments.mapD, &arguments.mapSide,
        &arguments.bias, &arguments.table, &arguments.workspace,
        &arguments.counters, &arguments.columnSums, &arguments.itemCount,
        &arguments.columns})
    *value = entry.getArgument(next++);
  return arguments;
}

static void emitBody(KernelFrame &frame) {
  KernelBuilder &b = frame.b;
  emitPrologue(frame);
  b.ifThenElse(
      b.equal(frame.warpgroup, int64_t(0)), {},
      [&]() -> KernelBuilder::Values {
        emitProducer(frame);
        return {};
      },
      [&]() -> KernelBuilder::Values {
        emitConsumers(frame);
        return {};
      });
  // A block's shared memory must outlive its neighbour's copies and arrivals.
  if (frame.config.cluster != Cluster::None) {
    NVVM::ClusterArriveOp::create(b, UnitAttr());
    NVVM::ClusterWaitOp::create(b, UnitAttr());
  }
  LLVM::ReturnOp::create(b, ValueRange());
}

LogicalResult gemm::buildGemmKernel(ModuleOp module, const GemmConfig &config,
                                    llvm::StringRef symbol) {
  std::string error = checkConfig(config);
  if (!error.empty())
    return module.emitError("GEMM kernel: ") << error;
  KernelBuilder b(module.getLoc(), module.getContext());
  b.setInsertionPointToEnd(module.getBody());
  std::string memory = KernelBuilder::declareSharedMemory(module, symbol, 1024);
  LLVM::LLVMFuncOp function = createFunction(b, config, symbol);
  Block *entry = function.addEntryBlock(b);
  b.setInsertionPointToStart(entry);
  KernelFrame frame(config, b, getArguments(*entry),
                    b.getSharedAddress(memory));
  emitBody(frame);
  return success();
}
