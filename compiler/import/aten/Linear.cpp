// Matrix products.
#include "compiler/import/aten/Lowering.h"

using namespace mlir;
using namespace lockstep::train;

namespace lockstep::aten {

static void lowerMatmul(OpCall &op) {
  bool vectors = op.base == "dot" || op.base == "vdot" || op.base == "inner";
  StringRef second = op.base == "mm" || op.base == "bmm" ? "mat2"
                     : op.base == "mv"                   ? "vec"
                     : op.base == "dot"                  ? "tensor"
                                                         : "other";
  Value a = op.tensor("self"), b = op.tensor(second);
  if (op.bad())
    return;
  if (op.base == "inner" && rankOf(a) && rankOf(b))
    return op.result(op.t.dot(a, b, {}, {}, {rankOf(a) - 1}, {rankOf(b) - 1}));
  if (vectors && (rankOf(a) != 1 || rankOf(b) != 1))
    return void(op.t.fail("expected vectors"));
  op.result(op.t.matmul(a, b));
}

static Value scaledBy(OpCall &op, Value value, StringRef name) {
  double factor = op.real(name, 1);
  return factor == 1 ? value : op.t.mul(value, factor);
}

/// beta * self + alpha * (a @ b); with beta 0, self does not count, whatever it
/// holds.
static void lowerAddmm(OpCall &op) {
  bool batched = op.base == "baddbmm" || op.base == "addbmm";
  StringRef first = batched              ? "batch1"
                    : op.base == "addmv" ? "mat"
                    : op.base == "addr"  ? "vec1"
                                         : "mat1";
  StringRef second = batched              ? "batch2"
                     : op.base == "addmv" ? "vec"
                     : op.base == "addr"  ? "vec2"
                                          : "mat2";
  Value self = op.tensor("self"), a = op.tensor(first), b = op.tensor(second);
  if (op.bad())
    return;
  Value product =
      op.base == "addr" ? op.t.dot(a, b, {}, {}, {}, {}) : op.t.matmul(a, b);
  if (op.base == "addbmm")
    product = op.t.sum(product, {0});
  product = scaledBy(op, product, "alpha");
  double beta = op.real("beta", 1);
  op.result(beta == 0
                ? product
                : op.t.add(product, beta == 1 ? self : op.t.mul(self, beta)));
}

static void lowerLinear(OpCall &op) {
  Value x = op.tensor("input"), weight = op.tensor("weight"),
        bias = op.optionalTensor("bias");
  if (op.bad() || rankOf(x) == 0 || rankOf(weight) == 0)
    return void(op.t.fail("expected a matrix of weights"));
  Value y = op.t.dot(x, weight, {}, {}, {rankOf(x) - 1}, {rankOf(weight) - 1});
  op.result(bias ? op.t.add(y, bias) : y);
}

/// y[..., o] = sum of x1[..., i] weight[o, i, j] x2[..., j].
static void lowerBilinear(OpCall &op) {
  Value a = op.tensor("input1"), b = op.tensor("input2"),
        weight = op.tensor("weight"), bias = op.optionalTensor("bias");
  if (op.bad() || rankOf(weight) != 3 || rankOf(a) != rankOf(b) ||
      rankOf(a) == 0)
    return void(op.t.fail("expected weights of rank 3"));
  Value left = op.t.dot(a, weight, {}, {}, {rankOf(a) - 1}, {1}); // [..., o, j]
  Value y =
      op.t.sum(op.t.mul(left, op.t.unsqueeze(b, rankOf(b) - 1)), {rankOf(a)});
  op.result(bias ? op.t.add(y, bias) : y);
}

/// What bilinear becomes when it is decomposed: the product of three tensors
/// with new dimensions, added up over some.
static void lowerTrilinear(OpCall &op) {
  op.ignore({"unroll_dim"});
  Value product;
  for (StringRef i : {"1", "2", "3"}) {
    Value x = op.tensor(("i" + i).str());
    Shape places = op.integers(("expand" + i).str());
    llvm::sort(places);
    for (int64_t place : places)
      x = op.t.unsqueeze(x, place);
    product = product ? op.t.mul(product, x) : x;
  }
  Shape sums = op.integers("sumdim");
  if (!op.bad() && product)
    op.result(op.t.sum(product, sums));
}

static void lowerOuter(OpCall &op) {
  Value a = op.tensor("self"), b = op.tensor("vec2");
  if (!op.bad() && rankOf(a) == 1 && rankOf(b) == 1)
    op.result(op.t.mul(op.t.unsqueeze(a, 1), op.t.unsqueeze(b, 0)));
}

static void lowerTensordot(OpCall &op) {
  Value a = op.tensor("self"), b = op.tensor("other");
  Shape left = op.integers("dims_self"), right = op.integers("dims_other");
  if (op.bad() || left.size() != right.size())
    return void(op.t.fail("expected as many dimensions on both sides"));
  for (int64_t &dim : left)
    dim = dim < 0 ? dim + rankOf(a) : dim;
  for (int64_t &dim : right)
    dim = dim < 0 ? dim + rankOf(b) : dim;
  op.result(op.t.dot(a, b, {}, {}, left, right));
}

static void lowerKron(OpCall &op) {
  Value a = op.tensor("self"), b = op.tensor("other");
  if (op.bad() || rankOf(a) != rankOf(b))
    return op.unsupported("kron of tensors of different ranks");
  Shape left, right, merged;
  for (auto [m, n] : llvm::zip_equal(shapeOf(a), shapeOf(b))) {
    left.append({m, 1});
    right.append({1, n});
    merged.push_back(m * n);
  }
  op.result(op.t.reshape(
      op.t.mul(op.t.reshape(a, left), op.t.reshape(b, right)), merged));
}

/// Euclidean distances between the rows of two matrices: |x|^2 - 2 x y + |y|^2
/// loses digits, so by differences.
Value vectorNorm(Emitter &t, Value x, double p, Dims dims, bool keep);

static void lowerCdist(OpCall &op) {
  Value a = op.tensor("x1"), b = op.tensor("x2");
  double p = op.real("p", 2);
  op.ignore({"compute_mode"});
  if (op.bad() || rankOf(a) < 2 || rankOf(b) < 2)
    return void(op.t.fail("expected matrices"));
  Value difference = op.t.sub(op.t.unsqueeze(a, rankOf(a) - 1),
                              op.t.unsqueeze(b, rankOf(b) - 2));
  op.result(difference ? vectorNorm(op.t, difference, p,
                                    {rankOf(difference) - 1}, false)
                       : difference);
}

static void lowerCross(OpCall &op) {
  Value a = op.tensor("self"), b = op.tensor("other");
  Shape shape;
  if (op.bad() || !broadcastShapes(shapeOf(a), shapeOf(b), shape))
    return;
  a = op.t.broadcastTo(a, shape), b = op.t.broadcastTo(b, shape);
  int64_t fallback = -1;
  if (op.base == "cross" && !op.has("dim"))
    fallback = llvm::find(shape, 3) - shape.begin();
  int64_t dim = op.dim("dim", shape.size(), fallback);
  if (op.bad() || shape[dim] != 3)
    return void(op.t.fail("expected a dimension of size 3"));
  auto part = [&](Value v, int64_t i) {
    return op.t.sliceDim(v, dim, i % 3, i % 3 + 1);
  };
  SmallVector<Value> parts;
  for (int64_t i = 0; i < 3; ++i)
    parts.push_back(op.t.sub(op.t.mul(part(a, i + 1), part(b, i + 2)),
                             op.t.mul(part(a, i + 2), part(b, i + 1))));
  op.result(op.t.concat(parts, dim));
}

void addLinear(OperatorTable &table) {
  table.add(
      {"mm", "bmm", "matmul", "dot", "vdot", "inner", "mv", "linalg_matmul"},
      lowerMatmul);
  table.add({"addmm", "baddbmm", "addbmm", "addmv", "addr"}, lowerAddmm);
  table.add("linear", lowerLinear);
  table.add("bilinear", lowerBilinear);
  table.add("_trilinear", lowerTrilinear);
  table.add({"outer", "ger"}, lowerOuter);
  table.add("tensordot", lowerTensordot);
  table.add("kron", lowerKron);
  table.add({"cdist", "_cdist_forward"}, lowerCdist);
  table.add({"cross", "linalg_cross"}, lowerCross);
}

} // namespace lockstep::aten
