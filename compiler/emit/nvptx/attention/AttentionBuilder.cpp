//===- AttentionBuilder.cpp - Instructions of attention kernels -----------===//
#include "compiler/emit/nvptx/attention/AttentionBuilder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::attention;

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

Value AttentionBuilder::undefined(Type type) {
  return LLVM::UndefOp::create(*this, type);
}
Value AttentionBuilder::subtractF32(Value a, Value b) {
  return arith::SubFOp::create(*this, a, b);
}
Value AttentionBuilder::maximumF32(Value a, Value b) {
  return LLVM::MaxNumOp::create(*this, a, b);
}
Value AttentionBuilder::negateF32(Value a) {
  return arith::NegFOp::create(*this, a);
}
Value AttentionBuilder::equalF32(Value a, Value b) {
  return arith::CmpFOp::create(*this, arith::CmpFPredicate::OEQ, a, b);
}
Value AttentionBuilder::lessF32(Value a, Value b) {
  return arith::CmpFOp::create(*this, arith::CmpFPredicate::OLT, a, b);
}
Value AttentionBuilder::exp2F32(Value a) {
  return pureAssembly("ex2.approx.ftz.f32 $0, $1;", "=f,f", a, getF32Type());
}
Value AttentionBuilder::log2F32(Value a) {
  return pureAssembly("lg2.approx.ftz.f32 $0, $1;", "=f,f", a, getF32Type());
}

/// x = n + f with f in [-0.5, 0.5]: adding 1.5 * 2^23 rounds to an integer, in
/// the low bits; 2^f by a cubic; n is added to the exponent.
Value AttentionBuilder::polynomialExp2F32(Value a) {
  constexpr double coefficients[] = {0.05517162931719011, 0.2426111191666793,
                                     0.6932609927975841, 0.9999280739121139};
  constexpr double rounder = 12582912.0;
  Value clamped = maximumF32(a, constantF32(-126.0));
  Value shifted = addF32(clamped, constantF32(rounder));
  Value fraction =
      subtractF32(clamped, subtractF32(shifted, constantF32(rounder)));
  Value power = constantF32(coefficients[0]);
  for (int i = 1; i < 4; ++i)
    power = fusedF32(power, fraction, constantF32(coefficients[i]));
  Value bits = LLVM::BitcastOp::create(*this, getI32Type(), power);
  Value exponent = LLVM::BitcastOp::create(*this, getI32Type(), shifted);
  return LLVM::BitcastOp::create(*this, getF32Type(),
                                 add(bits, shiftLeft(exponent, 23)));
}

Value AttentionBuilder::extend(Value a) {
  return createOrFold<arith::ExtUIOp>(getI64Type(), a);
}
Value AttentionBuilder::maximum(Value a, Value b) {
  return createOrFold<arith::MaxSIOp>(a, b);
}

Value AttentionBuilder::divideUnsigned(Value a, Value b) {
  return createOrFold<arith::DivUIOp>(a, b);
}

Value AttentionBuilder::exchange(Value a, int bits) {
  return NVVM::ShflOp::create(*this, a.getType(), constant(-1), a,
                              constant(bits), constant(31),
                              NVVM::ShflKind::bfly, UnitAttr());
}
Value AttentionBuilder::fromLane(Value a, Value lane) {
  return NVVM::ShflOp::create(*this, a.getType(), constant(-1), a, lane,
                              constant(31), NVVM::ShflKind::idx, UnitAttr());
}

Value AttentionBuilder::pureAssembly(llvm::StringRef text,
                                     llvm::StringRef constraints,
                                     ValueRange operands, Type result) {
  return LLVM::InlineAsmOp::create(
             *this, result, operands, text, constraints,
             /*has_side_effects=*/false, /*is_align_stack=*/false,
             LLVM::tailcallkind::TailCallKind::None,
             LLVM::AsmDialectAttr::get(getContext(), LLVM::AsmDialect::AD_ATT),
             ArrayAttr())
      ->getResult(0);
}
Value AttentionBuilder::hide(Value a) {
  return assembly("mov.b32 $0, $1;", "=r,r", a, a.getType());
}

Type AttentionBuilder::structOfF32(int count) {
  return LLVM::LLVMStructType::getLiteral(
      getContext(), SmallVector<Type>(count, getF32Type()));
}
Values AttentionBuilder::extractAll(Value structure, int count) {
  Values values;
  for (int i = 0; i < count; ++i)
    values.push_back(extractField(structure, i));
  return values;
}

//===----------------------------------------------------------------------===//
// Barriers and copies
//===----------------------------------------------------------------------===//

void AttentionBuilder::synchronizeWarp() {
  NVVM::SyncWarpOp::create(*this, constant(-1));
}
void AttentionBuilder::arrive(Value barrier) {
  NVVM::MBarrierArriveOp::create(*this, getI64Type(), shared(barrier), Value());
}
void AttentionBuilder::expectBytes(Value barrier, int bytes) {
  NVVM::MBarrierArriveExpectTxOp::create(
      *this, Type(), shared(barrier), constant(bytes), NVVM::MemScopeKind::CTA,
      /*relaxed=*/false, /*predicate=*/Value());
}
void AttentionBuilder::copyBox(Value map, Value target, ValueRange coordinates,
                               Value barrier) {
  NVVM::CpAsyncBulkTensorGlobalToSharedClusterOp::create(
      *this, shared(target), map, coordinates, shared(barrier), ValueRange(),
      /*multicastMask=*/Value(), /*l2CacheHint=*/Value(),
      NVVM::TMALoadMode::TILE, /*isCTAOnly=*/true, NVVM::CTAGroupKindAttr(),
      /*predicate=*/Value());
}
// NVVM's operation takes an address of a cluster, which costs two conversions.
void AttentionBuilder::copyBytes(Value target, Value source, int bytes,
                                 Value barrier) {
  assembly("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
           "[$0], [$1], $2, [$3];",
           "r,l,r,r,~{memory}", {target, source, constant(bytes), barrier});
}
Values AttentionBuilder::loadSharedPair(Value address) {
  Value pair = assembly("ld.shared.v2.f32 {$0, $1}, [$2];", "=f,=f,r", address,
                        structOfF32(2));
  return extractAll(pair, 2);
}
void AttentionBuilder::storeBox(Value map, Value source,
                                ValueRange coordinates) {
  NVVM::CpAsyncBulkTensorSharedCTAToGlobalOp::create(
      *this, map, shared(source), coordinates, /*l2CacheHint=*/Value(),
      NVVM::TMAStoreMode::TILE, /*predicate=*/Value());
}
void AttentionBuilder::commitCopies() {
  NVVM::CpAsyncBulkCommitGroupOp::create(*this);
}
void AttentionBuilder::waitForReads(int groups) {
  NVVM::CpAsyncBulkWaitGroupOp::create(*this, groups, getUnitAttr());
}
void AttentionBuilder::waitForWrites(int groups) {
  NVVM::CpAsyncBulkWaitGroupOp::create(*this, groups, UnitAttr());
}
void AttentionBuilder::fenceSharedStores() {
  NVVM::FenceProxyOp::create(
      *this, NVVM::ProxyKind::async_shared,
      NVVM::SharedSpaceAttr::get(getContext(), NVVM::SharedSpace::shared_cta));
}
void AttentionBuilder::storeMatrices(Value address, ValueRange packed) {
  NVVM::StMatrixOp::create(*this, shared(address), packed, NVVM::MMALayout::row,
                           NVVM::LdStMatrixShapeAttr::get(getContext(), 8, 8),
                           NVVM::LdStMatrixEltType::B16);
}
Values AttentionBuilder::packSums(ArrayRef<Value> sums) {
  Values packed;
  for (size_t i = 0; i < sums.size(); i += 2)
    packed.push_back(packBFloat16(sums[i], sums[i + 1]));
  return packed;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

void AttentionBuilder::fenceProducts() {
  NVVM::WgmmaFenceAlignedOp::create(*this);
}
void AttentionBuilder::commitProducts() {
  NVVM::WgmmaGroupSyncAlignedOp::create(*this);
}
void AttentionBuilder::waitForProducts(int groups) {
  NVVM::WgmmaWaitGroupSyncOp::create(*this, groups);
}

/// "=f,=f,...,0,1,...": sums go in and come out in the same registers.
static std::string tieSums(int count) {
  std::string outputs, inputs;
  for (int i = 0; i < count; ++i) {
    outputs += "=f,";
    inputs += std::to_string(i) + ",";
  }
  return outputs + inputs;
}

Values AttentionBuilder::settle(int groups, ArrayRef<Value> sums) {
  int count = sums.size();
  std::string constraints = tieSums(count);
  constraints.pop_back();
  std::string text =
      "wgmma.wait_group.sync.aligned " + std::to_string(groups) + ";";
  Value settled = assembly(text, constraints, sums, structOfF32(count));
  return extractAll(settled, count);
}

/// The shared memory matrix descriptor of wgmma (PTX ISA, "Matrix-descriptor"):
/// address, leading and stride byte offsets in units of 16 bytes; bits 62-63:
/// the 128-byte swizzle. The leading offset is that of the next 64 columns,
/// where they are the index of the result.
Value AttentionBuilder::getDescriptor(Value address, int leadingBytes) {
  constexpr int64_t swizzle128 = int64_t(1) << 62;
  constexpr int64_t strideOffset = int64_t(1024 >> 4) << 32;
  int64_t leadingOffset = int64_t(leadingBytes >> 4) << 16;
  return LLVM::OrOp::create(
      *this, extend(address),
      constant64(swizzle128 | strideOffset | leadingOffset));
}

/// One step of 16 of a product with both operands in shared memory.
Value AttentionBuilder::multiply64(Value sums, Type type, Value a, Value b,
                                   int columns, bool first, bool transposed) {
  // "col" of A and "row" of B are the transposed ones.
  auto layoutA = transposed ? NVVM::MMALayout::col : NVVM::MMALayout::row;
  auto layoutB = transposed ? NVVM::MMALayout::row : NVVM::MMALayout::col;
  return NVVM::WgmmaMmaAsyncOp::create(
      *this, type, sums, a, b,
      NVVM::MMAShapeAttr::get(getContext(), 64, columns, 16),
      NVVM::WGMMATypes::bf16, NVVM::WGMMATypes::bf16, NVVM::WGMMATypes::f32,
      first ? NVVM::WGMMAScaleOut::zero : NVVM::WGMMAScaleOut::one,
      NVVM::WGMMAScaleIn::one, NVVM::WGMMAScaleIn::one, layoutA, layoutB,
      NVVM::MMAIntOverflowAttr());
}

Values AttentionBuilder::multiplyRows(Matrix a, Matrix b, int columns,
                                      int depth) {
  Type type = structOfF32(columns / 2);
  Value sums = undefined(type);
  for (int k = 0; k < depth / 16; ++k) {
    // 16 columns are 32 bytes; 64 columns are all rows of 128 bytes.
    auto at = [&](Matrix matrix) {
      int offset = k / 4 * (matrix.rows * 128 >> 4) + k % 4 * 2;
      return getDescriptor(add(matrix.address, offset), 16);
    };
    sums = multiply64(sums, type, at(a), at(b), columns, k == 0,
                      /*transposed=*/false);
  }
  commitProducts();
  return extractAll(sums, columns / 2);
}

Values AttentionBuilder::multiplyColumns(Matrix a, Matrix b, int depth) {
  Type type = structOfF32(32);
  Value sums = undefined(type);
  for (int k = 0; k < depth / 16; ++k) {
    // 16 rows are 2048 bytes.
    auto at = [&](Matrix matrix) {
      return getDescriptor(add(matrix.address, 128 * k), 16);
    };
    sums = multiply64(sums, type, at(a), at(b), 64, k == 0,
                      /*transposed=*/true);
  }
  commitProducts();
  return extractAll(sums, 32);
}

/// wgmma with its first operand in registers, for which NVVM has no operation.
/// $0 to $n-1 and the tied operands are the sums, then four registers of the
/// operand, the descriptor and, with `predicated`, the flag to keep the sums.
static std::string getAccumulateText(int sums, bool predicated) {
  auto operands = [](int first, int count) {
    std::string text = "{";
    for (int i = 0; i < count; ++i)
      text += (i ? ", $" : "$") + std::to_string(first + i);
    return text + "}";
  };
  std::string product = "wgmma.mma_async.sync.aligned.m64n" +
                        std::to_string(2 * sums) + "k16.f32.bf16.bf16 " +
                        operands(0, sums) + ", " + operands(2 * sums, 4) +
                        ", $" + std::to_string(2 * sums + 4) + ", " +
                        (predicated ? "p" : "1") + ", 1, 1, 1;";
  if (!predicated)
    return product;
  return "{\n.reg .pred p;\nsetp.ne.b32 p, $" + std::to_string(2 * sums + 5) +
         ", 0;\n" + product + "\n}";
}

Values AttentionBuilder::accumulate(ArrayRef<Value> sums,
                                    ArrayRef<Value> packed, Matrix b, int depth,
                                    Value keep) {
  int count = sums.size();
  Type type = structOfF32(count);
  std::string constraints = tieSums(count) + "r,r,r,r,l" + (keep ? ",r" : "");
  std::string text = getAccumulateText(count, bool(keep));
  Values running(sums);
  for (int k = 0; k < depth / 16; ++k) {
    Values operands(running);
    operands.append(packed.begin() + 4 * k, packed.begin() + 4 * k + 4);
    operands.push_back(getDescriptor(add(b.address, 128 * k), b.rows * 128));
    if (keep)
      operands.push_back(k == 0 ? keep : constant(1));
    running = extractAll(assembly(text, constraints, operands, type), count);
  }
  commitProducts();
  return running;
}
