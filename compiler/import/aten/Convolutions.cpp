// Convolutions of one to three spatial dimensions, and transposed ones, which
// are the gradient of a convolution.
#include "compiler/import/aten/Lowering.h"

using namespace mlir;
using namespace lockstep::train;

namespace lockstep::aten {

/// One number for each spatial dimension.
static Shape perDim(Shape given, size_t count, int64_t fallback) {
  if (given.empty())
    return Shape(count, fallback);
  if (given.size() == 1)
    return Shape(count, given[0]);
  return given;
}

static Value addChannels(OpCall &op, Value y, Value bias) {
  if (!y || !bias)
    return y;
  Shape shape(rankOf(y), 1);
  shape[1] = countOf(shapeOf(bias));
  return op.t.add(y, op.t.reshape(bias, shape));
}

static Value transposedConvolution(OpCall &op, Value x, Value weight,
                                   Dims stride, Dims padding, Dims dilation,
                                   int64_t groups) {
  // The result's spatial sizes are in the file (output_padding included).
  Shape shape(op.resultShape());
  if (shape.size() == static_cast<size_t>(rankOf(x)) - 1)
    shape.insert(shape.begin(), 1);
  if (op.bad() || shape.size() != static_cast<size_t>(rankOf(x)))
    return {};
  return ConvolutionInputGradientOp::create(
             op.t.b, op.t.loc, op.t.type(shape, elementOf(x)), x, weight,
             stride, padding, padding, dilation, groups)
      .getResult();
}

static void lowerConvolution(OpCall &op) {
  Value x = op.tensor("input"), weight = op.tensor("weight"),
        bias = op.optionalTensor("bias");
  bool transposed =
      op.base.starts_with("conv_transpose") || op.flag("transposed");
  op.ignore({"output_padding"});
  if (op.bad() || rankOf(weight) < 3)
    return void(op.t.fail("expected a filter of rank 3 or more"));
  int64_t spatial = rankOf(weight) - 2;
  bool unbatched = rankOf(x) == spatial + 1;
  if (unbatched)
    x = op.t.unsqueeze(x, 0);
  Shape stride = perDim(op.integers("stride", Shape()), spatial, 1),
        dilation = perDim(op.integers("dilation", Shape()), spatial, 1);
  int64_t groups = op.integer("groups", 1);
  Shape low(spatial, 0), high(spatial, 0);
  if (const pt2::Argument *padding = op.argument("padding");
      padding && padding->is<std::string>()) {
    bool same = op.string("padding", "") == "same";
    for (int64_t i = 0; same && i < spatial; ++i) {
      int64_t total = dilation[i] * (shapeOf(weight)[i + 2] - 1);
      low[i] = total / 2, high[i] = total - total / 2;
    }
  } else {
    low = high = perDim(op.integers("padding", Shape()), spatial, 0);
  }
  if (op.bad())
    return;
  if (rankOf(x) != rankOf(weight) ||
      static_cast<int64_t>(stride.size()) != spatial ||
      static_cast<int64_t>(low.size()) != spatial ||
      static_cast<int64_t>(dilation.size()) != spatial)
    return void(op.t.fail("expected one stride, padding and dilation for each "
                          "spatial dimension"));
  Value y;
  if (transposed) {
    y = transposedConvolution(op, x, weight, stride, low, dilation, groups);
  } else {
    Operation *conv = op.t.inferred<ConvolutionOp>({x, weight}, [&](auto &p) {
      p.strides = op.t.array(stride), p.padding_low = op.t.array(low),
      p.padding_high = op.t.array(high);
      p.dilation = op.t.array(dilation), p.groups = op.t.integer(groups);
    });
    y = conv ? conv->getResult(0) : Value();
  }
  y = addChannels(op, y, bias);
  op.result(unbatched && y ? op.t.squeeze(y, 0) : y);
}

void addConvolutions(OperatorTable &table) {
  table.add({"conv1d", "conv2d", "conv3d", "convolution", "_convolution",
             "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"},
            lowerConvolution);
}

} // namespace lockstep::aten
