// The one error type of the runtime, the readers and the tools: no exceptions
// cross a library boundary.
//
// A Status is either success or an error that says what is wrong, where, and
// what to do about it, together with the exit code a tool should end with.
// `toString()` is the text after "error: ", always one line. StatusOr<T> is a
// value or such an error.
//
//   StatusOr<File> openModel(const std::string &path) {
//     LOCKSTEP_ASSIGN_OR_RETURN(Mapping map, Mapping::open(path));
//     if (map.size() < 22)
//       return inputError("file is too short to be a zip
//       archive").at(path).remedy("export the model again");
//     ...
//   }
#ifndef LOCKSTEP_RUNTIME_SUPPORT_STATUS_H
#define LOCKSTEP_RUNTIME_SUPPORT_STATUS_H

#include <cassert>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace lockstep {

/// Exit codes of every tool. A process ended by signal n exits with 128+n.
enum class ExitCode : int {
  Success = 0,
  InputError = 1, ///< a file, flag value or model is wrong: the user can fix it
  UsageError = 2, ///< the command line cannot be understood
  InternalFault = 3, ///< a bug of ours
  RankLost = 4,      ///< a rank died or got stuck
  LossNotFinite = 5, ///< the loss became infinite or not a number
};

class [[nodiscard]] Status {
public:
  /// Success.
  Status() = default;
  Status(ExitCode code, std::string what) : error(std::make_unique<Error>()) {
    assert(code != ExitCode::Success && "an error needs an error code");
    error->code = code;
    error->what = std::move(what);
  }
  static Status success() { return Status(); }

  Status(Status &&) = default;
  Status &operator=(Status &&) = default;
  Status(const Status &other)
      : error(other.error ? std::make_unique<Error>(*other.error) : nullptr) {}
  Status &operator=(const Status &other) {
    error = other.error ? std::make_unique<Error>(*other.error) : nullptr;
    return *this;
  }

  bool ok() const { return !error; }
  ExitCode code() const { return error ? error->code : ExitCode::Success; }
  int exitCode() const { return static_cast<int>(code()); }

  /// Adds an outer place: a file, then within it "outer: inner". Does nothing
  /// to success.
  Status at(const std::string &place) && {
    if (error)
      error->where = error->where.empty() ? place : place + ": " + error->where;
    return std::move(*this);
  }
  /// Says what the user can do; the innermost advice wins.
  Status remedy(std::string advice) && {
    if (error && error->remedy.empty())
      error->remedy = std::move(advice);
    return std::move(*this);
  }

  const std::string &what() const { return text(&Error::what); }
  const std::string &where() const { return text(&Error::where); }
  const std::string &remedy() const & { return text(&Error::remedy); }

  /// "where: what; remedy" on one line (line breaks in the parts become
  /// blanks), "ok" for success.
  std::string toString() const {
    if (!error)
      return "ok";
    std::string line =
        error->where.empty() ? error->what : error->where + ": " + error->what;
    if (!error->remedy.empty())
      line += "; " + error->remedy;
    for (char &c : line)
      if (c == '\n' || c == '\r')
        c = ' ';
    return line;
  }

private:
  struct Error {
    ExitCode code = ExitCode::InternalFault;
    std::string what, where, remedy;
  };
  const std::string &text(std::string Error::*part) const {
    static const std::string none;
    return error ? error.get()->*part : none;
  }
  std::unique_ptr<Error> error;
};

inline Status inputError(std::string what) {
  return Status(ExitCode::InputError, std::move(what));
}
inline Status usageError(std::string what) {
  return Status(ExitCode::UsageError, std::move(what));
}
inline Status internalFault(std::string what) {
  return Status(ExitCode::InternalFault, std::move(what));
}
inline Status rankLost(std::string what) {
  return Status(ExitCode::RankLost, std::move(what));
}
inline Status lossNotFinite(std::string what) {
  return Status(ExitCode::LossNotFinite, std::move(what));
}

/// A value of type T, or the error that kept it from being made.
template <typename T> class [[nodiscard]] StatusOr {
public:
  StatusOr(T value) : storage(std::move(value)) {}
  StatusOr(Status status) : failure(std::move(status)) {
    assert(!failure.ok() && "a StatusOr without a value needs an error");
  }

  bool ok() const { return storage.has_value(); }
  const Status &status() const & { return failure; }
  Status status() && { return std::move(failure); }

  T &value() & {
    assert(ok() && "value() of an error");
    return *storage;
  }
  const T &value() const & {
    assert(ok() && "value() of an error");
    return *storage;
  }
  T value() && {
    assert(ok() && "value() of an error");
    return std::move(*storage);
  }
  T &operator*() & { return value(); }
  const T &operator*() const & { return value(); }
  T operator*() && { return std::move(*this).value(); }
  T *operator->() { return &value(); }
  const T *operator->() const { return &value(); }

private:
  std::optional<T> storage;
  Status failure;
};

} // namespace lockstep

#define LOCKSTEP_CONCAT_IMPL(a, b) a##b
#define LOCKSTEP_CONCAT(a, b) LOCKSTEP_CONCAT_IMPL(a, b)

/// Returns from the calling function when `expr` (a Status) is an error.
#define LOCKSTEP_RETURN_IF_ERROR(expr)                                         \
  do {                                                                         \
    if (::lockstep::Status lockstepStatus = (expr); !lockstepStatus.ok())      \
      return lockstepStatus;                                                   \
  } while (false)

/// Declares or assigns `lhs` from `expr` (a StatusOr), or returns its error.
#define LOCKSTEP_ASSIGN_OR_RETURN(lhs, expr)                                   \
  LOCKSTEP_ASSIGN_OR_RETURN_IMPL(LOCKSTEP_CONCAT(lockstepResult, __LINE__),    \
                                 lhs, expr)
#define LOCKSTEP_ASSIGN_OR_RETURN_IMPL(result, lhs, expr)                      \
  auto result = (expr);                                                        \
  if (!result.ok())                                                            \
    return std::move(result).status();                                         \
  lhs = std::move(result).value()

#endif // LOCKSTEP_RUNTIME_SUPPORT_STATUS_H
