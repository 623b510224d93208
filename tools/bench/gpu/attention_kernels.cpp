// attention-kernels: writes the attention kernels of a list to a folder, for
// attention_bench.
//
// A list has one kernel a line, "LABEL WORDS..." (printConfig's words); "#"
// begins a comment. The folder gets LABEL.cubin and LABEL.ptx, for a backward
// with dq also LABEL.prepare.* and LABEL.convert.*, and `manifest`, the list
// again as it was understood. What brings masks into the form that kernels take
// is keybias.* and pieces.*, after the mask's elements: boolean, f32, bf16.
#include "compiler/emit/nvptx/attention/AttentionConfigText.h"
#include "compiler/emit/nvptx/attention/AttentionKernels.h"
#include "tools/bench/gpu/kernel_files.h"
#include "tools/common/cli.h"

#include "mlir/IR/MLIRContext.h"

#include <filesystem>
#include <fstream>

using namespace lockstep;
using namespace lockstep::attention;

namespace {
struct ListedKernel {
  std::string label;
  KernelConfig config;
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
    std::string error;
    auto config = parseConfig(std::string_view(line).substr(end), error);
    if (config)
      error = std::visit([](auto &each) { return checkConfig(each); }, *config);
    if (!error.empty())
      return inputError(path + ":" + std::to_string(number) + ": " + error);
    kernels.push_back({line.substr(begin, end - begin), *config});
  }
  return kernels;
}

static Status writeKernels(const ListedKernel &kernel,
                           const std::filesystem::path &folder) {
  constexpr llvm::StringLiteral symbol = "attention";
  if (auto *config = std::get_if<ForwardConfig>(&kernel.config))
    return writeKernel(
        kernel.label, "",
        [&](mlir::ModuleOp module) {
          return buildForwardKernel(module, *config, symbol);
        },
        folder);
  if (auto *config = std::get_if<QueryGradientConfig>(&kernel.config))
    return writeKernel(
        kernel.label, "",
        [&](mlir::ModuleOp module) {
          return buildQueryGradientKernel(module, *config, symbol);
        },
        folder);
  const auto &config = std::get<BackwardConfig>(kernel.config);
  auto write = [&](const char *suffix, auto build) {
    return writeKernel(
        kernel.label + suffix, "",
        [&](mlir::ModuleOp module) { return build(module, config, symbol); },
        folder);
  };
  LOCKSTEP_RETURN_IF_ERROR(write("", buildBackwardKernel));
  if (config.queryGradient == QueryGradient::None)
    return Status::success();
  LOCKSTEP_RETURN_IF_ERROR(write(".prepare", buildPrepareKernel));
  return write(".convert", buildConvertKernel);
}

static Status writeMaskPasses(const std::filesystem::path &folder) {
  for (const auto &[name, element] :
       {std::pair<std::string, MaskElement>{"boolean", MaskElement::Boolean},
        {"f32", MaskElement::F32},
        {"bf16", MaskElement::BFloat16}})
    for (auto [prefix, build] : {std::pair{"keybias.", &buildKeyBiasKernel},
                                 std::pair{"pieces.", &buildMaskPiecesKernel}})
      LOCKSTEP_RETURN_IF_ERROR(writeKernel(
          prefix + name, "",
          [build = build, element = element](mlir::ModuleOp module) {
            return build(module, element, "attention");
          },
          folder));
  return Status::success();
}

static Status writeList(const std::string &list, const std::string &folder) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<ListedKernel> kernels, readList(list));
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  std::string manifest;
  for (const ListedKernel &kernel : kernels) {
    LOCKSTEP_RETURN_IF_ERROR(writeKernels(kernel, folder));
    manifest += kernel.label + " " + printConfig(kernel.config) + "\n";
  }
  LOCKSTEP_RETURN_IF_ERROR(writeMaskPasses(folder));
  return writeFile(std::filesystem::path(folder) / "manifest", manifest);
}

int main(int argc, char **argv) {
  return tools::runTool([&] {
    tools::CommandLine line(
        "attention-kernels",
        "Writes the attention kernels of a list as cubins.");
    std::string list, folder;
    line.app().add_option("list", list, "one kernel a line")->required();
    line.app().add_option("folder", folder, "where to write them")->required();
    if (std::optional<int> code = line.parse(argc, argv))
      return *code;
    return tools::finish(writeList(list, folder));
  });
}
