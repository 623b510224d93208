//===- Link.cpp - Shared objects by lld's library -------------------------===//
#include "compiler/emit/x86/X86Target.h"
#include "lld/Common/Driver.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include <mutex>

LLD_HAS_DRIVER(elf)

using namespace lockstep::emit;

static bool writeFile(llvm::StringRef path, llvm::ArrayRef<char> bytes,
                      std::string &error) {
  std::error_code code;
  llvm::raw_fd_ostream file(path, code);
  if (!code) {
    file.write(bytes.data(), bytes.size());
    file.close();
    code = file.error();
    file.clear_error();
  }
  if (code)
    error = "cannot write " + path.str() + ": " + code.message();
  return !code;
}

std::string lockstep::emit::linkSharedObject(
    llvm::ArrayRef<llvm::SmallVector<char, 0>> objects, std::string &error) {
  // The linker's library works on files and keeps global state.
  static std::mutex linker;
  std::lock_guard<std::mutex> lock(linker);
  llvm::SmallString<128> directory;
  if (std::error_code code =
          llvm::sys::fs::createUniqueDirectory("lockstep-link", directory)) {
    error = "cannot make a temporary directory: " + code.message();
    return {};
  }
  llvm::scope_exit cleanUp(
      [&] { llvm::sys::fs::remove_directories(directory); });

  std::string output = (directory + "/kernels.so").str();
  std::vector<std::string> arguments{"ld.lld",
                                     "-shared",
                                     "-o",
                                     output,
                                     "--hash-style=gnu",
                                     "--build-id=none",
                                     "--no-undefined",
                                     "-z",
                                     "noexecstack",
                                     "--strip-all",
                                     "--threads=1"};
  for (size_t i = 0; i < objects.size(); ++i) {
    arguments.push_back((directory + "/" + llvm::Twine(i) + ".o").str());
    if (!writeFile(arguments.back(), objects[i], error))
      return {};
  }
  std::vector<const char *> pointers;
  for (const std::string &argument : arguments)
    pointers.push_back(argument.c_str());
  std::string messages;
  llvm::raw_string_ostream stream(messages);
  lld::Result result =
      lld::lldMain(pointers, stream, stream, {{lld::Gnu, &lld::elf::link}});
  if (result.retCode != 0) {
    error = "the kernels cannot be linked: " + messages;
    return {};
  }
  auto file = llvm::MemoryBuffer::getFile(output, /*IsText=*/false,
                                          /*RequiresNullTerminator=*/false);
  if (!file) {
    error = "cannot read the linked kernels: " + file.getError().message();
    return {};
  }
  return (*file)->getBuffer().str();
}
