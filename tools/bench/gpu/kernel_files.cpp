#include "tools/bench/gpu/kernel_files.h"
#include "compiler/emit/nvptx/ptx/LowerToPtx.h"
#include "compiler/emit/nvptx/ptx/Ptxas.h"

#include <cstdio>
#include <fstream>

namespace lockstep {

Status writeFile(const std::filesystem::path &path, const std::string &bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  file.close();
  return file ? Status::success() : inputError("cannot write " + path.string());
}

static std::string summarize(const std::string &messages) {
  std::string summary;
  for (size_t begin = 0; begin < messages.size();) {
    size_t end = std::min(messages.find('\n', begin), messages.size());
    std::string line = messages.substr(begin, end - begin);
    begin = end + 1;
    for (const char *part : {"spill", "registers", "arning", "Potential"})
      if (line.find(part) != std::string::npos) {
        summary += "; " + line.substr(line.find_first_not_of(' '));
        break;
      }
  }
  return summary;
}

Status writeKernel(const std::string &label, const std::string &facts,
                   const BuildKernel &build,
                   const std::filesystem::path &folder) {
  mlir::MLIRContext context;
  emit::loadPtxDialects(context);
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  if (failed(build(*module)))
    return inputError(label + ": the kernel cannot be built");
  mlir::FailureOr<std::string> ptx =
      emit::lowerToPtx(*module, "sm_90a", emit::PtxOptimization::None);
  if (failed(ptx))
    return inputError(label + ": no PTX");
  LOCKSTEP_RETURN_IF_ERROR(writeFile(folder / (label + ".ptx"), *ptx));
  emit::CubinResult result =
      emit::assembleCubin(*ptx, "sm_90a", /*reportResources=*/true);
  if (result.status != emit::CubinResult::Status::Assembled)
    return inputError(label + ": " + result.messages);
  std::printf("%s%s%s\n", label.c_str(), facts.c_str(),
              summarize(result.messages).c_str());
  return writeFile(folder / (label + ".cubin"), result.cubin);
}

} // namespace lockstep
