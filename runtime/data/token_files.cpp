#include "runtime/data/token_files.h"

#include <cstring>
#include <glob.h>

namespace lockstep::runtime {

static constexpr uint64_t headerBytes = 256 * 4;

StatusOr<TokenFile> openTokenFile(const std::string &path, DType headerless) {
  TokenFile result;
  LOCKSTEP_ASSIGN_OR_RETURN(result.file, MappedFile::open(path));
  uint64_t size = result.file->size();
  int32_t header[3] = {};
  if (size >= headerBytes)
    std::memcpy(header, result.file->data(), sizeof(header));
  bool small = header[0] == 20240520, large = header[0] == 20240801;
  if (!small && !large) {
    result.dtype = headerless;
    if (size % dtypeSize(headerless))
      return inputError("the size of " + std::to_string(size) +
                        " bytes is not a multiple of a token's " +
                        std::to_string(dtypeSize(headerless)))
          .at(path)
          .remedy("name the token type with --data-dtype");
    result.tokens = result.file->data();
    result.count = int64_t(size / dtypeSize(headerless));
    return result;
  }
  result.dtype = small ? DType::U16 : DType::U32;
  result.tokens = result.file->data() + headerBytes;
  result.count = header[2];
  uint64_t room = (size - headerBytes) / dtypeSize(result.dtype);
  if (header[2] < 0 || uint64_t(header[2]) > room)
    return inputError("the header announces " + std::to_string(header[2]) +
                      " tokens, but the file has " + std::to_string(room))
        .at(path)
        .remedy("copy the file again");
  return result;
}

StatusOr<std::vector<std::string>> expandGlob(const std::string &pattern) {
  glob_t matches = {};
  int error = glob(pattern.c_str(), GLOB_TILDE | GLOB_BRACE, nullptr, &matches);
  std::vector<std::string> paths;
  for (size_t i = 0; error == 0 && i < matches.gl_pathc; ++i)
    paths.push_back(matches.gl_pathv[i]);
  globfree(&matches);
  if (paths.empty())
    return inputError("no file matches")
        .at(pattern)
        .remedy("check the path; quote the pattern so that the shell leaves it "
                "alone");
  return paths;
}

} // namespace lockstep::runtime
