#include "runtime/device/cuda/code.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace lockstep::runtime::cuda {

static const std::string cubinPrefix = "sm_", ptxPrefix = "ptx-sm_";

static bool startsWith(const std::string &text, const std::string &prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

bool isCudaTarget(const std::string &target) {
  return startsWith(target, cubinPrefix) || startsWith(target, ptxPrefix);
}

/// Whether code for "90a" or "80" runs on a GPU of this capability.
static bool runsOn(const std::string &architecture, int capability, bool ptx) {
  int number = atoi(architecture.c_str());
  if (isalpha(static_cast<unsigned char>(architecture.back())))
    return number == capability;
  bool sameMajor = number / 10 == capability / 10;
  return number <= capability && (ptx || sameMajor);
}

StatusOr<const CodeSection *> chooseCode(const std::vector<CodeSection> &code,
                                         const Gpu &gpu, bool allowJit) {
  const CodeSection *jit = nullptr;
  std::string names;
  for (const CodeSection &section : code) {
    if (!isCudaTarget(section.target))
      continue;
    names += (names.empty() ? "" : ", ") + section.target;
    bool ptx = startsWith(section.target, ptxPrefix);
    std::string architecture =
        section.target.substr((ptx ? ptxPrefix : cubinPrefix).size());
    if (architecture.empty() || !runsOn(architecture, gpu.capability(), ptx))
      continue;
    if (!ptx)
      return &section;
    jit = &section;
  }
  if (jit && allowJit)
    return jit;
  if (jit)
    return inputError("the artifact has no machine code for " + gpu.describe() +
                      ", only PTX (" + jit->target + ")")
        .remedy("compile where ptxas is installed, or give --allow-jit to let "
                "the driver compile it at every start");
  std::string target = "sm_" + std::to_string(gpu.capability());
  return inputError("the artifact has code for " + names +
                    ", but this machine has " + gpu.describe())
      .remedy("compile with --target " + target);
}

StatusOr<Code> Code::load(const Gpu &gpu,
                          const std::vector<CodeSection> &sections,
                          const std::string &target) {
  Code code;
  code.api = &gpu.driver();
  for (const CodeSection &section : sections)
    if (section.target == target)
      LOCKSTEP_RETURN_IF_ERROR(code.add(gpu, section));
  return code;
}

Status Code::add(const Gpu &gpu, const CodeSection &section) {
  bool ptx = startsWith(section.target, ptxPrefix);
  std::string image(section.object); // PTX must end with a zero
  char log[4096] = "";
  int options[] = {jitErrorLog, jitErrorLogBytes};
  void *values[] = {log, reinterpret_cast<void *>(sizeof(log))};
  Module module = nullptr;
  Result result = api->moduleLoadDataEx(&module, image.c_str(), ptx ? 2 : 0,
                                        options, values);
  if (result == noBinaryForGpu || result == invalidImage ||
      result == unsupportedPtxVersion)
    return inputError("the driver, for CUDA " +
                      versionText(gpu.driverVersion()) +
                      ", cannot load the code for " + section.target + ": " +
                      api->describe(result))
        .remedy("update the driver, or compile with a ptxas that is not newer");
  if (result != success && ptx && *log)
    return inputError("the driver cannot compile the PTX: " + std::string(log));
  LOCKSTEP_RETURN_IF_ERROR(
      api->check(result, "loading the code for " + section.target));
  modules.push_back(module);
  return Status::success();
}

Code &Code::operator=(Code &&other) noexcept {
  std::swap(api, other.api);
  std::swap(modules, other.modules);
  return *this;
}

Code::~Code() {
  for (Module module : modules)
    api->moduleUnload(module);
}

StatusOr<Function> Code::find(const artifact::KernelT &kernel) const {
  Function function = nullptr;
  bool found = std::any_of(modules.begin(), modules.end(), [&](Module module) {
    return api->moduleGetFunction(&function, module, kernel.symbol.c_str()) ==
           success;
  });
  if (!found)
    return internalFault("the code section has no kernel '" + kernel.symbol +
                         "'");
  int most = 0;
  LOCKSTEP_RETURN_IF_ERROR(
      api->check(api->functionGetAttribute(&most, maxThreadsPerBlock, function),
                 "cuFuncGetAttribute"));
  if (int64_t(kernel.threads) > most)
    return internalFault(
        "kernel '" + kernel.name + "' wants " + std::to_string(kernel.threads) +
        " threads, but its code allows " + std::to_string(most));
  if (kernel.shared_bytes)
    LOCKSTEP_RETURN_IF_ERROR(api->check(
        api->functionSetAttribute(function, maxDynamicSharedBytes,
                                  int(kernel.shared_bytes)),
        "giving kernel '" + kernel.name + "' " +
            std::to_string(kernel.shared_bytes) + " bytes of shared memory"));
  return function;
}

} // namespace lockstep::runtime::cuda
