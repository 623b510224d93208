//===- ElementOps.cpp - Elements of each kind of operation ----------------===//
#include "compiler/emit/loops/ElementEmitter.h"
#include "compiler/emit/loops/ScalarOps.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::emit;
using IP = arith::CmpIPredicate;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static Index concatenate(llvm::ArrayRef<Index> groups) {
  Index result;
  for (const Index &group : groups)
    result.append(group.begin(), group.end());
  return result;
}

llvm::SmallVector<Run> emit::getRuns(train::ReduceOp op) {
  llvm::SmallVector<Run> runs;
  for (auto [dim, size] : llvm::enumerate(typeOf(op.getOperand()).getShape())) {
    if (size == 1)
      continue;
    bool reduced = llvm::is_contained(op.getDimensions(), int64_t(dim));
    if (!runs.empty() && runs.back().reduced == reduced)
      runs.back().size *= size;
    else
      runs.push_back({size, reduced});
  }
  return runs;
}

void ElementEmitter::remember(Value value, llvm::ArrayRef<Digit> index,
                              Value element) {
  std::vector<int64_t> key;
  for (const Digit &digit : index)
    key.insert(key.end(), {digit.id, digit.size});
  levels[levelOf(index)]->elements[{value.getAsOpaquePointer(), key}] = element;
}

Value ElementEmitter::emit(Value value, llvm::ArrayRef<Digit> index) {
  std::vector<int64_t> key;
  for (const Digit &digit : index)
    key.insert(key.end(), {digit.id, digit.size});
  unsigned level = levelOf(index);
  std::pair<void *, std::vector<int64_t>> entry{value.getAsOpaquePointer(),
                                                std::move(key)};
  auto found = levels[level]->elements.find(entry);
  if (found != levels[level]->elements.end())
    return found->second;
  Value result;
  atLevel(level, [&] { result = compute(value, index); });
  levels[level]->elements[entry] = result;
  return result;
}

Value ElementEmitter::compute(Value value, llvm::ArrayRef<Digit> index) {
  if (auto it = providers.find(value); it != providers.end())
    if (std::optional<Value> provided = it->second(index))
      return *provided;
  Operation *op = value.getDefiningOp();
  if (!op)
    return load(buffers.lookup(value), index);
  if (auto compare = dyn_cast<train::CompareOp>(op))
    if (std::optional<Value> narrow = computeIotaCompare(compare, index))
      return *narrow;
  if (auto divide = dyn_cast<train::DivideOp>(op))
    if (std::optional<Value> quotient = computeSharedQuotient(divide, index))
      return *quotient;
  if (auto exponential = dyn_cast<train::ExponentialOp>(op))
    if (std::optional<Value> power =
            computeShiftedExponential(exponential, index))
      return *power;
  if (isScalarOp(op)) {
    llvm::SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(emit(operand, index));
    return isPlanning() ? Value() : emitPointwise(*scalar, op, operands);
  }
  return TypeSwitch<Operation *, Value>(op)
      .Case<train::ConstantOp>([&](train::ConstantOp constant) {
        return computeConstant(cast<DenseElementsAttr>(constant.getValue()),
                               index);
      })
      .Case<train::IotaOp>([&](auto iota) { return computeIota(iota, index); })
      .Case<train::ReduceOp>(
          [&](auto reduce) { return computeReduce(reduce, index); })
      .Case<train::PadOp>([&](auto pad) { return computePad(pad, index); })
      .Case<train::ConcatenateOp>(
          [&](auto join) { return computeConcatenate(join, index); })
      .Case<train::GatherOp>(
          [&](auto gather) { return computeGather(gather, index); })
      .Case<train::DropoutOp>(
          [&](auto dropout) { return computeDropout(dropout, index); })
      .Default([&](Operation *view) {
        return emit(view->getOperand(0), viewIndex(view, index));
      });
}

//===----------------------------------------------------------------------===//
// Renumbering
//===----------------------------------------------------------------------===//

namespace {
/// Dimensions in groups of neighbours that an operation treats alike.
struct Grouping {
  llvm::SmallVector<int64_t> sizes;
  llvm::SmallVector<int64_t> firstDims;

  /// `join`: the dimension belongs to the group of the one before.
  void add(int64_t dim, int64_t size, bool join) {
    if (join && !sizes.empty()) {
      sizes.back() *= size;
      return;
    }
    sizes.push_back(size);
    firstDims.push_back(dim);
  }
};
} // namespace

Index ElementEmitter::viewIndex(Operation *op, llvm::ArrayRef<Digit> index) {
  llvm::ArrayRef<int64_t> shape = typeOf(op->getResult(0)).getShape();
  if (isa<train::ReshapeOp>(op))
    return Index(index.begin(), index.end());
  Grouping grouping;
  if (auto broadcast = dyn_cast<train::BroadcastInDimOp>(op)) {
    llvm::SmallVector<bool> kept(shape.size(), false);
    for (auto [i, dim] : llvm::enumerate(broadcast.getDimensions()))
      kept[dim] = typeOf(broadcast.getOperand()).getDimSize(i) == shape[dim];
    llvm::SmallVector<bool> groupKept;
    for (auto [dim, size] : llvm::enumerate(shape)) {
      if (size == 1)
        continue;
      bool join = !groupKept.empty() && groupKept.back() == kept[dim];
      grouping.add(dim, size, join);
      if (!join)
        groupKept.push_back(kept[dim]);
    }
    llvm::SmallVector<Index> groups = splitGroups(index, grouping.sizes);
    Index result;
    for (auto [group, keep] : llvm::zip(groups, groupKept))
      if (keep)
        result.append(group.begin(), group.end());
    return result;
  }
  if (auto transpose = dyn_cast<train::TransposeOp>(op)) {
    auto permutation = transpose.getPermutation();
    for (auto [dim, size] : llvm::enumerate(shape))
      grouping.add(dim, size,
                   dim > 0 && permutation[dim] == permutation[dim - 1] + 1);
    llvm::SmallVector<Index> groups = splitGroups(index, grouping.sizes);
    llvm::SmallVector<size_t> order;
    for (size_t i = 0; i < groups.size(); ++i)
      order.push_back(i);
    llvm::sort(order, [&](size_t x, size_t y) {
      return permutation[grouping.firstDims[x]] <
             permutation[grouping.firstDims[y]];
    });
    Index result;
    for (size_t i : order)
      result.append(groups[i].begin(), groups[i].end());
    return result;
  }
  if (auto slice = dyn_cast<train::SliceOp>(op)) {
    llvm::ArrayRef<int64_t> operandShape =
        typeOf(slice.getOperand()).getShape();
    llvm::SmallVector<bool> groupSliced;
    for (auto [dim, size] : llvm::enumerate(shape)) {
      bool sliced = size != operandShape[dim];
      bool join = !sliced && !groupSliced.empty() && !groupSliced.back();
      grouping.add(dim, size, join);
      if (!join)
        groupSliced.push_back(sliced);
    }
    llvm::SmallVector<Index> groups = splitGroups(index, grouping.sizes);
    Index result;
    for (auto [group, sliced, dim] :
         llvm::zip(groups, groupSliced, grouping.firstDims)) {
      if (!sliced) {
        result.append(group.begin(), group.end());
        continue;
      }
      Digit position = group.empty() ? zeroDigit() : merge(group);
      result.push_back(affine(position, slice.getStrides()[dim],
                              slice.getStarts()[dim], operandShape[dim]));
    }
    return result;
  }
  auto reverse = cast<train::ReverseOp>(op);
  llvm::SmallVector<bool> groupReversed;
  for (auto [dim, size] : llvm::enumerate(shape)) {
    bool reversed =
        llvm::is_contained(reverse.getDimensions(), int64_t(dim)) && size > 1;
    bool join = !reversed && !groupReversed.empty() && !groupReversed.back();
    grouping.add(dim, size, join);
    if (!join)
      groupReversed.push_back(reversed);
  }
  llvm::SmallVector<Index> groups = splitGroups(index, grouping.sizes);
  Index result;
  for (auto [group, reversed, size] :
       llvm::zip(groups, groupReversed, grouping.sizes)) {
    if (reversed)
      result.push_back(affine(merge(group), -1, size - 1, size));
    else
      result.append(group.begin(), group.end());
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Several sources
//===----------------------------------------------------------------------===//

Value ElementEmitter::computePad(train::PadOp op, llvm::ArrayRef<Digit> index) {
  RankedTensorType type = op.getType();
  llvm::ArrayRef<int64_t> operandShape = typeOf(op.getOperand()).getShape();
  Grouping grouping;
  llvm::SmallVector<bool> groupPadded;
  for (auto [dim, size] : llvm::enumerate(type.getShape())) {
    bool padded =
        op.getLow()[dim] || op.getHigh()[dim] || op.getInterior()[dim];
    bool join = !padded && !groupPadded.empty() && !groupPadded.back();
    grouping.add(dim, size, join);
    if (!join)
      groupPadded.push_back(padded);
  }
  llvm::SmallVector<Index> groups = splitGroups(index, grouping.sizes);
  Value inside;
  llvm::SmallVector<Digit> positions; // position - low, per padded group
  auto require = [&](Value condition) {
    inside = inside ? scalar->both(inside, condition) : condition;
  };
  for (auto [group, padded, dim] :
       llvm::zip(groups, groupPadded, grouping.firstDims)) {
    if (!padded)
      continue;
    positions.push_back(group.empty() ? zeroDigit() : merge(group));
    if (isPlanning())
      continue;
    int64_t step = op.getInterior()[dim] + 1,
            span = (operandShape[dim] - 1) * step + 1;
    Value shifted = scalar->create<arith::SubIOp>(
        positions.back().value, number(op.getLow()[dim]),
        arith::IntegerOverflowFlags::nsw);
    // Unsigned, so that what lies before the first element counts as far behind
    // the last.
    require(scalar->compare(IP::ult, shifted,
                            number(operandShape[dim] ? span : 0)));
    if (step > 1)
      require(scalar->compare(
          IP::eq, scalar->create<arith::RemUIOp>(shifted, number(step)),
          number(0)));
  }
  if (positions.empty())
    return emit(op.getOperand(), index);
  auto element = [&]() -> Value {
    Index operandIndex;
    size_t next = 0;
    for (auto [group, padded, dim] :
         llvm::zip(groups, groupPadded, grouping.firstDims)) {
      if (!padded) {
        operandIndex.append(group.begin(), group.end());
        continue;
      }
      int64_t step = op.getInterior()[dim] + 1;
      Digit shifted = affine(positions[next++], 1, -op.getLow()[dim],
                             operandShape[dim], /*guarded=*/true);
      if (step > 1)
        shifted = derive({5, shifted.id, step}, shifted.level,
                         operandShape[dim], [&] {
                           return scalar->create<arith::DivUIOp>(shifted.value,
                                                                 number(step));
                         });
      if (operandShape[dim] != 1)
        operandIndex.push_back(shifted);
    }
    return emit(op.getOperand(), operandIndex);
  };
  return branch(inside, getComputeType(type.getElementType()), element,
                [&] { return emit(op.getValue(), {}); });
}

Value ElementEmitter::computeConcatenate(train::ConcatenateOp op,
                                         llvm::ArrayRef<Digit> index) {
  RankedTensorType type = op.getType();
  int64_t dimension = op.getDimension(), outer = 1, inner = 1;
  for (auto [dim, size] : llvm::enumerate(type.getShape()))
    (int64_t(dim) < dimension ? outer : inner) *=
        int64_t(dim) == dimension ? 1 : size;
  llvm::SmallVector<int64_t> sizes;
  for (Value input : op.getInputs())
    sizes.push_back(typeOf(input).getDimSize(dimension));
  Type element = getComputeType(type.getElementType());
  if (sizes.size() == 1)
    return emit(op.getInputs().front(), index);

  if (llvm::all_equal(sizes)) {
    // Pieces of one size: a digit for the piece, one for the place in it.
    llvm::SmallVector<Index> groups =
        splitGroups(index, {outer, int64_t(sizes.size()), sizes[0], inner});
    Digit piece = merge(groups[1]); // At least two pieces.
    Index rest = concatenate({groups[0], groups[2], groups[3]});
    std::function<Value(size_t)> choose = [&](size_t i) -> Value {
      if (i + 1 == sizes.size())
        return emit(op.getInputs()[i], rest);
      Value here = isPlanning()
                       ? Value()
                       : scalar->compare(IP::eq, piece.value, number(i));
      return branch(
          here, element, [&] { return emit(op.getInputs()[i], rest); },
          [&] { return choose(i + 1); });
    };
    return choose(0);
  }

  int64_t total = type.getDimSize(dimension);
  llvm::SmallVector<Index> groups = splitGroups(index, {outer, total, inner});
  Digit position = groups[1].empty() ? zeroDigit() : merge(groups[1]);
  std::function<Value(size_t, int64_t)> choose = [&](size_t i,
                                                     int64_t start) -> Value {
    auto here = [&] {
      Digit local = affine(position, 1, -start, sizes[i], /*guarded=*/true);
      Index middle;
      if (sizes[i] != 1)
        middle.push_back(local);
      return emit(op.getInputs()[i],
                  concatenate({groups[0], middle, groups[2]}));
    };
    if (start + sizes[i] == total)
      return here();
    Value before = isPlanning() ? Value()
                                : scalar->compare(IP::slt, position.value,
                                                  number(start + sizes[i]));
    return branch(before, element, here,
                  [&] { return choose(i + 1, start + sizes[i]); });
  };
  return choose(0, 0);
}

Value ElementEmitter::computeGather(train::GatherOp op,
                                    llvm::ArrayRef<Digit> index) {
  RankedTensorType operandType = typeOf(op.getOperand());
  int64_t batchDims = op.getBatchDims();
  // Result: batch dimensions, positions, then runs of the operand's other
  // dimensions between indexed ones.
  llvm::SmallVector<int64_t> sizes(
      operandType.getShape().take_front(batchDims));
  int64_t positions = 1;
  if (!op.getIndices().empty())
    for (int64_t size :
         typeOf(op.getIndices().front()).getShape().drop_front(batchDims))
      positions *= size;
  sizes.push_back(positions);
  llvm::SmallVector<int> groupOf(operandType.getRank(), -1);
  bool afterIndexed = true;
  for (int64_t dim = batchDims; dim < operandType.getRank(); ++dim) {
    if (llvm::is_contained(op.getDims(), dim)) {
      afterIndexed = true;
      continue;
    }
    if (afterIndexed)
      sizes.push_back(1);
    afterIndexed = false;
    sizes.back() *= operandType.getDimSize(dim);
    groupOf[dim] = sizes.size() - 1;
  }
  llvm::SmallVector<Index> groups = splitGroups(index, sizes);
  Index position =
      concatenate(llvm::ArrayRef(groups).take_front(batchDims + 1));
  Index operandIndex =
      concatenate(llvm::ArrayRef(groups).take_front(batchDims));
  int lastGroup = -1;
  size_t next = 0;
  for (int64_t dim = batchDims; dim < operandType.getRank(); ++dim) {
    if (groupOf[dim] >= 0) {
      if (groupOf[dim] != lastGroup)
        operandIndex.append(groups[groupOf[dim]].begin(),
                            groups[groupOf[dim]].end());
      lastGroup = groupOf[dim];
      continue;
    }
    Value indices = op.getIndices()[next++];
    Value element = emit(indices, position);
    int64_t size = operandType.getDimSize(dim);
    if (size == 1)
      continue;
    std::vector<int64_t> key{
        6, int64_t(reinterpret_cast<intptr_t>(indices.getAsOpaquePointer())),
        size};
    for (const Digit &digit : position)
      key.insert(key.end(), {digit.id, digit.size});
    operandIndex.push_back(derive(key, levelOf(position), size, [&] {
      return toNumber(
          clampIndex(*scalar, element, typeOf(indices).getElementType(), size));
    }));
  }
  return emit(op.getOperand(), operandIndex);
}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

Value ElementEmitter::computeIota(train::IotaOp op,
                                  llvm::ArrayRef<Digit> index) {
  RankedTensorType type = op.getType();
  int64_t outer = 1, inner = 1, dimension = op.getDimension();
  for (auto [dim, size] : llvm::enumerate(type.getShape()))
    (int64_t(dim) < dimension ? outer : inner) *=
        int64_t(dim) == dimension ? 1 : size;
  llvm::SmallVector<Index> groups =
      splitGroups(index, {outer, type.getDimSize(dimension), inner});
  if (isPlanning())
    return {};
  Value number;
  atLevel(levelOf(groups[1]), [&] {
    number = convertScalar(*scalar, toI64(linear(groups[1])),
                           scalar->builder.getI64Type(), type.getElementType());
  });
  return number;
}

unsigned ElementEmitter::definingLevel(Value value) {
  unsigned level = currentLevel();
  while (level > 0 && value.getParentBlock() != levels[level]->block)
    --level;
  return level;
}

/// True if many elements share one of `value`'s.
static bool isShared(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (auto constant = dyn_cast<train::ConstantOp>(op)) {
      auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
      return dense && dense.isSplat();
    }
    if (isa<train::BroadcastInDimOp>(op) &&
        typeOf(op->getOperand(0)).getNumElements() <
            typeOf(value).getNumElements())
      return true;
    if (!isa<train::ReshapeOp, train::TransposeOp, train::BroadcastInDimOp>(op))
      return false;
    value = op->getOperand(0);
  }
  return false;
}

std::optional<Value>
ElementEmitter::computeSharedQuotient(train::DivideOp op,
                                      llvm::ArrayRef<Digit> index) {
  // Where quotients may be approximate, a divisor that many elements share is
  // inverted once: a rounding more, for a product instead of a division.
  if (!model.hardware.approximatesF32 ||
      !typeOf(op.getResult()).getElementType().isF32() ||
      !isShared(op.getRhs()))
    return std::nullopt;
  Value dividend = emit(op.getLhs(), index), divisor = emit(op.getRhs(), index);
  if (isPlanning())
    return Value();
  Value inverse;
  atLevel(definingLevel(divisor), [&] {
    inverse =
        scalar->quotient(scalar->constant(divisor.getType(), 1.0), divisor);
  });
  return scalar->mul(dividend, inverse);
}

std::optional<Value>
ElementEmitter::computeShiftedExponential(train::ExponentialOp op,
                                          llvm::ArrayRef<Digit> index) {
  // e^(x - m) with an m that many elements share is a softmax's: relative to
  // the largest, what the rounding of the hardware's argument leaves out, and
  // subnormal results, do not count.
  auto difference = op.getOperand().getDefiningOp<train::SubtractOp>();
  if (!*model.hardware.flushingExp2 || !difference ||
      !typeOf(op.getResult()).getElementType().isF32() ||
      !isShared(difference.getRhs()))
    return std::nullopt;
  Value x = emit(difference, index);
  if (isPlanning())
    return Value();
  constexpr double log2E = 1.44269504088896340736;
  auto call = LLVM::CallIntrinsicOp::create(
      *builder, loc, x.getType(),
      builder->getStringAttr(model.hardware.flushingExp2),
      ValueRange{scalar->mul(x, log2E)});
  return call.getResults();
}

std::optional<Value>
ElementEmitter::computeIotaCompare(train::CompareOp op,
                                   llvm::ArrayRef<Digit> index) {
  // An i64 position compared with a number (a label): in 32 bits, of which a
  // vector holds as many as of f32.
  auto iota = op.getLhs().getDefiningOp<train::IotaOp>();
  if (!iota || !getElementTypeOrSelf(iota.getType()).isInteger(64))
    return std::nullopt;
  int64_t size =
      cast<RankedTensorType>(iota.getType()).getDimSize(iota.getDimension());
  if (size > (int64_t(1) << 30))
    return std::nullopt;
  Value position = emit(op.getLhs(), index), number = emit(op.getRhs(), index);
  if (isPlanning())
    return Value();
  // Clamped to [-1, size], a number compares with all positions as before.
  // Where the number is known, so that it is done once per row.
  Type i32 = scalar->builder.getI32Type();
  Value clamped;
  ScalarBuilder &b = *scalar;
  auto clamp = [&] {
    clamped = b.create<arith::TruncIOp>(
        i32, b.create<arith::MinSIOp>(
                 b.create<arith::MaxSIOp>(number, b.i64(-1)), b.i64(size)));
  };
  atLevel(definingLevel(number), clamp);
  return emitCompareInt(b, op.getDirection(),
                        b.create<arith::TruncIOp>(i32, position), clamped,
                        false);
}

Value ElementEmitter::computeConstant(DenseElementsAttr table,
                                      llvm::ArrayRef<Digit> index) {
  if (isPlanning())
    return {};
  Type element = table.getElementType();
  if (table.isSplat()) {
    Value value;
    atLevel(0, [&] {
      value =
          getScalarConstant(*scalar, table.getSplatValue<Attribute>(), element);
    });
    return value;
  }
  // A table in the object's read-only data.
  Type storage = getStorageType(element);
  std::vector<char> bytes;
  int64_t elementBytes = storage.getIntOrFloatBitWidth() / 8;
  auto append = [&](const APInt &bits) {
    uint64_t raw = bits.getZExtValue();
    const char *first = reinterpret_cast<const char *>(&raw);
    bytes.insert(bytes.end(), first, first + elementBytes);
  };
  if (isa<FloatType>(element))
    for (const APFloat &number : table.getValues<APFloat>())
      append(number.bitcastToAPInt());
  else
    for (const APInt &number : table.getValues<APInt>())
      append(number);
  Operation *function = levels.front()->block->getParentOp();
  Value pointer;
  atLevel(0, [&] {
    OpBuilder &b = *builder;
    std::string name = (SymbolTable::getSymbolName(function).getValue() +
                        ".table" + llvm::Twine(nextId++))
                           .str();
    auto bytesType = LLVM::LLVMArrayType::get(b.getI8Type(), bytes.size());
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPoint(function);
      LLVM::GlobalOp::create(
          b, loc, bytesType, /*isConstant=*/true, LLVM::Linkage::Private, name,
          b.getStringAttr(llvm::StringRef(bytes.data(), bytes.size())),
          /*alignment=*/64);
    }
    pointer = LLVM::AddressOfOp::create(
        b, loc, LLVM::LLVMPointerType::get(b.getContext()), name);
  });
  return load({pointer, element}, index);
}

Value ElementEmitter::computeDropout(train::DropoutOp op,
                                     llvm::ArrayRef<Digit> index) {
  RankedTensorType type = op.getType();
  llvm::ArrayRef<int64_t> local = type.getShape();
  llvm::SmallVector<int64_t> global(local);
  if (op.getGlobalShape())
    global.assign(op.getGlobalShape()->begin(), op.getGlobalShape()->end());
  // A dimension that is whole here lies dense in the one before it.
  Grouping grouping;
  llvm::SmallVector<int64_t> globalSizes;
  for (auto [dim, size] : llvm::enumerate(local)) {
    bool join = dim > 0 && size == global[dim];
    grouping.add(dim, size, join);
    if (join)
      globalSizes.back() *= global[dim];
    else
      globalSizes.push_back(global[dim]);
  }
  Value operand = emit(op.getOperand(), index);
  llvm::SmallVector<Index> groups = splitGroups(index, grouping.sizes);
  // rng and offsets are read through digits of constants.
  auto readNumber = [&](Value tensor, int64_t position) {
    int64_t size = typeOf(tensor).getNumElements();
    if (size == 1)
      return emit(tensor, {});
    return emit(tensor, {constantDigit(position, size)});
  };
  Value seed = readNumber(op.getRng(), 0), step = readNumber(op.getRng(), 1),
        offset;
  int64_t stride = 1;
  llvm::SmallVector<int64_t> strides(global.size());
  for (size_t dim = global.size(); dim-- > 0; stride *= global[dim])
    strides[dim] = stride;
  for (size_t dim = 0; op.getOffsets() && dim < global.size(); ++dim) {
    if (local[dim] == global[dim])
      continue;
    Value first = readNumber(op.getOffsets(), dim);
    if (isPlanning())
      continue;
    atLevel(0, [&] {
      Value wide = convertScalar(*scalar, first,
                                 typeOf(op.getOffsets()).getElementType(),
                                 scalar->builder.getI64Type());
      Value scaled =
          scalar->create<arith::MulIOp>(wide, scalar->i64(strides[dim]));
      offset = offset ? scalar->addInt(offset, scaled) : scaled;
    });
  }
  if (isPlanning())
    return {};
  Value number = offset;
  int64_t scale = 1;
  for (size_t g = groups.size(); g-- > 0; scale *= globalSizes[g]) {
    Value part = scalar->create<arith::MulIOp>(toI64(linear(groups[g])),
                                               scalar->i64(scale));
    number = number ? scalar->addInt(number, part) : part;
  }
  if (!number)
    number = scalar->i64(0);
  double rate = op.getRate().convertToDouble();
  Value keep = emitKeep(*scalar, seed, step, op.getId(), number, rate);
  Value scaled = roundTo(*scalar, scalar->mul(operand, 1 / (1 - rate)),
                         type.getElementType());
  return scalar->select(keep, scaled, scalar->constant(operand.getType(), 0.0));
}

//===----------------------------------------------------------------------===//
// Reductions that are not stages of the kernel
//===----------------------------------------------------------------------===//

Value ElementEmitter::computeReduce(train::ReduceOp op,
                                    llvm::ArrayRef<Digit> index) {
  llvm::SmallVector<Run> runs = getRuns(op);
  std::string key;
  llvm::SmallVector<int64_t> loopSizes, keptSizes;
  for (const Run &run : runs) {
    key += (run.reduced ? "r" : "p") + std::to_string(run.size);
    (run.reduced ? loopSizes : keptSizes).push_back(run.size);
  }
  auto [it, added] = shapes.ofReduce.try_emplace(key, int(shapes.list.size()));
  if (added)
    shapes.list.push_back(LoopShape::get(loopSizes));
  int shape = it->second;
  llvm::SmallVector<Index> kept = splitGroups(index, keptSizes);
  Type element = typeOf(op.getOperand()).getElementType();
  llvm::SmallVector<int> positions;
  for (size_t i = 0; i < shapes.list[shape].sizes.size(); ++i)
    positions.push_back(i);
  Value neutral =
      isPlanning() ? Value() : getNeutral(*scalar, op.getKind(), element);
  llvm::SmallVector<Value> results = loops(
      shape, positions, {neutral},
      [&](llvm::ArrayRef<Digit> digits, llvm::ArrayRef<Value> carried) {
        Index operandIndex;
        int nextKept = 0, group = 0;
        for (const Run &run : runs) {
          if (!run.reduced) {
            operandIndex.append(kept[nextKept].begin(), kept[nextKept].end());
            ++nextKept;
            continue;
          }
          for (int position : shapes.list[shape].positionsOf(group))
            operandIndex.push_back(digits[position]);
          ++group;
        }
        Value next = emit(op.getOperand(), operandIndex);
        return llvm::SmallVector<Value>{
            isPlanning() ? Value()
                         : combine(*scalar, op.getKind(), carried[0], next,
                                   element, true)};
      });
  return isPlanning() ? Value() : roundTo(*scalar, results[0], element);
}
