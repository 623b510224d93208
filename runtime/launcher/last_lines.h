// The last line of the log of every rank on this machine, in memory that the
// launcher shares with them: what a rank said last is known however suddenly it
// dies, rank 0 too.
#ifndef LOCKSTEP_RUNTIME_LAUNCHER_LAST_LINES_H
#define LOCKSTEP_RUNTIME_LAUNCHER_LAST_LINES_H

#include "runtime/support/status.h"

#include <string>

namespace lockstep::runtime {

class LastLines {
public:
  /// Memory without contents, for the launcher. Its descriptor is closed on
  /// exec unless that is taken back. Error: the system gives no memory.
  static StatusOr<LastLines> create(int ranks);
  /// The launcher's memory, in a rank that inherited its descriptor. An error
  /// says that the descriptor is not such memory.
  static StatusOr<LastLines> open(int descriptor, int ranks);

  LastLines() = default;
  LastLines(LastLines &&other) noexcept;
  LastLines &operator=(LastLines &&other) noexcept;
  ~LastLines();

  int descriptor() const { return file; }
  /// A longer line than the memory has room for is cut. Does nothing without
  /// memory.
  void set(int rank, const std::string &line);
  /// "" while the rank has said nothing.
  std::string get(int rank) const;

private:
  struct Slot;
  int file = -1;
  int ranks = 0;
  Slot *slots = nullptr;
};

} // namespace lockstep::runtime

#endif // LOCKSTEP_RUNTIME_LAUNCHER_LAST_LINES_H
