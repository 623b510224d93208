//===- KernelBuilder.cpp - Short words for kernels in NVVM ----------------===//
#include "compiler/emit/nvptx/gemm/KernelBuilder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace lockstep::gemm;

Type KernelBuilder::globalPointer() const {
  return LLVM::LLVMPointerType::get(getContext(), 1);
}
Type KernelBuilder::sharedPointer() const {
  return LLVM::LLVMPointerType::get(getContext(), 3);
}

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

Value KernelBuilder::constant(int64_t value) {
  return arith::ConstantOp::create(*this, getI32IntegerAttr(value));
}
Value KernelBuilder::constant64(int64_t value) {
  return arith::ConstantOp::create(*this, getI64IntegerAttr(value));
}
Value KernelBuilder::constantF32(double value) {
  return arith::ConstantOp::create(*this, getF32FloatAttr(value));
}

Value KernelBuilder::add(Value a, Value b) {
  return binary<arith::AddIOp>(a, b);
}
Value KernelBuilder::subtract(Value a, Value b) {
  return binary<arith::SubIOp>(a, b);
}
Value KernelBuilder::multiply(Value a, Value b) {
  return binary<arith::MulIOp>(a, b);
}
Value KernelBuilder::divide(Value a, int64_t b) {
  return binary<arith::DivUIOp>(a, constant(b));
}
Value KernelBuilder::bitAnd(Value a, int64_t b) {
  return binary<arith::AndIOp>(a, constant(b));
}
Value KernelBuilder::bitXor(Value a, Value b) {
  return binary<arith::XOrIOp>(a, b);
}
Value KernelBuilder::shiftLeft(Value a, int64_t bits) {
  return binary<arith::ShLIOp>(a, constant(bits));
}
Value KernelBuilder::shiftRight(Value a, int64_t bits) {
  return binary<arith::ShRUIOp>(a, constant(bits));
}
Value KernelBuilder::equal(Value a, Value b) {
  return createOrFold<arith::CmpIOp>(arith::CmpIPredicate::eq, a, b);
}
Value KernelBuilder::lessUnsigned(Value a, int64_t b) {
  return createOrFold<arith::CmpIOp>(arith::CmpIPredicate::ult, a, constant(b));
}
Value KernelBuilder::lessThan(Value a, Value b) {
  return createOrFold<arith::CmpIOp>(arith::CmpIPredicate::slt, a, b);
}
Value KernelBuilder::lessOrEqual(Value a, Value b) {
  return createOrFold<arith::CmpIOp>(arith::CmpIPredicate::sle, a, b);
}
Value KernelBuilder::minimum(Value a, Value b) {
  return binary<arith::MinSIOp>(a, b);
}
Value KernelBuilder::both(Value a, Value b) {
  return binary<arith::AndIOp>(a, b);
}
Value KernelBuilder::select(Value condition, Value a, Value b) {
  return createOrFold<arith::SelectOp>(condition, a, b);
}

//===----------------------------------------------------------------------===//
// Floating point
//===----------------------------------------------------------------------===//

Value KernelBuilder::addF32(Value a, Value b) {
  return binary<arith::AddFOp>(a, b);
}
Value KernelBuilder::multiplyF32(Value a, Value b) {
  return binary<arith::MulFOp>(a, b);
}
Value KernelBuilder::negateF32(Value a) {
  return createOrFold<arith::NegFOp>(a);
}
Value KernelBuilder::fusedF32(Value a, Value b, Value c) {
  return LLVM::FMAOp::create(*this, a, b, c);
}
Value KernelBuilder::tanhF32(Value a) {
  return LLVM::TanhOp::create(*this, a.getType(), a, LLVM::FastmathFlags::afn);
}

Value KernelBuilder::packBFloat16(Value low, Value high) {
  Value pair = NVVM::ConvertF32x2ToBF16x2Op::create(
      *this, VectorType::get(2, getBF16Type()), high, low,
      /*random_bits=*/Value(), NVVM::FPRoundingMode::RN);
  return LLVM::BitcastOp::create(*this, getI32Type(), pair);
}
Value KernelBuilder::unpackLow(Value packed) {
  return LLVM::BitcastOp::create(*this, getF32Type(), shiftLeft(packed, 16));
}
Value KernelBuilder::unpackHigh(Value packed) {
  return LLVM::BitcastOp::create(*this, getF32Type(), bitAnd(packed, -65536));
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

std::string KernelBuilder::declareSharedMemory(ModuleOp module,
                                               llvm::StringRef kernel,
                                               unsigned alignment) {
  std::string name = (kernel + "_shared").str();
  auto b = ImplicitLocOpBuilder::atBlockEnd(module.getLoc(), module.getBody());
  auto bytes = LLVM::LLVMArrayType::get(b.getI8Type(), 0);
  LLVM::GlobalOp::create(b, bytes, /*isConstant=*/false,
                         LLVM::Linkage::External, name, Attribute(), alignment,
                         /*addrSpace=*/3);
  return name;
}
Value KernelBuilder::getSharedAddress(llvm::StringRef name) {
  Value memory = LLVM::AddressOfOp::create(*this, sharedPointer(), name);
  return LLVM::PtrToIntOp::create(*this, getI32Type(), memory);
}
Value KernelBuilder::shared(Value address) {
  return LLVM::IntToPtrOp::create(*this, sharedPointer(), address);
}
Value KernelBuilder::element(Value base, Value index, Type type) {
  return LLVM::GEPOp::create(*this, base.getType(), type, base,
                             ArrayRef<LLVM::GEPArg>{index});
}
Value KernelBuilder::element(Value base, int64_t index, Type type) {
  return LLVM::GEPOp::create(*this, base.getType(), type, base,
                             ArrayRef<LLVM::GEPArg>{int32_t(index)});
}
Value KernelBuilder::load(Value pointer, Type type, unsigned alignment,
                          bool invariant) {
  return LLVM::LoadOp::create(*this, type, pointer, alignment,
                              /*isVolatile=*/false, /*isNonTemporal=*/false,
                              invariant);
}
void KernelBuilder::store(Value value, Value pointer, unsigned alignment) {
  LLVM::StoreOp::create(*this, value, pointer, alignment);
}
Value KernelBuilder::extractElement(Value vector, int index) {
  return LLVM::ExtractElementOp::create(*this, vector, constant(index));
}
Value KernelBuilder::extractField(Value structure, int index) {
  return LLVM::ExtractValueOp::create(*this, structure,
                                      ArrayRef<int64_t>{index});
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

void KernelBuilder::ifThen(Value condition, llvm::function_ref<void()> body) {
  auto branch = scf::IfOp::create(*this, condition, /*withElseRegion=*/false);
  InsertionGuard guard(*this);
  setInsertionPointToStart(branch.thenBlock());
  body();
}

KernelBuilder::Values
KernelBuilder::ifThenElse(Value condition, TypeRange types,
                          llvm::function_ref<Values()> thenBody,
                          llvm::function_ref<Values()> elseBody) {
  auto branch = scf::IfOp::create(*this, types, condition,
                                  /*addThenBlock=*/true, /*addElseBlock=*/true);
  InsertionGuard guard(*this);
  auto fill = [&](Block *block, llvm::function_ref<Values()> body) {
    setInsertionPointToStart(block);
    Values results = body();
    scf::YieldOp::create(*this, results);
  };
  fill(branch.thenBlock(), thenBody);
  fill(branch.elseBlock(), elseBody);
  return Values(branch.getResults());
}

KernelBuilder::Values
KernelBuilder::loop(Value begin, Value end, Value step, ValueRange initial,
                    llvm::function_ref<Values(Value, ValueRange)> body) {
  auto loop = scf::ForOp::create(
      *this, begin, end, step, initial,
      [&](OpBuilder &builder, Location, Value index, ValueRange carried) {
        InsertionGuard guard(*this);
        restoreInsertionPoint(builder.saveInsertionPoint());
        Values results = body(index, carried);
        scf::YieldOp::create(*this, results);
      });
  return Values(loop.getResults());
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

Value KernelBuilder::assembly(llvm::StringRef text, llvm::StringRef constraints,
                              ValueRange operands, Type result) {
  auto op = LLVM::InlineAsmOp::create(
      *this, result ? TypeRange(result) : TypeRange(), operands, text,
      constraints, /*has_side_effects=*/true, /*is_align_stack=*/false,
      LLVM::tailcallkind::TailCallKind::None,
      LLVM::AsmDialectAttr::get(getContext(), LLVM::AsmDialect::AD_ATT),
      ArrayAttr());
  return result ? op->getResult(0) : Value();
}

void KernelBuilder::barrier(Value id, int threads) {
  NVVM::BarrierOp::create(*this, Type(), id, constant(threads),
                          NVVM::BarrierReductionAttr(), Value());
}
void KernelBuilder::arriveAtBarrier(Value id, int threads) {
  NVVM::BarrierArriveOp::create(*this, id, constant(threads));
}

void KernelBuilder::waitForPhase(Value address, Value parity) {
  // The ticks bound how long one attempt may suspend the thread.
  NVVM::MBarrierTryWaitParityOp::create(*this, shared(address), parity,
                                        constant(10000000));
}
