// The Gemm library kernel on a GPU, through cuBLASLt: f32 without TF32, f64,
// and bf16 with f32 sums.
#ifndef LOCKSTEP_RUNTIME_DEVICE_CUDA_GEMM_H
#define LOCKSTEP_RUNTIME_DEVICE_CUDA_GEMM_H

#include "runtime/device/cuda/cublaslt.h"
#include "runtime/device/cuda/gemm_form.h"

namespace lockstep::runtime::cuda {

/// A product with its operands' addresses and its algorithm, both fixed.
class Gemm {
public:
  /// The algorithm is the first of cuBLASLt's heuristic, which depends on
  /// shapes, alignment and the library's version alone. Error: cuBLASLt has
  /// none.
  static StatusOr<Gemm> create(const CublasLt &library, const GemmShape &shape,
                               const std::array<Address, 3> &operands);
  Gemm(Gemm &&) = default;
  Gemm &operator=(Gemm &&) = default;

  /// Adds the product to a stream.
  Status enqueue(StreamHandle stream) const;

private:
  struct Release {
    const CublasLtApi *api;
    void operator()(LtDescription d) const { api->descriptionDestroy(d); }
    void operator()(LtLayout l) const { api->layoutDestroy(l); }
    void operator()(LtPreference p) const { api->preferenceDestroy(p); }
  };
  template <typename T>
  using Owned = std::unique_ptr<std::remove_pointer_t<T>, Release>;

  explicit Gemm(const CublasLt &library) : library(&library) {}
  Status describe(const GemmShape &shape);
  StatusOr<Owned<LtLayout>> layout(const StoredMatrix &matrix,
                                   const std::string &dtype) const;
  Status chooseAlgorithm();

  const CublasLt *library;
  GemmForm form;
  std::array<Address, 3> operands{}; ///< x, y, d
  std::array<int64_t, 3> sizes{};    ///< bytes of an element of x, y, d
  double alpha = 1, beta = 0;
  bool doubleScale = false;
  Owned<LtDescription> description;
  Owned<LtLayout> x, y, d;
  LtAlgorithm algorithm{};
};

} // namespace lockstep::runtime::cuda

#endif // LOCKSTEP_RUNTIME_DEVICE_CUDA_GEMM_H
