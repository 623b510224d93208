// Opens a .pt2 file of torch.export and reads its graph. Weight records stay in
// the archive until they are asked for; pickles are never opened.
#ifndef LOCKSTEP_COMPILER_IMPORT_PT2_READER_H
#define LOCKSTEP_COMPILER_IMPORT_PT2_READER_H

#include "compiler/import/pt2/ExportedProgram.h"
#include "runtime/support/status.h"

#include <memory>
#include <string>

namespace lockstep::pt2 {

class Archive;

/// Bounds that keep hostile files from using up the machine.
struct ReaderLimits {
  uint64_t maxJsonBytes = uint64_t(1) << 28;
  unsigned maxJsonDepth = 256;
  uint64_t maxArchiveEntries = 1u << 20;
};

struct Pt2File {
  ExportedProgram program;
  /// Reads records by name; shared with the weight store.
  std::shared_ptr<const Archive> archive;
};

/// Reads and validates the file at `path`. Errors name the path, the place in
/// the JSON and what was expected there.
StatusOr<Pt2File> readPt2(const std::string &path,
                          const ReaderLimits &limits = {});

} // namespace lockstep::pt2

#endif // LOCKSTEP_COMPILER_IMPORT_PT2_READER_H
