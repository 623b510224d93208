#include "runtime/device/cuda/library_search.h"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>

namespace lockstep::runtime::cuda {

namespace fs = std::filesystem;

static bool isFolder(const fs::path &path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

/// The entries of a folder in the order of their names; none when it is absent.
static std::vector<fs::path> entriesOf(const fs::path &folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto &entry : fs::directory_iterator(folder, error))
    found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

/// PREFIX/lib/python3.x/{site,dist}-packages/nvidia/*/lib.
static void addPythonPackages(const fs::path &prefix,
                              std::vector<std::string> &folders) {
  for (const fs::path &python : entriesOf(prefix / "lib")) {
    if (python.filename().string().rfind("python3", 0) != 0)
      continue;
    for (const char *packages : {"site-packages", "dist-packages"})
      for (const fs::path &package : entriesOf(python / packages / "nvidia"))
        if (isFolder(package / "lib"))
          folders.push_back(package / "lib");
  }
}

std::vector<std::string> libraryFolders() {
  std::vector<std::string> folders;
  auto addRoot = [&](const fs::path &root) {
    for (const char *part : {"lib64", "lib", "targets/x86_64-linux/lib"})
      if (isFolder(root / part))
        folders.push_back(root / part);
  };
  for (const char *variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char *root = getenv(variable); root && *root)
      addRoot(root);
  addRoot("/usr/local/cuda");
  if (const char *environment = getenv("VIRTUAL_ENV"))
    addPythonPackages(environment, folders);
  std::string path = getenv("PATH") ? getenv("PATH") : "";
  for (size_t begin = 0; begin < path.size();) {
    size_t end = std::min(path.find(':', begin), path.size());
    fs::path python = fs::path(path.substr(begin, end - begin)) / "python3";
    begin = end + 1;
    std::error_code error;
    if (!fs::exists(python, error))
      continue;
    // In a virtual environment python3 is a link to another folder's.
    addPythonPackages(python.parent_path().parent_path(), folders);
    fs::path real = fs::canonical(python, error);
    if (!error)
      addPythonPackages(real.parent_path().parent_path(), folders);
    addPythonPackages(fs::path("/usr/local"), folders);
    break;
  }
  return folders;
}

StatusOr<void *> openLibrary(const std::string &name,
                             const std::vector<std::string> &files,
                             const std::string &package) {
  std::string reason;
  auto open = [&](const std::string &path) {
    void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library)
      reason = dlerror();
    return library;
  };
  std::string names;
  for (const std::string &file : files) {
    names += (names.empty() ? "" : " or ") + file;
    if (void *library = open(file))
      return library;
  }
  reason.clear(); // absent files say nothing
  for (const std::string &folder : libraryFolders())
    for (const std::string &file : files) {
      std::error_code error;
      std::string path = folder + "/" + file;
      if (!fs::exists(path, error))
        continue;
      if (void *library = open(path))
        return library;
    }
  return inputError(name + " is not installed: " + names +
                    (reason.empty() ? " was not found"
                                    : " cannot be loaded (" + reason + ")"))
      .remedy("install the CUDA Toolkit, or 'pip install " + package +
              "', or name its folder in CUDA_HOME or LD_LIBRARY_PATH");
}

} // namespace lockstep::runtime::cuda
