//===- LowerToLLVM.cpp - From scf, arith and math to LLVM IR --------------===//
#include "compiler/emit/x86/LowerToLLVM.h"
#include "compiler/emit/Target.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/DialectConversion.h"
#include "llvm/IR/Module.h"

using namespace mlir;
using namespace lockstep;

void emit::loadEmitDialects(MLIRContext &context) {
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  context.appendDialectRegistry(registry);
  context.loadDialect<LLVM::LLVMDialect, scf::SCFDialect,
                      cf::ControlFlowDialect, arith::ArithDialect,
                      math::MathDialect, train::TrainDialect>();
}

static constexpr llvm::StringLiteral kLoopAnnotation = "llvm.loop_annotation";

static LogicalResult convert(ModuleOp module) {
  MLIRContext *context = module.getContext();
  {
    RewritePatternSet patterns(context);
    populateSCFToControlFlowConversionPatterns(patterns);
    ConversionTarget target(*context);
    target.addIllegalDialect<scf::SCFDialect>();
    target.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
    if (failed(applyPartialConversion(module, target, std::move(patterns))))
      return failure();
  }
  LLVMTypeConverter types(context);
  RewritePatternSet patterns(context);
  arith::populateArithToLLVMConversionPatterns(types, patterns);
  populateMathToLLVMConversionPatterns(types, patterns);
  cf::populateControlFlowToLLVMConversionPatterns(types, patterns);
  LLVMConversionTarget target(*context);
  target.addLegalOp<ModuleOp>();
  if (failed(applyFullConversion(module, target, std::move(patterns))))
    return failure();
  // Loop annotations come along as attributes that mean nothing to the branch;
  // its own is what the translation reads.
  module.walk([](LLVM::BrOp branch) {
    if (auto annotation =
            branch->getAttrOfType<LLVM::LoopAnnotationAttr>(kLoopAnnotation)) {
      branch->removeAttr(kLoopAnnotation);
      branch.setLoopAnnotationAttr(annotation);
    }
  });
  return success();
}

std::unique_ptr<llvm::Module> emit::lowerToLLVM(ModuleOp module,
                                                llvm::LLVMContext &context) {
  if (failed(convert(module)))
    return nullptr;
  return translateModuleToLLVMIR(module, context, "kernels");
}
