//===- Feeds.cpp - Inputs and outputs of interpreted programs
//----------------------===//
#include "compiler/reference/Feeds.h"
#include "compiler/reference/EvaluateSupport.h"
#include "runtime/safetensors/safetensors.h"
#include "llvm/Support/xxhash.h"
#include <cmath>
#include <cstring>
#include <random>

using namespace mlir;

namespace lockstep {

//===--- Files ---===//

static Type getType(DType dtype, MLIRContext *context) {
  Builder b(context);
  switch (dtype) {
  case DType::Bool:
    return b.getI1Type();
  case DType::U8:
    return IntegerType::get(context, 8, IntegerType::Unsigned);
  case DType::I8:
    return b.getIntegerType(8);
  case DType::I16:
    return b.getIntegerType(16);
  case DType::I32:
    return b.getI32Type();
  case DType::I64:
    return b.getI64Type();
  case DType::F16:
    return b.getF16Type();
  case DType::BF16:
    return b.getBF16Type();
  case DType::F32:
    return b.getF32Type();
  case DType::F64:
    return b.getF64Type();
  default:
    return {};
  }
}

static DType getDType(Type type) {
  if (type.isF64())
    return DType::F64;
  if (type.isF32())
    return DType::F32;
  if (type.isF16())
    return DType::F16;
  if (type.isBF16())
    return DType::BF16;
  switch (type.getIntOrFloatBitWidth()) {
  case 1:
    return DType::Bool;
  case 8:
    return type.isUnsignedInteger() ? DType::U8 : DType::I8;
  case 16:
    return DType::I16;
  case 32:
    return DType::I32;
  default:
    return DType::I64;
  }
}

StatusOr<Feeds> readFeeds(const std::string &path, MLIRContext *context) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::shared_ptr<const SafetensorsFile> file,
                            SafetensorsFile::open(path));
  Feeds feeds;
  for (const SafetensorsTensor &tensor : file->tensors())
    if (Type element = getType(tensor.dtype, context))
      // The file stays mapped as long as a tensor refers to it.
      feeds[tensor.name] = HostTensor::wrap(
          RankedTensorType::get(tensor.shape, element),
          std::shared_ptr<const char>(
              file, reinterpret_cast<const char *>(tensor.data)));
  return feeds;
}

Status writeFeeds(const std::string &path, const Feeds &feeds) {
  std::vector<SafetensorsTensor> tensors;
  std::vector<HostTensor> alive;
  for (auto &[name, value] : feeds) {
    HostTensor all = value.expand();
    tensors.push_back({name, getDType(all.getElementType()),
                       std::vector<int64_t>(all.getShape()),
                       reinterpret_cast<const std::byte *>(all.getData()),
                       uint64_t(all.getNumBytes())});
    alive.push_back(all);
  }
  return writeSafetensors(path, tensors);
}

//===--- Random values ---===//

static double getHyperparameter(StringRef name) {
  return llvm::StringSwitch<double>(name)
      .Case("lr", 1e-3)
      .Case("beta1", 0.9)
      .Case("beta2", 0.999)
      .Case("eps", 1e-8)
      .Case("momentum", 0.9)
      .Case("grad_clip", 1)
      .Case("bias_correction1", 0.1)
      .Case("bias_correction2", 0.001)
      .Default(0);
}

static HostTensor draw(const EntryValue &value, const RandomOptions &options) {
  std::mt19937_64 engine(options.seed ^ llvm::xxh3_64bits(value.name));
  int64_t count = value.type.getNumElements();
  if (value.role == train::Role::Hyperparameter)
    return HostTensor::splat(value.type, getHyperparameter(value.name));
  if (value.role == train::Role::State)
    return HostTensor::splat(value.type, 0);
  if (value.role == train::Role::Rng)
    return HostTensor::fromInts(value.type,
                                std::vector<int64_t>{int64_t(options.seed), 0});
  if (value.role == train::Role::Buffer)
    return HostTensor::splat(value.type,
                             StringRef(value.name).ends_with("var") ? 1 : 0);
  if (!isa<FloatType>(value.type.getElementType())) {
    std::vector<int64_t> values(count);
    int64_t limit =
        value.type.getElementType().isInteger(1) ? 2 : options.integerLimit;
    for (int64_t &v : values)
      v = int64_t(engine() % uint64_t(limit));
    return HostTensor::fromInts(value.type, values);
  }
  std::normal_distribution<double> normal(
      0, value.role == train::Role::Parameter ? 0.1 : 1);
  std::vector<double> values(count);
  for (double &v : values)
    v = normal(engine);
  return HostTensor::fromDoubles(value.type, values);
}

Feeds drawFeeds(const EntrySignature &signature, const RandomOptions &options) {
  Feeds feeds;
  for (const EntryValue &argument : signature.arguments)
    feeds[argument.name] = draw(argument, options);
  return feeds;
}

//===--- Parts ---===//

/// The one dimension in which `local` times some ranks is `global`; nothing if
/// they do not fit.
static std::optional<int64_t> findDividedDim(ArrayRef<int64_t> global,
                                             ArrayRef<int64_t> local,
                                             int64_t ranks) {
  std::optional<int64_t> divided;
  if (global.size() != local.size())
    return std::nullopt;
  for (int64_t i = 0, e = global.size(); i < e; ++i) {
    if (global[i] == local[i])
      continue;
    if (divided || local[i] * ranks != global[i])
      return std::nullopt;
    divided = i;
  }
  return divided;
}

static bool isBatch(const EntryValue &value) {
  return value.role == train::Role::Input || value.role == train::Role::Label;
}

StatusOr<SmallVector<RankTensors>>
distributeFeeds(const EntrySignature &signature, const Feeds &feeds,
                int64_t ranks, int64_t accumulationSteps) {
  SmallVector<RankTensors> arguments;
  for (const EntryValue &argument : signature.arguments) {
    auto it = feeds.find(argument.name);
    if (it == feeds.end())
      return inputError("no value for '" + argument.name + "'")
          .remedy("add it to the file of inputs");
    const HostTensor &global = it->second;
    if (global.getElementType() != argument.type.getElementType())
      return inputError("'" + argument.name +
                        "' has another element type than the program wants");
    if (global.getShape() == argument.type.getShape()) {
      arguments.push_back(RankTensors(ranks, global));
      continue;
    }
    std::optional<int64_t> dim =
        findDividedDim(global.getShape(), argument.type.getShape(), ranks);
    if (!dim)
      return inputError("the shape of '" + argument.name +
                        "' is neither the program's nor divides over " +
                        std::to_string(ranks) + " ranks");
    int64_t steps = isBatch(argument) && *dim == 0 ? accumulationSteps : 1;
    RankTensors parts;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      SmallVector<HostTensor> blocks;
      for (int64_t k = 0; k < steps; ++k)
        blocks.push_back(
            getBlock(getBlock(global, *dim, k, steps), *dim, rank, ranks));
      parts.push_back(concatenate(blocks, *dim));
    }
    arguments.push_back(parts);
  }
  return arguments;
}

/// The dimension along which ranks hold parts of a result.
static std::optional<int64_t>
findDividedDim(const EntryValue &result, int64_t ranks, const Feeds &shapes) {
  auto it = shapes.find(result.name);
  return it == shapes.end() ? std::nullopt
                            : findDividedDim(it->second.getShape(),
                                             result.type.getShape(), ranks);
}

Status checkRanksAgree(const EntrySignature &signature,
                       ArrayRef<RankTensors> results, const Feeds &shapes) {
  for (auto [result, tensors] : llvm::zip_equal(signature.results, results)) {
    // Outputs are rows of the batch.
    if (result.role == train::Role::Buffer ||
        result.role == train::Role::Output ||
        findDividedDim(result, int64_t(tensors.size()), shapes))
      continue;
    HostTensor first = tensors.front().expand();
    for (size_t rank = 1; rank < tensors.size(); ++rank)
      if (std::memcmp(first.getData(), tensors[rank].expand().getData(),
                      first.getNumBytes()) != 0)
        return inputError("'" + result.name +
                          "' differs between rank 0 and rank " +
                          std::to_string(rank));
  }
  return Status::success();
}

Feeds collectResults(const EntrySignature &signature,
                     ArrayRef<RankTensors> results, int64_t ranks,
                     const Feeds &shapes) {
  Feeds feeds;
  for (auto [result, tensors] : llvm::zip_equal(signature.results, results)) {
    std::optional<int64_t> dim = findDividedDim(result, ranks, shapes);
    feeds[result.name] = dim ? concatenate(tensors, *dim) : tensors.front();
  }
  return feeds;
}

//===--- Comparison ---===//

static Status compareTensors(const std::string &name, const HostTensor &actual,
                             const HostTensor &expected, double tolerance) {
  if (actual.getShape() != expected.getShape())
    return inputError("'" + name + "' has another shape than expected");
  std::vector<double> a = actual.toDoubles(), e = expected.toDoubles();
  double scale = 1;
  for (double value : e)
    if (std::isfinite(value))
      scale = std::max(scale, std::fabs(value));
  for (size_t i = 0; i < a.size(); ++i) {
    bool same = a[i] == e[i] || (std::isnan(a[i]) && std::isnan(e[i])) ||
                std::fabs(a[i] - e[i]) <= tolerance * scale;
    if (!same)
      return inputError("'" + name + "' differs at element " +
                        std::to_string(i) + ": expected " +
                        std::to_string(e[i]) + ", but got " +
                        std::to_string(a[i]));
  }
  return Status::success();
}

Status compareFeeds(const Feeds &actual, const Feeds &expected,
                    double tolerance) {
  int64_t compared = 0;
  for (auto &[name, value] : expected) {
    auto it = actual.find(name);
    if (it == actual.end())
      continue;
    LOCKSTEP_RETURN_IF_ERROR(
        compareTensors(name, it->second, value, tolerance));
    ++compared;
  }
  return compared
             ? Status::success()
             : inputError(
                   "the results have no name in common with the expected ones");
}

} // namespace lockstep
