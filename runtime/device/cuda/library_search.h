// Finds NVIDIA's libraries (cuBLASLt, NCCL) at run time.
#ifndef LOCKSTEP_RUNTIME_DEVICE_CUDA_LIBRARY_SEARCH_H
#define LOCKSTEP_RUNTIME_DEVICE_CUDA_LIBRARY_SEARCH_H

#include "runtime/support/status.h"

#include <string>
#include <vector>

namespace lockstep::runtime::cuda {

/// Folders that may hold NVIDIA's libraries, besides those that the loader
/// looks in, best first: of $CUDA_HOME and $CUDA_PATH, /usr/local/cuda, and the
/// nvidia-* packages of pip beside the python of $VIRTUAL_ENV and of $PATH.
std::vector<std::string> libraryFolders();

/// Opens the first of `files` ("libcublasLt.so.13", ...) that the loader finds,
/// or that lies in one of libraryFolders(). The library is never closed. Error:
/// none is there; the text names the files and, if one could not be loaded,
/// why.
StatusOr<void *> openLibrary(const std::string &name,
                             const std::vector<std::string> &files,
                             const std::string &package);

} // namespace lockstep::runtime::cuda

#endif // LOCKSTEP_RUNTIME_DEVICE_CUDA_LIBRARY_SEARCH_H
