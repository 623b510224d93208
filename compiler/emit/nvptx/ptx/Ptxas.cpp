//===- Ptxas.cpp - The CUDA toolkit's assembler ---------------------------===//
#include "compiler/emit/nvptx/ptx/Ptxas.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

using namespace lockstep;
using namespace lockstep::emit;

/// The program in one folder; empty where it is not there.
static std::string findIn(llvm::StringRef folder) {
  llvm::SmallString<128> path(folder);
  llvm::sys::path::append(path, "ptxas");
  return llvm::sys::fs::can_execute(path) ? path.str().str() : std::string();
}

std::string emit::findPtxas() {
  if (auto named = llvm::sys::Process::GetEnv("LOCKSTEP_PTXAS"))
    return *named;
  if (auto home = llvm::sys::Process::GetEnv("CUDA_HOME")) {
    std::string path = findIn(*home + "/bin");
    if (!path.empty())
      return path;
  }
  if (auto onPath = llvm::sys::findProgramByName("ptxas"))
    return *onPath;
  return findIn("/usr/local/cuda/bin");
}

static std::string readFile(const llvm::Twine &path) {
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                          /*RequiresNullTerminator=*/false);
  return file ? (*file)->getBuffer().str() : std::string();
}

namespace {
/// A folder for the files that ptxas reads and writes, gone with the object.
class ScratchFolder {
public:
  ScratchFolder() {
    error = llvm::sys::fs::createUniqueDirectory("lockstep-ptxas", path);
  }
  ~ScratchFolder() {
    if (!error)
      llvm::sys::fs::remove_directories(path);
  }
  std::string file(llvm::StringRef name) const {
    return (path + "/" + name).str();
  }
  std::error_code error;

private:
  llvm::SmallString<128> path;
};
} // namespace

/// Runs ptxas; its output, errors included, goes to `messages`. The exit code,
/// or a negative number where it could not run.
static int runPtxas(llvm::StringRef program,
                    llvm::ArrayRef<llvm::StringRef> options,
                    const ScratchFolder &folder, std::string &messages) {
  std::string log = folder.file("messages");
  llvm::SmallVector<llvm::StringRef> arguments{program};
  arguments.append(options.begin(), options.end());
  std::optional<llvm::StringRef> redirects[] = {"", log, log};
  std::string error;
  int code = llvm::sys::ExecuteAndWait(program, arguments, std::nullopt,
                                       redirects, 0, 0, &error);
  messages = error.empty() ? readFile(log)
                           : "cannot run " + program.str() + ": " + error;
  return code;
}

std::string emit::getPtxasVersion() {
  std::string program = findPtxas();
  ScratchFolder folder;
  std::string text;
  if (program.empty() || folder.error ||
      runPtxas(program, {"--version"}, folder, text) != 0)
    return {};
  // "Cuda compilation tools, release 13.0, V13.0.88"
  llvm::StringRef version = llvm::StringRef(text).rsplit(", V").second;
  version = version.take_until([](char c) { return c == '\n'; }).trim();
  return version.empty() ? std::string() : "V" + version.str();
}

CubinResult emit::assembleCubin(llvm::StringRef ptx, llvm::StringRef chip,
                                bool reportResources) {
  CubinResult result;
  std::string program = findPtxas();
  if (program.empty()) {
    result.status = CubinResult::Status::NoPtxas;
    result.messages = "no ptxas in $LOCKSTEP_PTXAS, $CUDA_HOME/bin, PATH or "
                      "/usr/local/cuda/bin";
    return result;
  }
  ScratchFolder folder;
  if (folder.error) {
    result.messages =
        "cannot make a temporary directory: " + folder.error.message();
    return result;
  }
  std::string input = folder.file("kernels.ptx");
  std::string output = folder.file("kernels.cubin");
  std::error_code error;
  {
    llvm::raw_fd_ostream file(input, error);
    if (!error) {
      file << ptx;
      file.close();
      error = file.error();
      file.clear_error();
    }
  }
  if (error) {
    result.messages = "cannot write " + input + ": " + error.message();
    return result;
  }
  std::string arch = "-arch=" + chip.str();
  llvm::SmallVector<llvm::StringRef> options{arch, "-O3"};
  if (reportResources)
    options.push_back("-v");
  options.append({input, "-o", output});
  if (runPtxas(program, options, folder, result.messages) != 0)
    return result;
  result.cubin = readFile(output);
  if (result.cubin.empty())
    result.messages += "ptxas wrote no cubin";
  else
    result.status = CubinResult::Status::Assembled;
  return result;
}
