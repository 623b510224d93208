// Arrays in NumPy's .npy format, versions 1 to 3, row-major, little-endian.
#ifndef LOCKSTEP_RUNTIME_DATA_NPY_H
#define LOCKSTEP_RUNTIME_DATA_NPY_H

#include "runtime/support/dtype.h"
#include "runtime/support/mapped_file.h"
#include "runtime/support/status.h"

#include <memory>
#include <vector>

namespace lockstep::runtime {

struct NpyArray {
  std::shared_ptr<const MappedFile> file;
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  const std::byte *data = nullptr; ///< not aligned in general
};

/// Errors: not a .npy file, an element type that has no place here,
/// column-major order, truncated.
StatusOr<NpyArray> openNpy(const std::string &path);

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_DATA_NPY_H
