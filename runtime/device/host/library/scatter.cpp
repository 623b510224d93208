// Scatter with addition, and the plain copies. Each output element is added to
// by one thread, in the order of the updates.
#include "runtime/device/host/library/library_kernel.h"
#include "runtime/device/host/parallel.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace lockstep::runtime {

namespace {

struct ScatterShape {
  int64_t outer = 1, count = 1, size = 1, inner = 1;
  bool indicesOuter = false, indicesInner = false, clear = false;
};

template <typename T> class ScatterAdd final : public LibraryKernel {
public:
  explicit ScatterAdd(ScatterShape shape) : s(shape) {}
  std::vector<int64_t> operandBytes() const override {
    int64_t size = sizeof(T);
    int64_t indices = s.count * (s.indicesOuter ? s.outer : 1) *
                      (s.indicesInner ? s.inner : 1);
    return {s.outer * s.count * s.inner * size, indices * 8,
            s.outer * s.size * s.inner * size};
  }
  Status run(void *const *operands) override;

private:
  ScatterShape s;
};

template <typename T> Status ScatterAdd<T>::run(void *const *operands) {
  const T *updates = static_cast<const T *>(operands[0]);
  const auto *indices = static_cast<const int64_t *>(operands[1]);
  T *out = static_cast<T *>(operands[2]);
  // Cut by columns: all updates of an element stay on one thread.
  constexpr int64_t columnsPerChunk = 64;
  int64_t cuts = (s.inner + columnsPerChunk - 1) / columnsPerChunk;
  std::atomic<int64_t> wrong{-1};
  parallelFor(s.outer * cuts, [&](int64_t chunk) {
    int64_t o = chunk / cuts, begin = chunk % cuts * columnsPerChunk;
    int64_t end = std::min(begin + columnsPerChunk, s.inner);
    T *target = out + o * s.size * s.inner;
    if (s.clear)
      for (int64_t row = 0; row < s.size; ++row)
        std::fill(target + row * s.inner + begin, target + row * s.inner + end,
                  T(0));
    for (int64_t i = 0; i < s.count; ++i) {
      const T *source = updates + (o * s.count + i) * s.inner;
      const int64_t *index =
          indices + ((s.indicesOuter ? o * s.count : 0) + i) *
                        (s.indicesInner ? s.inner : 1);
      for (int64_t j = begin; j < end; ++j) {
        int64_t row = index[s.indicesInner ? j : 0];
        if (row < 0 || row >= s.size) {
          wrong = row < 0 ? s.size : row;
          continue;
        }
        target[row * s.inner + j] += source[j];
      }
    }
  });
  if (wrong >= 0)
    return inputError("an index is outside [0, " + std::to_string(s.size) + ")")
        .remedy("check the indices in the data");
  return Status::success();
}

class Copy final : public LibraryKernel {
public:
  explicit Copy(int64_t bytes) : bytes(bytes) {}
  std::vector<int64_t> operandBytes() const override { return {bytes, bytes}; }
  Status run(void *const *operands) override {
    constexpr int64_t piece = 1 << 18;
    parallelFor((bytes + piece - 1) / piece, [&](int64_t chunk) {
      int64_t begin = chunk * piece, count = std::min(piece, bytes - begin);
      std::memcpy(static_cast<char *>(operands[1]) + begin,
                  static_cast<const char *>(operands[0]) + begin,
                  size_t(count));
    });
    return Status::success();
  }

private:
  int64_t bytes;
};

class Fill final : public LibraryKernel {
public:
  Fill(int64_t bytes, int byte) : bytes(bytes), byte(byte) {}
  std::vector<int64_t> operandBytes() const override { return {bytes}; }
  Status run(void *const *operands) override {
    constexpr int64_t piece = 1 << 18;
    parallelFor((bytes + piece - 1) / piece, [&](int64_t chunk) {
      int64_t begin = chunk * piece;
      std::memset(static_cast<char *>(operands[0]) + begin, byte,
                  size_t(std::min(piece, bytes - begin)));
    });
    return Status::success();
  }

private:
  int64_t bytes;
  int byte;
};

} // namespace

StatusOr<std::unique_ptr<LibraryKernel>>
createScatterAdd(Attributes &attributes) {
  ScatterShape s;
  s.outer = attributes.integer("outer", 1);
  s.count = attributes.integer("count");
  s.size = attributes.integer("size");
  s.inner = attributes.integer("inner", 1);
  s.indicesOuter = attributes.integer("indices_outer", 0) != 0;
  s.indicesInner = attributes.integer("indices_inner", 0) != 0;
  s.clear = attributes.integer("clear", 0) != 0;
  std::string dtype = attributes.text("dtype", "f32");
  if (std::min({s.outer, s.count, s.size, s.inner}) < 0)
    attributes.reject("count", "and the other sizes must not be negative");
  if (dtype != "f32" && dtype != "f64")
    attributes.reject("dtype", "must be f32 or f64");
  LOCKSTEP_RETURN_IF_ERROR(attributes.finish());
  std::unique_ptr<LibraryKernel> kernel;
  if (dtype == "f32")
    kernel = std::make_unique<ScatterAdd<float>>(s);
  else
    kernel = std::make_unique<ScatterAdd<double>>(s);
  return kernel;
}

StatusOr<std::unique_ptr<LibraryKernel>> createCopy(Attributes &attributes) {
  int64_t bytes = attributes.integer("bytes");
  if (bytes < 0)
    attributes.reject("bytes", "must not be negative");
  LOCKSTEP_RETURN_IF_ERROR(attributes.finish());
  return std::unique_ptr<LibraryKernel>(new Copy(bytes));
}

StatusOr<std::unique_ptr<LibraryKernel>> createFill(Attributes &attributes) {
  int64_t bytes = attributes.integer("bytes");
  int64_t byte = attributes.integer("byte", 0);
  if (bytes < 0)
    attributes.reject("bytes", "must not be negative");
  LOCKSTEP_RETURN_IF_ERROR(attributes.finish());
  return std::unique_ptr<LibraryKernel>(new Fill(bytes, int(byte)));
}

} // namespace lockstep::runtime
