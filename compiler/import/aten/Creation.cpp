// Tensors made from numbers: constants, counts, and random masks (which are
// dropout of ones).
#include "compiler/import/aten/Lowering.h"

using namespace mlir;
using namespace lockstep::train;

namespace lockstep::aten {

/// Shapes and types of new tensors are in the file.
static void fill(OpCall &op, double value) {
  op.ignoreAll();
  Shape shape = op.resultShape();
  Type type = op.resultElement();
  if (!op.bad())
    op.result(op.t.constant(shape, type, value));
}

static void lowerZeros(OpCall &op) { fill(op, 0); }
static void lowerOnes(OpCall &op) { fill(op, 1); }

/// full, full_like, new_full, scalar_tensor, fill.
static void lowerFull(OpCall &op) {
  StringRef name = op.base == "scalar_tensor" ? "s"
                   : op.base == "fill"        ? "value"
                                              : "fill_value";
  Shape shape = op.base == "fill" ? op.shape("self") : op.resultShape();
  Type type = op.base == "fill" ? op.element("self") : op.resultElement();
  Value value = op.bad() ? Value() : op.operand(name, type);
  op.ignoreAll();
  op.result(op.t.broadcastTo(value, shape));
}

static void lowerZero(OpCall &op) {
  op.ignoreAll();
  Shape shape = op.shape("self");
  op.result(op.t.constant(shape, op.element("self"), 0));
}

/// The functional form of copy_: self takes src's values.
static void lowerCopy(OpCall &op) {
  Value source = op.tensor("src");
  Shape shape = op.shape("self");
  Type type = op.element("self");
  op.ignoreAll();
  op.result(op.t.broadcastTo(op.t.convert(source, type), shape));
}

static void lowerArange(OpCall &op) {
  Scalar start = op.has("start") ? op.number("start") : Scalar(),
         step{1, 1, Scalar::Kind::Int};
  if (op.has("step"))
    step = op.number("step");
  op.ignoreAll();
  Shape shape = op.resultShape();
  Type type = op.resultElement();
  if (op.bad() || shape.size() != 1)
    return;
  bool exact =
      start.kind != Scalar::Kind::Float && step.kind != Scalar::Kind::Float;
  Value count = op.t.iota(shape, exact ? op.t.i64() : type, 0);
  if (step.real != 1)
    count = op.t.mul(count,
                     exact ? op.t.constantInt(shape, op.t.i64(), step.integer)
                           : op.t.like(count, step.real));
  if (start.real != 0)
    count = op.t.add(count,
                     exact ? op.t.constantInt(shape, op.t.i64(), start.integer)
                           : op.t.like(count, start.real));
  op.result(count);
}

static void lowerLinspace(OpCall &op) {
  double start = op.real("start"), end = op.real("end");
  op.ignoreAll();
  Shape shape = op.resultShape();
  Type type = op.resultElement();
  if (op.bad() || shape.size() != 1)
    return;
  double step =
      shape[0] > 1 ? (end - start) / static_cast<double>(shape[0] - 1) : 0;
  op.result(op.t.add(op.t.mul(op.t.iota(shape, type, 0), step), start));
}

static void lowerEye(OpCall &op) {
  op.ignoreAll();
  Shape shape = op.resultShape();
  Type type = op.resultElement();
  if (op.bad() || shape.size() != 2)
    return;
  Value same =
      op.t.compare(CompareDirection::EQ, op.t.iota(shape, op.t.i64(), 0),
                   op.t.iota(shape, op.t.i64(), 1));
  op.result(op.t.convert(same, type));
}

/// Keeps the upper or lower triangle of the last two dimensions.
static void lowerTriangle(OpCall &op) {
  Value x = op.tensor("self");
  int64_t diagonal = op.integer("diagonal", 0);
  if (op.bad() || rankOf(x) < 2)
    return;
  Shape shape(shapeOf(x).take_back(2));
  Value row = op.t.iota(shape, op.t.i64(), 0),
        column = op.t.iota(shape, op.t.i64(), 1);
  Value keep = op.t.compare(
      op.base == "tril" ? CompareDirection::LE : CompareDirection::GE,
      op.t.sub(column, row), static_cast<double>(diagonal));
  op.result(op.t.select(keep, x, 0));
}

/// tril_indices, triu_indices: a small table.
static void lowerTriangleIndices(OpCall &op) {
  int64_t rows = op.integer("row"), columns = op.integer("col"),
          offset = op.integer("offset", 0);
  op.ignoreAll();
  if (op.bad() || rows < 0 || columns < 0 || rows * columns > (1 << 22))
    return op.unsupported("triangle indices of a large matrix");
  Shape first, second;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t k = 0; k < columns; ++k)
      if (op.base == "tril_indices" ? k - i <= offset : k - i >= offset)
        first.push_back(i), second.push_back(k);
  int64_t count = first.size();
  llvm::append_range(first, second);
  op.result(op.t.table(first, {2, count}));
}

//===----------------------------------------------------------------------===//
// Randomness
//===----------------------------------------------------------------------===//

/// 1 with probability 1 - rate, else 0.
static Value randomMask(OpCall &op, Dims shape, Type type, double rate) {
  if (rate <= 0 || rate >= 1)
    return op.t.constant(shape, type, rate < 0.5);
  Value ones =
      op.t.constant(shape, isa<FloatType>(type) ? type : op.t.f32(), 1);
  Value scaled =
      DropoutOp::create(op.t.b, op.t.loc, ones, op.lowering.rng(), Value(),
                        APFloat(rate), op.lowering.nextDropoutId(),
                        DenseI64ArrayAttr())
          .getResult();
  return op.t.convert(op.t.gt(scaled, 0), type);
}

static void lowerDropout(OpCall &op) {
  StringRef input = op.argument("input") ? "input" : "self";
  double rate = op.real("p", 0.5);
  bool train = op.flag("train", true);
  if (op.bad())
    return;
  if (!train || rate == 0) {
    if (op.isResultUsed(1) && op.resultCount() > 1)
      op.result(1, op.t.constant(op.shape(input), op.t.i1(), 1));
    return op.alias(0, input);
  }
  Value x = op.tensor(input);
  if (rate < 0 || rate > 1 || op.bad())
    return void(op.t.fail("expected a probability"));
  if (rate == 1 || (op.resultCount() > 1 && op.isResultUsed(1))) {
    Value mask = randomMask(op, shapeOf(x), op.t.i1(), rate);
    if (op.resultCount() > 1)
      op.result(1, mask);
    return op.result(
        0, op.t.select(mask, op.t.mul(x, rate == 1 ? 0 : 1 / (1 - rate)), 0.0));
  }
  op.result(0,
            DropoutOp::create(op.t.b, op.t.loc, x, op.lowering.rng(), Value(),
                              APFloat(rate), op.lowering.nextDropoutId(),
                              DenseI64ArrayAttr())
                .getResult());
}

/// Whole channels are dropped: one number for each (sample, channel).
static void lowerFeatureDropout(OpCall &op) {
  double rate = op.real("p", 0.5);
  bool train = op.flag("train", true);
  StringRef input = op.argument("input") ? "input" : "self";
  if (op.bad())
    return;
  if (!train || rate == 0)
    return op.alias(0, input);
  if (op.base != "feature_dropout")
    return op.unsupported("alpha dropout");
  Value x = op.tensor(input);
  if (op.bad() || rankOf(x) < 2)
    return;
  Shape shape(rankOf(x), 1);
  shape[0] = shapeOf(x)[0], shape[1] = shapeOf(x)[1];
  op.result(op.t.mul(x, op.t.mul(randomMask(op, shape, elementOf(x), rate),
                                 rate == 1 ? 0 : 1 / (1 - rate))));
}

static void lowerBernoulli(OpCall &op) {
  if (!op.has("p") || op.isTensor("p"))
    return op.unsupported("bernoulli with a tensor of probabilities");
  double keep = op.real("p");
  Shape shape = op.shape("self");
  if (!op.bad())
    op.result(randomMask(op, shape, op.element("self"), 1 - keep));
}

/// What a Python number made of a tensor's value decides is not in the graph.
static void lowerItem(OpCall &op) {
  op.ignoreAll();
  op.unsupported("a number read from a tensor (item(), tolist(), int()), on "
                 "which shapes or branches depend; keep it a tensor");
}

/// Random numbers other than dropout's masks: only where nothing reads them.
static void lowerRandom(OpCall &op) {
  op.ignoreAll();
  if (op.isResultUsed(0))
    return op.unsupported("random numbers in the graph (" + op.base +
                          "); give them to the model as an input");
  fill(op, 0);
}

void addCreation(OperatorTable &table) {
  table.add({"zeros", "zeros_like", "new_zeros", "empty", "empty_like",
             "new_empty", "empty_strided", "new_empty_strided",
             "empty_permuted"},
            lowerZeros);
  table.add({"ones", "ones_like", "new_ones"}, lowerOnes);
  table.add({"full", "full_like", "new_full", "scalar_tensor", "fill"},
            lowerFull);
  table.add("zero", lowerZero);
  table.add("copy", lowerCopy);
  table.add("arange", lowerArange);
  table.add("linspace", lowerLinspace);
  table.add("eye", lowerEye);
  table.add({"tril", "triu"}, lowerTriangle);
  table.add({"tril_indices", "triu_indices"}, lowerTriangleIndices);
  table.add({"dropout", "native_dropout"}, lowerDropout);
  table.add({"feature_dropout", "alpha_dropout", "feature_alpha_dropout"},
            lowerFeatureDropout);
  table.add("bernoulli", lowerBernoulli);
  table.add({"rand", "rand_like", "randn", "randn_like", "randint",
             "randint_like", "randperm", "normal", "uniform", "multinomial",
             "exponential", "geometric", "cauchy", "log_normal", "random",
             "poisson", "binomial", "_standard_gamma", "_sample_dirichlet"},
            lowerRandom);
  table.add({"item", "_local_scalar_dense"}, lowerItem);
}

} // namespace lockstep::aten
