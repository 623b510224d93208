//===- ElementEmitter.cpp - Loops, levels and digits ----------------------===//
#include "compiler/emit/loops/ElementEmitter.h"
#include "compiler/emit/loops/ScalarOps.h"

using namespace mlir;
using namespace lockstep;
using namespace lockstep::emit;

LoopShape LoopShape::get(llvm::ArrayRef<int64_t> sizes) {
  LoopShape shape{llvm::to_vector(sizes), {}};
  for (size_t i = 0; i < sizes.size(); ++i)
    shape.group.push_back(i);
  return shape;
}

llvm::SmallVector<int> LoopShape::positionsOf(int wanted) const {
  llvm::SmallVector<int> positions;
  for (auto [i, g] : llvm::enumerate(group))
    if (g == wanted)
      positions.push_back(i);
  return positions;
}

bool LoopShapes::refine(const std::map<std::pair<int, int>, int64_t> &splits) {
  // From the back, so that positions stay valid.
  for (auto it = splits.rbegin(); it != splits.rend(); ++it) {
    LoopShape &shape = list[it->first.first];
    int position = it->first.second;
    shape.sizes.insert(shape.sizes.begin() + position + 1, it->second);
    shape.sizes[position] /= it->second;
    shape.group.insert(shape.group.begin() + position, shape.group[position]);
  }
  return !splits.empty();
}

ElementEmitter::ElementEmitter(OpBuilder *builder, Location loc,
                               LoopShapes &shapes, const ScalarModel &model)
    : shapes(shapes), builder(builder), loc(loc), model(model),
      indexType(
          IntegerType::get(loc.getContext(), unsigned(model.indexWidth))) {
  levels.push_back(std::make_unique<Level>());
  if (!builder)
    return;
  levels.back()->block = builder->getInsertionBlock();
  levels.back()->point = builder->getInsertionPoint();
  scalar = std::make_unique<ScalarBuilder>(*builder, loc, model.hardware);
}

//===----------------------------------------------------------------------===//
// Levels
//===----------------------------------------------------------------------===//

void ElementEmitter::pushLevel(Block *block, Attribute accessGroup,
                               bool isBranch) {
  levels.push_back(std::make_unique<Level>());
  Level &level = *levels.back();
  level.block = block;
  level.accessGroup = accessGroup;
  level.isBranch = isBranch;
  if (!block)
    return;
  level.point = block->end();
  if (!block->empty() && block->back().hasTrait<OpTrait::IsTerminator>())
    --level.point;
  placeAtTop();
}

void ElementEmitter::placeAtTop() {
  if (builder)
    builder->setInsertionPoint(levels.back()->block, levels.back()->point);
}

unsigned ElementEmitter::guardLevel() const {
  for (unsigned i = levels.size(); i-- > 0;)
    if (levels[i]->isBranch)
      return i;
  return 0;
}

void ElementEmitter::atLevel(unsigned level, llvm::function_ref<void()> body) {
  std::vector<std::unique_ptr<Level>> inner;
  while (levels.size() > level + 1) {
    inner.push_back(std::move(levels.back()));
    levels.pop_back();
  }
  placeAtTop();
  body();
  while (!inner.empty()) {
    levels.push_back(std::move(inner.back()));
    inner.pop_back();
  }
  placeAtTop();
}

//===----------------------------------------------------------------------===//
// Loops and branches
//===----------------------------------------------------------------------===//

/// The annotation that lets the vectorizer ignore dependences through memory
/// between iterations.
static LLVM::LoopAnnotationAttr getParallelLoop(MLIRContext *context,
                                                LLVM::AccessGroupAttr group) {
  auto yes = BoolAttr::get(context, true);
  return LLVM::LoopAnnotationAttr::get(context, {}, {}, {}, {}, {}, {}, {}, {},
                                       {}, {}, yes, {}, {}, {}, {group});
}

llvm::SmallVector<Value> ElementEmitter::loop(
    Value lower, Value upper, llvm::ArrayRef<Value> init,
    llvm::function_ref<llvm::SmallVector<Value>(Value, llvm::ArrayRef<Value>)>
        body,
    bool parallel, Value step) {
  if (isPlanning()) {
    pushLevel(nullptr, {}, false);
    body({}, init);
    levels.pop_back();
    return llvm::SmallVector<Value>(init.size());
  }
  Level &outer = *levels.back();
  placeAtTop();
  auto op = scf::ForOp::create(*builder, loc, lower, upper,
                               step ? step : number(1), init);
  LLVM::AccessGroupAttr group;
  if (parallel) {
    MLIRContext *context = builder->getContext();
    group = LLVM::AccessGroupAttr::get(
        context, DistinctAttr::create(UnitAttr::get(context)));
    op->setAttr("llvm.loop_annotation", getParallelLoop(context, group));
  }
  Block::iterator after = outer.point;
  outer.point = op->getIterator();
  pushLevel(op.getBody(), group, false);
  llvm::SmallVector<Value> carried(op.getRegionIterArgs().begin(),
                                   op.getRegionIterArgs().end());
  llvm::SmallVector<Value> next = body(op.getInductionVar(), carried);
  if (!init.empty()) {
    placeAtTop();
    scf::YieldOp::create(*builder, loc, next);
  }
  levels.pop_back();
  outer.point = after;
  placeAtTop();
  return llvm::to_vector(
      llvm::map_range(op.getResults(), [](OpResult r) -> Value { return r; }));
}

void ElementEmitter::loop(Value lower, Value upper,
                          llvm::function_ref<void(Value)> body, bool parallel) {
  loop(
      lower, upper, {},
      [&](Value i, llvm::ArrayRef<Value>) {
        body(i);
        return llvm::SmallVector<Value>();
      },
      parallel);
}

llvm::SmallVector<Value> ElementEmitter::loops(int shape,
                                               llvm::ArrayRef<int> positions,
                                               llvm::ArrayRef<Value> init,
                                               Body body) {
  llvm::SmallVector<Digit> digits;
  std::function<llvm::SmallVector<Value>(size_t, llvm::ArrayRef<Value>)> nest =
      [&](size_t depth,
          llvm::ArrayRef<Value> carried) -> llvm::SmallVector<Value> {
    if (depth == positions.size())
      return body(digits, carried);
    int64_t size = shapes.list[shape].sizes[positions[depth]];
    return loop(number(0), number(size), carried,
                [&](Value i, llvm::ArrayRef<Value> inner) {
                  digits.push_back(makeDigit(i, size, shape, positions[depth]));
                  llvm::SmallVector<Value> next = nest(depth + 1, inner);
                  digits.pop_back();
                  return next;
                });
  };
  return nest(0, init);
}

Value ElementEmitter::branch(Value condition, Type type,
                             llvm::function_ref<Value()> then,
                             llvm::function_ref<Value()> otherwise) {
  if (isPlanning()) {
    for (auto side : {then, otherwise}) {
      pushLevel(nullptr, {}, true);
      side();
      levels.pop_back();
    }
    return {};
  }
  Level &outer = *levels.back();
  placeAtTop();
  auto op = scf::IfOp::create(*builder, loc, TypeRange{type}, condition,
                              /*withElseRegion=*/true);
  Block::iterator after = outer.point;
  outer.point = op->getIterator();
  for (auto [block, side] : {std::pair{op.thenBlock(), then},
                             std::pair{op.elseBlock(), otherwise}}) {
    pushLevel(block, outer.accessGroup, true);
    Value result = side();
    placeAtTop();
    scf::YieldOp::create(*builder, loc, result);
    levels.pop_back();
  }
  outer.point = after;
  placeAtTop();
  return op.getResult(0);
}

void ElementEmitter::branch(Value condition, llvm::function_ref<void()> then) {
  if (isPlanning()) {
    pushLevel(nullptr, {}, true);
    then();
    levels.pop_back();
    return;
  }
  Level &outer = *levels.back();
  placeAtTop();
  auto op = scf::IfOp::create(*builder, loc, TypeRange{}, condition,
                              /*withElseRegion=*/false);
  Block::iterator after = outer.point;
  outer.point = op->getIterator();
  pushLevel(op.thenBlock(), outer.accessGroup, true);
  then();
  levels.pop_back();
  outer.point = after;
  placeAtTop();
}

//===----------------------------------------------------------------------===//
// Numbers and digits
//===----------------------------------------------------------------------===//

Value ElementEmitter::number(int64_t value) {
  return isPlanning() ? Value() : scalar->integer(indexType, value);
}

Value ElementEmitter::toNumber(Value integer) {
  if (isPlanning() || integer.getType() == indexType)
    return integer;
  unsigned width = integer.getType().getIntOrFloatBitWidth();
  return width > indexType.getIntOrFloatBitWidth()
             ? scalar->create<arith::TruncIOp>(indexType, integer)
             : scalar->create<arith::ExtSIOp>(indexType, integer);
}

Value ElementEmitter::toI64(Value number) {
  if (isPlanning() || number.getType().isInteger(64))
    return number;
  return scalar->create<arith::ExtSIOp>(scalar->builder.getI64Type(), number);
}

Digit ElementEmitter::makeDigit(Value value, int64_t size, int shape,
                                int position) {
  return {value, size, nextId++, currentLevel(), shape, position};
}

unsigned ElementEmitter::levelOf(llvm::ArrayRef<Digit> index) {
  unsigned level = 0;
  for (const Digit &digit : index)
    level = std::max(level, digit.level);
  return level;
}

Digit ElementEmitter::derive(std::vector<int64_t> key, unsigned level,
                             int64_t size, llvm::function_ref<Value()> body) {
  auto found = levels[level]->digits.find(key);
  if (found != levels[level]->digits.end())
    return found->second;
  Digit digit{{}, size, nextId++, level};
  if (!isPlanning())
    atLevel(level, [&] { digit.value = body(); });
  levels[level]->digits[key] = digit;
  return digit;
}

std::pair<Digit, Digit> ElementEmitter::split(Digit digit, int64_t inner) {
  if (digit.loop >= 0)
    wantedSplits.try_emplace({digit.loop, digit.position}, inner);
  Digit high =
      derive({1, digit.id, inner}, digit.level, digit.size / inner, [&] {
        return scalar->create<arith::DivUIOp>(digit.value, number(inner));
      });
  Digit low = derive({2, digit.id, inner}, digit.level, inner, [&] {
    return scalar->create<arith::RemUIOp>(digit.value, number(inner));
  });
  return {high, low};
}

Digit ElementEmitter::merge(llvm::ArrayRef<Digit> digits) {
  if (digits.size() == 1)
    return digits.front();
  std::vector<int64_t> key{3};
  int64_t size = 1;
  for (const Digit &digit : digits) {
    key.push_back(digit.id);
    key.push_back(digit.size);
    size *= digit.size;
  }
  return derive(key, levelOf(digits), size, [&] { return linear(digits); });
}

Digit ElementEmitter::constantDigit(int64_t value, int64_t size) {
  return derive({8, value, size}, 0, size, [&] { return number(value); });
}

Digit ElementEmitter::affine(Digit digit, int64_t scale, int64_t offset,
                             int64_t size, bool guarded) {
  if (scale == 1 && offset == 0 && !guarded) {
    digit.size = size;
    digit.loop = -1;
    return digit;
  }
  unsigned level = guarded ? std::max(digit.level, guardLevel()) : digit.level;
  return derive(
      {4, digit.id, scale, offset, size}, level, size, [&]() -> Value {
        auto noWrap = arith::IntegerOverflowFlags::nsw;
        Value value = digit.value;
        if (scale != 1)
          value = scalar->create<arith::MulIOp>(value, number(scale), noWrap);
        return offset ? scalar->create<arith::AddIOp>(value, number(offset),
                                                      noWrap)
                      : value;
      });
}

llvm::SmallVector<Index>
ElementEmitter::splitGroups(llvm::ArrayRef<Digit> index,
                            llvm::ArrayRef<int64_t> sizes) {
  llvm::SmallVector<Index> groups(sizes.size());
  Index left(index.begin(), index.end());
  for (size_t g = sizes.size(); g-- > 0;) {
    Index reversed;
    for (int64_t need = sizes[g]; need > 1;) {
      Digit digit = left.pop_back_val();
      if (need % digit.size == 0) {
        reversed.push_back(digit);
        need /= digit.size;
      } else if (digit.size % need == 0) {
        auto [high, low] = split(digit, need);
        left.push_back(high);
        reversed.push_back(low);
        need = 1;
      } else {
        // No cut between digits fits: one number instead of two digits.
        Digit outer = left.pop_back_val();
        left.push_back(merge({outer, digit}));
      }
    }
    groups[g].assign(reversed.rbegin(), reversed.rend());
  }
  return groups;
}

/// Multiplies by a constant and adds.
static Value addScaled(ScalarBuilder &b, Value sum, Value value,
                       int64_t scale) {
  auto noWrap = arith::IntegerOverflowFlags::nsw;
  if (scale != 1)
    value = b.create<arith::MulIOp>(value, b.integer(value.getType(), scale),
                                    noWrap);
  return sum ? b.create<arith::AddIOp>(sum, value, noWrap) : value;
}

Value ElementEmitter::linear(llvm::ArrayRef<Digit> index) {
  if (isPlanning())
    return {};
  Value sum;
  int64_t stride = 1;
  for (const Digit &digit : llvm::reverse(index)) {
    sum = addScaled(*scalar, sum, digit.value, stride);
    stride *= digit.size;
  }
  return sum ? sum : number(0);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Value ElementEmitter::address(const Buffer &buffer,
                              llvm::ArrayRef<Digit> index) {
  // Level by level, so that the part of outer loops is added there.
  std::map<unsigned, llvm::SmallVector<std::pair<Digit, int64_t>>> byLevel;
  int64_t stride = 1;
  for (const Digit &digit : llvm::reverse(index)) {
    byLevel[digit.level].push_back({digit, stride});
    stride *= digit.size;
  }
  Value pointer = buffer.pointer;
  Type storage = getStorageType(buffer.element);
  for (auto &[level, digits] : byLevel)
    atLevel(level, [&, &digits = digits] {
      Value offset;
      for (auto &[digit, scale] : llvm::reverse(digits))
        offset = addScaled(*scalar, offset, digit.value, scale);
      pointer = scalar->create<LLVM::GEPOp>(
          pointer.getType(), storage, pointer,
          llvm::ArrayRef<LLVM::GEPArg>{offset}, LLVM::GEPNoWrapFlags::inbounds);
    });
  placeAtTop();
  return pointer;
}

template <typename OpTy> static void markParallel(OpTy op, Attribute group) {
  if (group)
    op.setAccessGroupsAttr(ArrayAttr::get(op.getContext(), {group}));
}

Value ElementEmitter::loadStored(const Buffer &buffer,
                                 llvm::ArrayRef<Digit> index) {
  if (isPlanning())
    return {};
  Value pointer = address(buffer, index);
  auto op = LLVM::LoadOp::create(*builder, loc, getStorageType(buffer.element),
                                 pointer);
  markParallel(op, levels.back()->accessGroup);
  return op;
}

Value ElementEmitter::load(const Buffer &buffer, llvm::ArrayRef<Digit> index) {
  Value stored = loadStored(buffer, index);
  return isPlanning() ? Value() : fromStorage(*scalar, stored, buffer.element);
}

void ElementEmitter::storeStored(const Buffer &buffer, Value stored,
                                 llvm::ArrayRef<Digit> index) {
  if (isPlanning())
    return;
  Value pointer = address(buffer, index);
  auto op = LLVM::StoreOp::create(*builder, loc, stored, pointer);
  markParallel(op, levels.back()->accessGroup);
}

void ElementEmitter::store(const Buffer &buffer, Value element,
                           llvm::ArrayRef<Digit> index) {
  if (!isPlanning())
    storeStored(buffer, toStorage(*scalar, element, buffer.element), index);
}

Value ElementEmitter::stackBuffer(Type element, int64_t count) {
  if (isPlanning())
    return {};
  OpBuilder::InsertionGuard guard(*builder);
  builder->setInsertionPointToStart(levels.front()->block);
  auto pointer = LLVM::LLVMPointerType::get(builder->getContext());
  return LLVM::AllocaOp::create(*builder, loc, pointer, element,
                                scalar->i64(count), 64);
}
