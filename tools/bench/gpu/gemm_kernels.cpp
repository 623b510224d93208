// gemm-kernels: writes the GEMM kernels of a list to a folder, for gemm_bench.
//
// A list has one kernel a line, "LABEL WORDS..." (printConfig's words; "mma"
// before them makes a kernel by mma.sync of operands and epilogue); "#" begins
// a comment. The folder gets LABEL.cubin, LABEL.ptx and `manifest`, the list
// again as it was understood.
#include "compiler/emit/nvptx/gemm/GemmKernel.h"
#include "compiler/emit/nvptx/gemm/mma/MmaKernel.h"
#include "compiler/emit/nvptx/ptx/LowerToPtx.h"
#include "compiler/emit/nvptx/ptx/Ptxas.h"
#include "tools/common/cli.h"

#include "mlir/IR/MLIRContext.h"

#include <cstdio>
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

static Status writeFile(const std::filesystem::path &path,
                        const std::string &bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  file.close();
  return file ? Status::success() : inputError("cannot write " + path.string());
}

/// What ptxas says of registers, spills and serialization.
static std::string summarize(const std::string &messages) {
  std::string summary;
  for (size_t begin = 0; begin < messages.size();) {
    size_t end = std::min(messages.find('\n', begin), messages.size());
    std::string line = messages.substr(begin, end - begin);
    begin = end + 1;
    bool matters = line.find("spill") != std::string::npos ||
                   line.find("registers") != std::string::npos ||
                   line.find("warning") != std::string::npos ||
                   line.find("Potential") != std::string::npos;
    if (!matters)
      continue;
    size_t text = line.find_first_not_of(' ', line.rfind(" : ") + 1);
    if (line.find("ptxas info") == 0)
      text = line.find(": ") + 2;
    summary += "; " + line.substr(text == std::string::npos ? 0 : text);
  }
  return summary;
}

static Status writeKernel(const ListedKernel &kernel,
                          const std::filesystem::path &folder) {
  mlir::MLIRContext context;
  emit::loadPtxDialects(context);
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  mlir::LogicalResult built =
      kernel.isMma ? gemm::buildMmaKernel(
                         *module, gemm::getMmaConfig(kernel.config), "gemm")
                   : gemm::buildGemmKernel(*module, kernel.config, "gemm");
  if (failed(built))
    return inputError(kernel.label + ": the kernel cannot be built");
  mlir::FailureOr<std::string> ptx =
      emit::lowerToPtx(*module, "sm_90a", emit::PtxOptimization::None);
  if (failed(ptx))
    return inputError(kernel.label + ": no PTX");
  LOCKSTEP_RETURN_IF_ERROR(writeFile(folder / (kernel.label + ".ptx"), *ptx));
  emit::CubinResult result =
      emit::assembleCubin(*ptx, "sm_90a", /*reportResources=*/true);
  if (result.status != emit::CubinResult::Status::Assembled)
    return inputError(kernel.label + ": " + result.messages);
  int sharedBytes = kernel.isMma
                        ? gemm::mmaSharedBytes
                        : gemm::getSharedLayout(kernel.config).totalBytes;
  std::printf("%s: %d bytes of shared memory%s\n", kernel.label.c_str(),
              sharedBytes, summarize(result.messages).c_str());
  return writeFile(folder / (kernel.label + ".cubin"), result.cubin);
}

static Status writeKernels(const std::string &list, const std::string &folder) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<ListedKernel> kernels, readList(list));
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  std::string manifest;
  for (const ListedKernel &kernel : kernels) {
    LOCKSTEP_RETURN_IF_ERROR(writeKernel(kernel, folder));
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
