#include "runtime/device/host/library/sgemm.h"

#include <cblas.h>
#include <oneapi/dnnl/dnnl.h>

namespace lockstep::runtime {

void sgemm(Transposed ta, Transposed tb, int64_t m, int64_t n, int64_t k,
           float alpha, const float *a, int64_t lda, const float *b,
           int64_t ldb, float beta, float *c, int64_t ldc) {
  bool first = ta == Transposed::Yes, second = tb == Transposed::Yes;
  bool small = double(m) * double(n) * double(k) < 4e6;
  bool shortSum = !first && k <= 512;
  if (k > 0 && (small || shortSum) &&
      dnnl_sgemm(first ? 'T' : 'N', second ? 'T' : 'N', m, n, k, alpha, a, lda,
                 b, ldb, beta, c, ldc) == dnnl_success)
    return;
  cblas_sgemm(CblasRowMajor, first ? CblasTrans : CblasNoTrans,
              second ? CblasTrans : CblasNoTrans, int(m), int(n), int(k), alpha,
              a, int(lda), b, int(ldb), beta, c, int(ldc));
}

} // namespace lockstep::runtime
