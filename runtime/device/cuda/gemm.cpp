#include "runtime/device/cuda/gemm.h"

#include <algorithm>

namespace lockstep::runtime::cuda {

static DataType dataType(const std::string &dtype) {
  return dtype == "f64" ? real64 : dtype == "bf16" ? realBf16 : real32;
}

static int64_t sizeOf(const std::string &dtype) {
  return dtype == "f64" ? 8 : dtype == "bf16" ? 2 : 4;
}

StatusOr<Gemm> Gemm::create(const CublasLt &library, const GemmShape &shape,
                            const std::array<Address, 3> &operands) {
  Gemm gemm(library);
  LOCKSTEP_ASSIGN_OR_RETURN(gemm.form, gemmForm(shape));
  bool swapped = gemm.form.swapped;
  gemm.operands = {operands[swapped ? 1 : 0], operands[swapped ? 0 : 1],
                   operands[2]};
  gemm.sizes = {sizeOf(shape.dtype), sizeOf(shape.dtype), sizeOf(shape.cDtype)};
  gemm.alpha = shape.alpha;
  gemm.beta = shape.beta;
  gemm.doubleScale = shape.dtype == "f64";
  if (swapped)
    for (auto &call : gemm.form.calls)
      std::swap(call[0], call[1]);
  if (gemm.form.calls.empty())
    return gemm;
  LOCKSTEP_RETURN_IF_ERROR(gemm.describe(shape));
  LOCKSTEP_RETURN_IF_ERROR(gemm.chooseAlgorithm());
  return gemm;
}

Status Gemm::describe(const GemmShape &shape) {
  const CublasLtApi &api = library->api();
  LtDescription made = nullptr;
  LOCKSTEP_RETURN_IF_ERROR(CublasLt::check(
      api.descriptionCreate(&made, doubleScale ? compute64 : compute32,
                            doubleScale ? real64 : real32),
      "cublasLtMatmulDescCreate"));
  description = Owned<LtDescription>(made, Release{&api});
  const std::pair<LtAttribute, bool> transposes[] = {
      {descriptionTransposeA, form.x.transposed},
      {descriptionTransposeB, form.y.transposed}};
  for (auto [attribute, transposed] : transposes) {
    int value = transposed ? transpose : asStored;
    LOCKSTEP_RETURN_IF_ERROR(CublasLt::check(
        api.descriptionSet(made, attribute, &value, sizeof(value)),
        "cublasLtMatmulDescSetAttribute"));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(x, layout(form.x, shape.dtype));
  LOCKSTEP_ASSIGN_OR_RETURN(y, layout(form.y, shape.dtype));
  LOCKSTEP_ASSIGN_OR_RETURN(d, layout(form.d, shape.cDtype));
  return Status::success();
}

StatusOr<Gemm::Owned<LtLayout>> Gemm::layout(const StoredMatrix &matrix,
                                             const std::string &dtype) const {
  const CublasLtApi &api = library->api();
  LtLayout made = nullptr;
  LOCKSTEP_RETURN_IF_ERROR(CublasLt::check(
      api.layoutCreate(&made, dataType(dtype), uint64_t(matrix.rows),
                       uint64_t(matrix.columns), matrix.leading),
      "cublasLtMatrixLayoutCreate"));
  Owned<LtLayout> result(made, Release{&api});
  if (form.batch == 1)
    return result;
  int count = int(form.batch);
  LOCKSTEP_RETURN_IF_ERROR(CublasLt::check(
      api.layoutSet(made, layoutBatchCount, &count, sizeof(count)),
      "cublasLtMatrixLayoutSetAttribute"));
  LOCKSTEP_RETURN_IF_ERROR(CublasLt::check(
      api.layoutSet(made, layoutBatchStride, &matrix.batchStride,
                    sizeof(matrix.batchStride)),
      "cublasLtMatrixLayoutSetAttribute"));
  return result;
}

/// The largest power of two up to 256 that divides all addresses of an operand.
static uint32_t alignmentOf(Address address,
                            const std::vector<std::array<int64_t, 3>> &calls,
                            size_t operand, int64_t size, int64_t batchStride) {
  Address all = address | 256 | Address(batchStride * size);
  for (const auto &call : calls)
    all |= Address(call[operand] * size);
  return uint32_t(all & (~all + 1));
}

Status Gemm::chooseAlgorithm() {
  const CublasLtApi &api = library->api();
  LtPreference made = nullptr;
  LOCKSTEP_RETURN_IF_ERROR(CublasLt::check(api.preferenceCreate(&made),
                                           "cublasLtMatmulPreferenceCreate"));
  Owned<LtPreference> preference(made, Release{&api});
  auto set = [&](LtAttribute attribute, auto value) {
    return CublasLt::check(
        api.preferenceSet(made, attribute, &value, sizeof(value)),
        "cublasLtMatmulPreferenceSetAttribute");
  };
  LOCKSTEP_RETURN_IF_ERROR(
      set(preferenceWorkspaceBytes, uint64_t(CublasLt::workspaceBytes)));
  auto alignment = [&](size_t operand, const StoredMatrix &matrix) {
    return alignmentOf(operands[operand], form.calls, operand, sizes[operand],
                       matrix.batchStride);
  };
  LOCKSTEP_RETURN_IF_ERROR(set(preferenceAlignmentA, alignment(0, form.x)));
  LOCKSTEP_RETURN_IF_ERROR(set(preferenceAlignmentB, alignment(1, form.y)));
  LOCKSTEP_RETURN_IF_ERROR(set(preferenceAlignmentC, alignment(2, form.d)));
  LOCKSTEP_RETURN_IF_ERROR(set(preferenceAlignmentD, alignment(2, form.d)));
  LtHeuristic found = {};
  int count = 0;
  LOCKSTEP_RETURN_IF_ERROR(CublasLt::check(
      api.heuristic(library->handle(), description.get(), x.get(), y.get(),
                    d.get(), d.get(), made, 1, &found, &count),
      "choosing an algorithm of cuBLASLt"));
  if (!count)
    return internalFault("cuBLASLt has no algorithm for this product");
  algorithm = found.algorithm;
  return Status::success();
}

Status Gemm::enqueue(StreamHandle stream) const {
  float scales[2] = {float(alpha), float(beta)};
  double doubles[2] = {alpha, beta};
  auto scale = [&](int i) {
    return doubleScale ? static_cast<const void *>(&doubles[i]) : &scales[i];
  };
  for (const auto &call : form.calls) {
    auto at = [&](size_t operand) {
      return reinterpret_cast<void *>(operands[operand] +
                                      Address(call[operand] * sizes[operand]));
    };
    LOCKSTEP_RETURN_IF_ERROR(CublasLt::check(
        library->api().matmul(library->handle(), description.get(), scale(0),
                              at(0), x.get(), at(1), y.get(), scale(1), at(2),
                              d.get(), at(2), d.get(), &algorithm,
                              reinterpret_cast<void *>(library->workspace()),
                              size_t(CublasLt::workspaceBytes), stream),
        "cublasLtMatmul"));
  }
  return Status::success();
}

} // namespace lockstep::runtime::cuda
