//===- Epilogue.cpp - From sums to memory ---------------------------------===//
//
// A warpgroup's sums leave through staging buffers of 64 rows, swizzled as the
// tensor copy engine wants them, in a ring: fill a buffer, make it visible to
// the engine, one barrier, one thread starts the copy. Before the barrier that
// thread waits until the buffer after this one has been read, so that the same
// barrier also frees it.
//
// Where a second tensor is read, the ring has a buffer for each round, which
// was filled with the tensor's values; the results replace them in place.
//
//===----------------------------------------------------------------------===//
#include "compiler/emit/nvptx/gemm/Activation.h"
#include "compiler/emit/nvptx/gemm/Consumers.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::gemm;

/// createpolicy's encoding of evict_first, as CUTLASS has it.
static constexpr int64_t dropFromCache = 0x12F0000000000000;

Epilogue::Epilogue(KernelFrame &frame, const ConsumerIdentity &self)
    : frame(frame), b(frame.b), self(self) {
  const SharedLayout &layout = frame.layout;
  ring =
      b.add(b.add(frame.sharedBase, layout.ringOffset),
            b.multiply(self.index, frame.config.ring * layout.ringBufferBytes));
  laneColumn = b.shiftLeft(b.bitAnd(frame.lane, 3), 1);
  if (frame.config.output == Output::BFloat16)
    computeMatrixOffsets();
  else
    computePairOffsets();
  if (frame.config.cacheHints)
    dropPolicy = b.constant64(dropFromCache);
}

/// stmatrix and ldmatrix: lane l gives the address of row l % 8 of the matrix
/// l / 8, of four matrices of 8 by 8: two below each other, two beside.
void Epilogue::computeMatrixOffsets() {
  int rowBytes = frame.config.ringBytes;
  Value low = b.bitAnd(frame.lane, 7);
  Value row =
      b.add(low, b.shiftLeft(b.bitAnd(b.shiftRight(frame.lane, 3), 1), 3));
  row = b.add(row, b.shiftLeft(self.warp, 4));
  Value right = b.shiftRight(frame.lane, 4);
  // The swizzle: 16-byte places within 128 bytes, exchanged by the row.
  Value place = rowBytes == 128 ? b.bitXor(right, low)
                                : b.bitXor(right, b.shiftRight(low, 1));
  Value offset =
      b.add(b.shiftLeft(row, rowBytes == 128 ? 7 : 6), b.shiftLeft(place, 4));
  for (int i = 0; i < rowBytes / 32; ++i)
    offsets.push_back(b.bitXor(offset, 32 * i));
}

/// f32: a lane stores two columns of row lane / 4 for each 8 columns.
void Epilogue::computePairOffsets() {
  Value low = b.shiftRight(frame.lane, 2);
  Value row = b.add(low, b.shiftLeft(self.warp, 4));
  Value quarter = b.bitAnd(frame.lane, 3);
  Value place = b.bitXor(b.shiftRight(quarter, 1), low);
  Value offset = b.add(b.shiftLeft(row, 7), b.shiftLeft(place, 4));
  offset = b.add(offset, b.shiftLeft(b.bitAnd(quarter, 1), 3));
  for (int i = 0; i < 4; ++i)
    offsets.push_back(b.bitXor(offset, 32 * i));
}

Value Epilogue::getBuffer(int index) {
  return b.add(ring, index * frame.layout.ringBufferBytes);
}

/// First row of D of a group of 64.
Value Epilogue::getRow(const Item &item, int group) {
  Value row = item.row;
  if (frame.config.schedule == Schedule::Cooperative)
    row = b.add(row, b.multiply(self.index, getWarpgroupRows(frame.config)));
  return b.add(row, 64 * group);
}

/// The columns at which staging buffers begin. The last one may overlap the one
/// before it.
static SmallVector<int> getBufferColumns(const GemmConfig &config) {
  int width = getRingColumns(config);
  SmallVector<int> columns;
  for (int first = 0; first + width <= config.tileN; first += width)
    columns.push_back(first);
  if (config.tileN % width)
    columns.push_back(config.tileN - width);
  return columns;
}

//===----------------------------------------------------------------------===//
// What is read besides the sums
//===----------------------------------------------------------------------===//

void Epilogue::fetchSide(const Item &item) {
  const GemmConfig &config = frame.config;
  if (!readsSide(config))
    return;
  b.ifThen(self.isLead, [&] {
    NVVM::CpAsyncBulkWaitGroupOp::create(b, 0, b.getUnitAttr());
    Value barrier = b.shared(getBarrier(frame, frame.sideBarriers, self.index));
    int bytes = config.ring * frame.layout.ringBufferBytes;
    NVVM::MBarrierArriveExpectTxOp::create(
        b, Type(), barrier, b.constant(bytes), NVVM::MemScopeKind::CTA,
        /*relaxed=*/false, /*predicate=*/Value());
    auto clusterPointer = LLVM::LLVMPointerType::get(b.getContext(), 7);
    int buffer = 0;
    for (int group = 0; group < getWarpgroupRows(config) / 64; ++group)
      for (int column : getBufferColumns(config)) {
        Value target = LLVM::AddrSpaceCastOp::create(
            b, clusterPointer, b.shared(getBuffer(buffer++)));
        NVVM::CpAsyncBulkTensorGlobalToSharedClusterOp::create(
            b, target, frame.arguments.mapSide,
            getCoordinates(frame, b.add(item.column, column),
                           getRow(item, group), item),
            barrier, ValueRange(), /*multicastMask=*/Value(),
            /*l2CacheHint=*/dropPolicy, NVVM::TMALoadMode::TILE,
            /*isCTAOnly=*/false, NVVM::CTAGroupKindAttr(),
            /*predicate=*/Value());
      }
  });
}

SmallVector<Value> Epilogue::loadBias(const Item &item) {
  if (!frame.config.bias)
    return {};
  Value first = b.add(item.column, laneColumn);
  // Past D's last column any of its values will do: nothing is stored there.
  Value last = b.subtract(frame.arguments.columns, b.constant(2));
  SmallVector<Value> values;
  for (int i = 0; i < frame.config.tileN / 8; ++i) {
    Value column = b.minimum(b.add(first, 8 * i), last);
    Value pointer = b.element(frame.arguments.bias, column, b.getI16Type());
    values.push_back(b.load(pointer, b.getI32Type(), 4, /*invariant=*/true));
  }
  return values;
}

/// The second tensor's values at the places of the sums of a buffer.
SmallVector<Value> Epilogue::readSide(int buffer) {
  Value base = getBuffer(buffer);
  Type i32 = b.getI32Type();
  auto four =
      LLVM::LLVMStructType::getLiteral(b.getContext(), {i32, i32, i32, i32});
  SmallVector<Value> packed;
  for (Value offset : offsets) {
    Value matrices = NVVM::LdMatrixOp::create(
        b, four, b.shared(b.add(base, offset)), 4, NVVM::MMALayout::row,
        NVVM::LdStMatrixShapeAttr::get(b.getContext(), 8, 8),
        NVVM::LdStMatrixEltType::B16);
    for (int i = 0; i < 4; ++i)
      packed.push_back(b.extractField(matrices, i));
  }
  return packed;
}

//===----------------------------------------------------------------------===//
// Staging buffers
//===----------------------------------------------------------------------===//

void Epilogue::sendBuffer(const Item &item, const Place &place, Value map,
                          llvm::function_ref<void(Value)> fill) {
  const GemmConfig &config = frame.config;
  Value buffer = getBuffer(nextBuffer);
  bool waits = !readsSide(config);
  auto waitForReads = [&](int stillReading) {
    b.ifThen(self.isLead, [&] {
      NVVM::CpAsyncBulkWaitGroupOp::create(b, stillReading, b.getUnitAttr());
    });
  };
  if (waits && config.ring == 1) {
    waitForReads(0);
    synchronizeGroup(frame, self);
  }
  fill(buffer);
  NVVM::FenceProxyOp::create(
      b, NVVM::ProxyKind::async_shared,
      NVVM::SharedSpaceAttr::get(b.getContext(),
                                 NVVM::SharedSpace::shared_cta));
  if (waits && config.ring > 1)
    waitForReads(config.ring - 2);
  synchronizeGroup(frame, self);
  b.ifThen(self.isLead, [&] {
    auto coordinates = getCoordinates(frame, b.add(item.column, place.column),
                                      getRow(item, place.group), item);
    if (config.output == Output::Float32Accumulate)
      NVVM::CpAsyncBulkTensorReduceOp::create(
          b, map, b.shared(buffer), NVVM::TMAReduxKind::ADD,
          NVVM::TMAStoreMode::TILE, coordinates, Value());
    else
      NVVM::CpAsyncBulkTensorSharedCTAToGlobalOp::create(
          b, map, b.shared(buffer), coordinates, dropPolicy,
          NVVM::TMAStoreMode::TILE, /*predicate=*/Value());
    NVVM::CpAsyncBulkCommitGroupOp::create(b);
  });
  nextBuffer = (nextBuffer + 1) % config.ring;
}

void Epilogue::writeMatrices(Value buffer, ArrayRef<Value> packed) {
  for (auto [i, offset] : llvm::enumerate(offsets))
    NVVM::StMatrixOp::create(
        b, b.shared(b.add(buffer, offset)), packed.slice(4 * i, 4),
        NVVM::MMALayout::row,
        NVVM::LdStMatrixShapeAttr::get(b.getContext(), 8, 8),
        NVVM::LdStMatrixEltType::B16);
}

void Epilogue::writePairs(Value buffer, ArrayRef<Value> sums) {
  auto two = VectorType::get(2, b.getF32Type());
  for (auto [i, offset] : llvm::enumerate(offsets))
    for (int half = 0; half < 2; ++half) {
      Value pair = LLVM::UndefOp::create(b, two);
      for (int lane = 0; lane < 2; ++lane)
        pair = LLVM::InsertElementOp::create(
            b, pair, sums[4 * i + 2 * half + lane], b.constant(lane));
      // The lower half of a warp's rows is 8 rows on.
      b.store(pair, b.shared(b.add(b.add(buffer, offset), half * 8 * 128)), 8);
    }
}

//===----------------------------------------------------------------------===//
// A tile
//===----------------------------------------------------------------------===//

static SmallVector<Value> pack(KernelBuilder &b, ArrayRef<Value> values) {
  SmallVector<Value> packed;
  for (size_t i = 0; i < values.size(); i += 2)
    packed.push_back(b.packBFloat16(values[i], values[i + 1]));
  return packed;
}

/// bias[column], for the thread's columns of the sums.
static void addBias(KernelBuilder &b, MutableArrayRef<Value> sums,
                    ArrayRef<Value> bias) {
  for (auto [i, packed] : llvm::enumerate(bias)) {
    Value low = b.unpackLow(packed), high = b.unpackHigh(packed);
    for (int row = 0; row < 2; ++row) {
      Value *pair = &sums[4 * i + 2 * row];
      pair[0] = b.addF32(pair[0], low);
      pair[1] = b.addF32(pair[1], high);
    }
  }
}

/// Two f32 of each.
static SmallVector<Value> unpack(KernelBuilder &b, ArrayRef<Value> packed) {
  SmallVector<Value> values;
  for (Value pair : packed) {
    values.push_back(b.unpackLow(pair));
    values.push_back(b.unpackHigh(pair));
  }
  return values;
}

void Epilogue::applySide(MutableArrayRef<Value> sums, int buffer) {
  const GemmConfig &config = frame.config;
  SmallVector<Value> side = unpack(b, readSide(buffer));
  bool adds = config.side == Side::AddResidual;
  if (!adds)
    side = emitActivationGradient(b, config.activation, side);
  for (auto [sum, value] : llvm::zip_equal(sums, side))
    sum = adds ? b.addF32(sum, value) : b.multiplyF32(sum, value);
}

/// The sums of one buffer's columns, which the caller hands over.
void Epilogue::storeBFloat16(const Item &item, const Place &place,
                             MutableArrayRef<Value> sums,
                             ArrayRef<Value> bias) {
  const GemmConfig &config = frame.config;
  auto send = [&](Value map, ArrayRef<Value> packed) {
    sendBuffer(item, place, map,
               [&](Value buffer) { writeMatrices(buffer, packed); });
  };
  if (config.bias)
    addBias(b, sums, bias);
  SmallVector<Value> before;
  if (config.side == Side::SavePreactivation)
    before = pack(b, sums);
  if (config.side != Side::ActivationGradient)
    llvm::copy(emitActivation(b, config.activation, sums), sums.begin());
  if (readsSide(config))
    applySide(sums, nextBuffer);
  SmallVector<Value> after = pack(b, sums);
  if (config.side == Side::SavePreactivation)
    send(frame.arguments.mapSide, before);
  send(frame.arguments.mapD, after);
}

void Epilogue::store(const Item &item, ArrayRef<Value> sums,
                     ArrayRef<Value> bias, Value sideParity) {
  const GemmConfig &config = frame.config;
  if (readsSide(config))
    b.waitForPhase(getBarrier(frame, frame.sideBarriers, self.index),
                   sideParity);
  int groupSums = config.tileN / 2, width = getRingColumns(config);
  SmallVector<Value> finals(sums);
  for (int group = 0; group < getWarpgroupRows(config) / 64; ++group)
    for (int column : getBufferColumns(config)) {
      Place place{group, column};
      // The sums of one buffer; a copy, since buffers may overlap.
      int first = group * groupSums + column / 2;
      SmallVector<Value> part(sums.slice(first, width / 2));
      if (config.output == Output::BFloat16)
        storeBFloat16(item, place, part,
                      config.bias ? bias.slice(column / 8, width / 8)
                                  : ArrayRef<Value>());
      else
        sendBuffer(item, place, frame.arguments.mapD,
                   [&](Value buffer) { writePairs(buffer, part); });
      std::copy(part.begin(), part.end(), finals.begin() + first);
    }
  if (config.columnSums)
    storeColumnSums(frame, self, item, finals);
}

void Epilogue::finish() {
  b.ifThen(self.isLead,
           [&] { NVVM::CpAsyncBulkWaitGroupOp::create(b, 0, UnitAttr()); });
}
