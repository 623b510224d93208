// Streams of tokens in files: llm.c's (a header of 256 int32 with magic
// 20240520 for 16-bit and 20240801 for 32-bit tokens), and headerless arrays as
// nanoGPT writes them (16 bits unless said otherwise). Mapped, never read
// whole.
#ifndef LOCKSTEP_RUNTIME_DATA_TOKEN_FILES_H
#define LOCKSTEP_RUNTIME_DATA_TOKEN_FILES_H

#include "runtime/support/dtype.h"
#include "runtime/support/mapped_file.h"
#include "runtime/support/status.h"

#include <memory>
#include <string>
#include <vector>

namespace lockstep::runtime {

struct TokenFile {
  std::shared_ptr<const MappedFile> file;
  DType dtype = DType::U16;
  const std::byte *tokens = nullptr;
  int64_t count = 0;
};

/// `headerless`: the element type of a file without header.
StatusOr<TokenFile> openTokenFile(const std::string &path, DType headerless);

/// The files that a pattern names, sorted. Error: none.
StatusOr<std::vector<std::string>> expandGlob(const std::string &pattern);

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_DATA_TOKEN_FILES_H
