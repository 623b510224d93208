// Convolution and its gradients: on AMX tiles where the processor has them and
// the shape fills them (tile_convolution.h), else through oneDNN. The library
// picks the layouts it likes; operands are dense and are reordered at the
// borders. Primitives and their memory are made once, when the kernel is
// prepared.
#include "runtime/device/host/library/convolution_shape.h"
#include "runtime/device/host/library/library_kernel.h"
#include "runtime/device/host/library/strided.h"
#include "runtime/device/host/library/tile_convolution.h"

#include <oneapi/dnnl/dnnl.hpp>
#include <optional>

namespace lockstep::runtime {

namespace {

using dnnl::memory;
using Tag = memory::format_tag;

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

/// In oneDNN's terms: groups are a dimension of the filters, dilation counts
/// the gaps.
ConvolutionShape inTermsOfLibrary(ConvolutionShape s) {
  for (int64_t &dilation : s.dilation)
    dilation -= 1;
  if (s.groups > 1) {
    s.w[0] /= s.groups;
    s.w.insert(s.w.begin(), s.groups);
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
create(Attributes &attributes, ConvolutionPass pass,
       std::unique_ptr<LibraryKernel> (*make)(const ConvolutionShape &)) {
  ConvolutionShape shape =
      readConvolutionShape(attributes, pass == ConvolutionPass::Forward);
  LOCKSTEP_RETURN_IF_ERROR(attributes.finish());
  if (auto kernel = createTileConvolution(shape, pass))
    return kernel;
  try {
    return make(inTermsOfLibrary(std::move(shape)));
  } catch (const dnnl::error &error) {
    return internalFault(std::string("oneDNN: ") + error.what());
  }
}

} // namespace

StatusOr<std::unique_ptr<LibraryKernel>>
createConvolutionForward(Attributes &attributes) {
  return create(attributes, ConvolutionPass::Forward, makeForward);
}
StatusOr<std::unique_ptr<LibraryKernel>>
createConvolutionInputGradient(Attributes &attributes) {
  return create(attributes, ConvolutionPass::InputGradient, makeInputGradient);
}
StatusOr<std::unique_ptr<LibraryKernel>>
createConvolutionFilterGradient(Attributes &attributes) {
  return create(attributes, ConvolutionPass::FilterGradient,
                makeFilterGradient);
}

} // namespace lockstep::runtime
