// gemm-kernels: writes the GEMM kernels of a list to a folder, for gemm_bench.
//
// A list has one kernel a line, "LABEL WORDS..." (printConfig's words; "mma"
// before them makes a kernel by mma.sync of operands and epilogue); "#" begins
// a comment. The folder gets LABEL.cubin, LABEL.ptx and `manifest`, the list
// again as it was understood.
#include "compiler/emit/nvptx/gemm/GemmKernel.h"
#include "compiler/emit/nvptx/gemm/mma/MmaKernel.h"
#include "tools/bench/gpu/kernel_files.h"
#include "tools/common/cli.h"

#include "mlir/IR/MLIRContext.h"

#include <filesystem>
#include <fstream>

using namespace lockstep;

namespace {
struct ListedKernel {
  std::string label;
  bool isMma;
  gemm::GemmConfig config;
};
} // namespace

static StatusOr<std::vector<ListedKernel>> readList(const std::string &path) {
  std::ifstream file(path);
  if (!file)
    return inputError("cannot read " + path);
  std::vector<ListedKernel> kernels;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    line = line.substr(0, line.find('#'));
    size_t begin = line.find_first_not_of(' ');
    if (begin == std::string::npos)
      continue;
    size_t end = std::min(line.find(' ', begin), line.size());
    std::string label = line.substr(begin, end - begin);
    bool isMma = line.find(" mma ", end) != std::string::npos;
    if (isMma)
      end = line.find("mma ", end) + 4;
    std::string error;
    auto config = gemm::parseConfig(std::string_view(line).substr(end), error);
    if (config)
      error = isMma ? gemm::checkConfig(gemm::getMmaConfig(*config))
                    : gemm::checkConfig(*config);
    if (!error.empty())
      return inputError(path + ":" + std::to_string(number) + ": " + error);
    kernels.push_back({label, isMma, *config});
  }
  return kernels;
}

static Status writeListed(const ListedKernel &kernel,
                          const std::filesystem::path &folder) {
  int sharedBytes = kernel.isMma
                        ? gemm::mmaSharedBytes
                        : gemm::getSharedLayout(kernel.config).totalBytes;
  auto build = [&](mlir::ModuleOp module) {
    return kernel.isMma ? gemm::buildMmaKernel(
                              module, gemm::getMmaConfig(kernel.config), "gemm")
                        : gemm::buildGemmKernel(module, kernel.config, "gemm");
  };
  return writeKernel(kernel.label,
                     ": " + std::to_string(sharedBytes) +
                         " bytes of shared memory",
                     build, folder);
}

static Status writeKernels(const std::string &list, const std::string &folder) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<ListedKernel> kernels, readList(list));
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  std::string manifest;
  for (const ListedKernel &kernel : kernels) {
    LOCKSTEP_RETURN_IF_ERROR(writeListed(kernel, folder));
    manifest += kernel.label + (kernel.isMma ? " mma " : " ") +
                gemm::printConfig(kernel.config) + "\n";
  }
  return writeFile(std::filesystem::path(folder) / "manifest", manifest);
}

int main(int argc, char **argv) {
  return tools::runTool([&] {
    tools::CommandLine line("gemm-kernels",
                            "Writes the GEMM kernels of a list as cubins.");
    std::string list, folder;
    line.app().add_option("list", list, "one kernel a line")->required();
    line.app().add_option("folder", folder, "where to write them")->required();
    if (std::optional<int> code = line.parse(argc, argv))
      return *code;
    return tools::finish(writeKernels(list, folder));
  });
}
