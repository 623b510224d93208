// Convolution and its gradients through oneDNN. The library picks the layouts
// it likes; operands are dense and are reordered at the borders. Primitives
// and their memory are made once, when the kernel is prepared.
#include "runtime/device/host/library/library_kernel.h"
#include "runtime/device/host/library/strided.h"

#include <numeric>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>

namespace lockstep::runtime {

namespace {

using dnnl::memory;
using Tag = memory::format_tag;

struct ConvolutionShape {
  Ints x, w, y; ///< w with the group dimension in front when groups > 1
  Ints strides, dilation, low, high;
  bool bias = false;
};

dnnl::engine &engine() {
  static dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

memory::desc dense(const Ints &shape) {
  return memory::desc(shape, memory::data_type::f32, denseStrides(shape));
}
memory::desc anyLayout(const Ints &shape) {
  return memory::desc(shape, memory::data_type::f32, Tag::any);
}

int64_t bytesOf(const Ints &shape) {
  return 4 * std::accumulate(shape.begin(), shape.end(), int64_t(1),
                             std::multiplies<int64_t>());
}

/// An operand of the artifact and the memory that the primitive works on: the
/// same, or a buffer in the layout that it prefers, with the reorder between.
class Border {
public:
  Border(const Ints &shape, const memory::desc &preferred, bool isOutput)
      : outside(dense(shape), engine(), nullptr) {
    if (preferred == outside.get_desc())
      return;
    inside = memory(preferred, engine());
    convert = isOutput ? dnnl::reorder(*inside, outside)
                       : dnnl::reorder(outside, *inside);
  }
  memory &enter(dnnl::stream &stream, void *operand) {
    outside.set_data_handle(operand);
    if (!inside)
      return outside;
    convert.execute(stream, outside, *inside);
    return *inside;
  }
  memory &target(void *operand) {
    outside.set_data_handle(operand);
    return inside ? *inside : outside;
  }
  void leave(dnnl::stream &stream) {
    if (inside)
      convert.execute(stream, *inside, outside);
  }

private:
  memory outside;
  std::optional<memory> inside;
  dnnl::reorder convert;
};

/// One oneDNN primitive with two inputs, perhaps a bias, and one output.
class Convolution final : public LibraryKernel {
public:
  Convolution(dnnl::primitive primitive, Border first, int firstArgument,
              Border second, int secondArgument, Border result,
              int resultArgument, std::vector<int64_t> bytes,
              std::optional<memory> bias)
      : primitive(std::move(primitive)), first(std::move(first)),
        second(std::move(second)), result(std::move(result)),
        bias(std::move(bias)), firstArgument(firstArgument),
        secondArgument(secondArgument), resultArgument(resultArgument),
        bytes(std::move(bytes)), stream(engine()) {}

  std::vector<int64_t> operandBytes() const override { return bytes; }

  Status run(void *const *operands) override {
    try {
      std::unordered_map<int, memory> arguments;
      arguments[firstArgument] = first.enter(stream, operands[0]);
      arguments[secondArgument] = second.enter(stream, operands[1]);
      if (bias) {
        bias->set_data_handle(operands[2]);
        arguments[DNNL_ARG_BIAS] = *bias;
      }
      arguments[resultArgument] = result.target(operands[bias ? 3 : 2]);
      primitive.execute(stream, arguments);
      result.leave(stream);
      stream.wait();
    } catch (const dnnl::error &error) {
      return internalFault(std::string("oneDNN: ") + error.what());
    }
    return Status::success();
  }

private:
  dnnl::primitive primitive;
  Border first, second, result;
  std::optional<memory> bias;
  int firstArgument, secondArgument, resultArgument;
  std::vector<int64_t> bytes;
  dnnl::stream stream;
};

ConvolutionShape readShape(Attributes &attributes, bool forward) {
  ConvolutionShape s;
  s.x = attributes.integers("x_shape", -1);
  s.w = attributes.integers("w_shape", -1);
  s.y = attributes.integers("y_shape", -1);
  size_t rank = s.x.size();
  if (rank < 3 || rank > 5 || s.w.size() != rank || s.y.size() != rank) {
    attributes.reject("x_shape", "and the other shapes must have 3 to 5 sizes");
    return s;
  }
  int64_t spatial = int64_t(rank) - 2;
  Ints ones(size_t(spatial), 1), zeros(size_t(spatial), 0);
  s.strides = attributes.integers("strides", spatial, ones);
  s.dilation = attributes.integers("dilation", spatial, ones);
  s.low = attributes.integers("padding_low", spatial, zeros);
  s.high = attributes.integers("padding_high", spatial, zeros);
  int64_t groups = attributes.integer("groups", 1);
  s.bias = forward && attributes.integer("bias", 0);
  bool fits = groups >= 1 && s.w[0] % groups == 0 && s.w[0] == s.y[1] &&
              s.w[1] * groups == s.x[1] && s.x[0] == s.y[0];
  for (int64_t i = 0; fits && i < spatial; ++i) {
    int64_t reach = s.dilation[i] * (s.w[2 + i] - 1) + 1;
    int64_t room = s.x[2 + i] + s.low[i] + s.high[i] - reach;
    fits = s.strides[i] >= 1 && s.dilation[i] >= 1 && room >= 0 &&
           s.y[2 + i] == room / s.strides[i] + 1;
    s.dilation[i] -= 1; // oneDNN counts the gaps
  }
  if (!fits)
    attributes.reject("y_shape", "does not follow from the other attributes");
  if (groups > 1) {
    s.w[0] /= groups;
    s.w.insert(s.w.begin(), groups);
  }
  return s;
}

constexpr auto algorithm = dnnl::algorithm::convolution_direct;

dnnl::convolution_forward::primitive_desc
describeForward(const ConvolutionShape &s) {
  using Forward = dnnl::convolution_forward;
  auto kind = dnnl::prop_kind::forward_training;
  Ints biasShape = {s.y[1]};
  if (s.bias)
    return {Forward::desc(kind, algorithm, anyLayout(s.x), anyLayout(s.w),
                          dense(biasShape), anyLayout(s.y), s.strides,
                          s.dilation, s.low, s.high),
            engine()};
  return {Forward::desc(kind, algorithm, anyLayout(s.x), anyLayout(s.w),
                        anyLayout(s.y), s.strides, s.dilation, s.low, s.high),
          engine()};
}

std::unique_ptr<LibraryKernel> makeForward(const ConvolutionShape &s) {
  auto d = describeForward(s);
  std::vector<int64_t> bytes = {bytesOf(s.x), bytesOf(s.w)};
  std::optional<memory> bias;
  if (s.bias) {
    bytes.push_back(4 * s.y[1]);
    bias = memory(d.bias_desc(), engine(), nullptr);
  }
  bytes.push_back(bytesOf(s.y));
  return std::make_unique<Convolution>(
      dnnl::convolution_forward(d), Border(s.x, d.src_desc(), false),
      DNNL_ARG_SRC, Border(s.w, d.weights_desc(), false), DNNL_ARG_WEIGHTS,
      Border(s.y, d.dst_desc(), true), DNNL_ARG_DST, std::move(bytes), bias);
}

std::unique_ptr<LibraryKernel> makeInputGradient(const ConvolutionShape &s) {
  using Backward = dnnl::convolution_backward_data;
  Backward::primitive_desc d(
      Backward::desc(algorithm, anyLayout(s.x), anyLayout(s.w), anyLayout(s.y),
                     s.strides, s.dilation, s.low, s.high),
      engine(), describeForward(s));
  std::vector<int64_t> bytes = {bytesOf(s.y), bytesOf(s.w), bytesOf(s.x)};
  return std::make_unique<Convolution>(
      Backward(d), Border(s.y, d.diff_dst_desc(), false), DNNL_ARG_DIFF_DST,
      Border(s.w, d.weights_desc(), false), DNNL_ARG_WEIGHTS,
      Border(s.x, d.diff_src_desc(), true), DNNL_ARG_DIFF_SRC, std::move(bytes),
      std::nullopt);
}

std::unique_ptr<LibraryKernel> makeFilterGradient(const ConvolutionShape &s) {
  using Backward = dnnl::convolution_backward_weights;
  Backward::primitive_desc d(
      Backward::desc(algorithm, anyLayout(s.x), anyLayout(s.w), anyLayout(s.y),
                     s.strides, s.dilation, s.low, s.high),
      engine(), describeForward(s));
  std::vector<int64_t> bytes = {bytesOf(s.x), bytesOf(s.y), bytesOf(s.w)};
  return std::make_unique<Convolution>(
      Backward(d), Border(s.x, d.src_desc(), false), DNNL_ARG_SRC,
      Border(s.y, d.diff_dst_desc(), false), DNNL_ARG_DIFF_DST,
      Border(s.w, d.diff_weights_desc(), true), DNNL_ARG_DIFF_WEIGHTS,
      std::move(bytes), std::nullopt);
}

StatusOr<std::unique_ptr<LibraryKernel>>
create(Attributes &attributes, bool forward,
       std::unique_ptr<LibraryKernel> (*make)(const ConvolutionShape &)) {
  ConvolutionShape shape = readShape(attributes, forward);
  LOCKSTEP_RETURN_IF_ERROR(attributes.finish());
  try {
    return make(shape);
  } catch (const dnnl::error &error) {
    return internalFault(std::string("oneDNN: ") + error.what());
  }
}

} // namespace

StatusOr<std::unique_ptr<LibraryKernel>>
createConvolutionForward(Attributes &attributes) {
  return create(attributes, true, makeForward);
}
StatusOr<std::unique_ptr<LibraryKernel>>
createConvolutionInputGradient(Attributes &attributes) {
  return create(attributes, false, makeInputGradient);
}
StatusOr<std::unique_ptr<LibraryKernel>>
createConvolutionFilterGradient(Attributes &attributes) {
  return create(attributes, false, makeFilterGradient);
}

} // namespace lockstep::runtime
