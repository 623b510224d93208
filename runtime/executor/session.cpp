#include "runtime/executor/session.h"
#include "runtime/artifact/types.h"
#include "runtime/device/host/host_device.h"
#include "runtime/device/host/parallel.h"
#include "runtime/executor/cuda_executor.h"
#include "runtime/executor/draw.h"
#include "runtime/executor/host_executor.h"
#include "runtime/executor/schedule.h"
#include "runtime/safetensors/safetensors.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>
#include <sys/stat.h>

namespace lockstep::runtime {

Hyperparameters Hyperparameters::defaultsOf(const artifact::PlanT &plan) {
  Hyperparameters result;
  for (const auto &entry : plan.hyperparameters)
    result.values[entry->name] = entry->value;
  if (plan.schedule)
    result.schedule = *plan.schedule;
  return result;
}

namespace {
/// The flag of a hyperparameter, what to compile with for the program to read
/// it, and whether 0 says what a program without it does.
struct HyperparameterFlag {
  const char *name, *flag, *compileWith;
  bool zeroIsNone;
};
constexpr HyperparameterFlag hyperparameterFlags[] = {
    {"grad_clip", "--grad-clip", "--grad-clip", true},
    {"momentum", "--momentum", "--optimizer sgd --momentum", true},
    {"weight_decay", "--weight-decay", "--weight-decay", true},
    {"beta1", "--betas", "--optimizer adamw", false},
    {"beta2", "--betas", "--optimizer adamw", false},
    {"eps", "--eps", "--optimizer adamw", false},
};
} // namespace

static std::set<std::string> namesOf(const artifact::PlanT &plan) {
  std::set<std::string> names = {"lr"};
  for (const auto &program : plan.programs)
    for (const auto &scalar : program->scalars)
      if (scalar->kind == artifact::ScalarKind::Hyperparameter)
        names.insert(scalar->name);
  return names;
}

Status Hyperparameters::set(const artifact::PlanT &plan,
                            const std::string &name, double value) {
  std::set<std::string> known = namesOf(plan);
  if (known.count(name)) {
    values[name] = value;
    return Status::success();
  }
  std::string list;
  for (const std::string &other : known)
    list += (list.empty() ? "" : ", ") + other;
  std::string what = "'" + name + "' cannot be overridden", with = "it";
  for (const HyperparameterFlag &entry : hyperparameterFlags)
    if (name == entry.name) {
      if (value == 0 && entry.zeroIsNone)
        return Status::success();
      what = std::string(entry.flag) + " overrides nothing";
      with = std::string("lockstep-compile ") + entry.compileWith;
    }
  return inputError(what + ": the artifact was compiled for " + plan.optimizer +
                    " with " + list)
      .remedy("leave it out, or compile again with " + with);
}

double Hyperparameters::learningRateAt(int64_t step) const {
  auto lr = values.find("lr");
  return learningRate(schedule, lr == values.end() ? 0 : lr->second, step);
}

/// The code sections say what an artifact is for.
static bool runsOnGpu(const ArtifactReader &artifact) {
  const std::vector<CodeSection> &code = artifact.code();
  return std::any_of(code.begin(), code.end(), [](const CodeSection &section) {
    return cuda::isCudaTarget(section.target);
  });
}

StatusOr<std::unique_ptr<Session>>
Session::create(const ArtifactReader &artifact, Collectives &collectives,
                Hyperparameters hyperparameters, SessionOptions options) {
  std::unique_ptr<Session> session(
      new Session(artifact, std::move(hyperparameters), std::move(options)));
  session->rank = collectives.rank();
  int64_t bytes = 0;
  for (const auto &program : artifact.plan().programs)
    bytes = std::max(bytes, program->arena_bytes);
  LOCKSTEP_RETURN_IF_ERROR(runsOnGpu(artifact)
                               ? session->openGpu(bytes)
                               : session->openHost(bytes, collectives));
  return session;
}

Session::Session(const ArtifactReader &artifact,
                 Hyperparameters hyperparameters, SessionOptions options)
    : artifact(artifact), hyperparameters(std::move(hyperparameters)),
      options(std::move(options)) {}

Session::~Session() = default;

Status Session::openHost(int64_t arenaBytes, Collectives &collectives) {
  if (options.stepsPerLaunch > 1)
    return usageError("--steps-per-launch is for GPUs, but the artifact is not "
                      "compiled for one");
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<HostDevice> host,
                            HostDevice::create(arenaBytes, options.poison));
  LOCKSTEP_ASSIGN_OR_RETURN(
      executor, HostExecutor::create(artifact, host->arena(), collectives));
  device = std::move(host);
  return Status::success();
}

Status Session::openGpu(int64_t arenaBytes) {
  LOCKSTEP_ASSIGN_OR_RETURN(const cuda::Driver *driver, cuda::loadDriver());
  LOCKSTEP_ASSIGN_OR_RETURN(gpu, cuda::Gpu::open(*driver, options.localRank));
  // Before anything is allocated or connected.
  LOCKSTEP_RETURN_IF_ERROR(
      cuda::chooseCode(artifact.code(), *gpu, options.allowJit)
          .status()
          .at(artifact.path()));
  LOCKSTEP_ASSIGN_OR_RETURN(
      std::unique_ptr<cuda::CudaDevice> opened,
      cuda::CudaDevice::create(*gpu, arenaBytes, options.poison));
  LOCKSTEP_ASSIGN_OR_RETURN(
      gpuCollectives,
      NcclCollectives::connect(plan(), rank, *gpu, options.control));
  LOCKSTEP_ASSIGN_OR_RETURN(
      executor, CudaExecutor::create(
                    artifact, *opened, *gpuCollectives,
                    {options.allowJit, options.graph, options.stepsPerLaunch}));
  device = std::move(opened);
  return Status::success();
}

const artifact::ProgramT *Session::program(const std::string &name) const {
  for (const auto &program : plan().programs)
    if (program->name == name)
      return program.get();
  return nullptr;
}

Status Session::initialize() {
  for (const auto &tensor : plan().tensors)
    if (Status status = initializeTensor(*tensor); !status.ok())
      return std::move(status).at("tensor '" + tensor->name + "'");
  return device->finishFills();
}

Status Session::initializeTensor(const artifact::TensorT &tensor) {
  if (!tensor.weight)
    return draw(tensor);
  if (!tensor.weight->file.empty())
    return loadExternal(tensor);
  std::string_view bytes = artifact.weightBytes(*tensor.weight);
  return copyValues(tensor, bytes.data(), int64_t(bytes.size()));
}

Status Session::copyValues(const artifact::TensorT &tensor, const void *values,
                           int64_t bytes) {
  const auto *source = static_cast<const std::byte *>(values);
  return device->fill(tensor.offset, bytes,
                      [&](std::byte *target, int64_t begin, int64_t end) {
                        constexpr int64_t piece = 1 << 20;
                        int64_t size = end - begin;
                        parallelFor((size + piece - 1) / piece, [&](int64_t i) {
                          int64_t at = i * piece;
                          std::memcpy(target + at, source + begin + at,
                                      size_t(std::min(piece, size - at)));
                        });
                      });
}

static bool isFolder(const std::string &path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

/// Where the external file of a weight is: in the folder given, or the file
/// given, or beside the artifact.
static std::string externalPath(const std::string &given,
                                const std::string &artifactPath,
                                const std::string &file) {
  if (!given.empty())
    return isFolder(given) ? given + "/" + file : given;
  size_t slash = artifactPath.rfind('/');
  return slash == std::string::npos ? file
                                    : artifactPath.substr(0, slash + 1) + file;
}

Status Session::loadExternal(const artifact::TensorT &tensor) {
  const artifact::WeightT &weight = *tensor.weight;
  std::string path =
      externalPath(options.weightsPath, artifact.path(), weight.file);
  auto opened = SafetensorsFile::open(path);
  if (!opened.ok())
    return std::move(opened).status().remedy(
        "put '" + weight.file +
        "' beside the artifact, or name it with --weights");
  const SafetensorsTensor *found = (*opened)->find(weight.name_in_file);
  if (!found || found->dtype != toDType(tensor.dtype) ||
      int64_t(found->bytes) != tensor.bytes)
    return inputError("'" + weight.name_in_file +
                      "' is missing or has another "
                      "type or shape")
        .at(path)
        .remedy("give the weights that the artifact was compiled with");
  Hash hash = treeHash(found->data, found->bytes);
  if (!std::equal(hash.begin(), hash.end(), weight.hash.begin(),
                  weight.hash.end()))
    return inputError("'" + weight.name_in_file +
                      "' is not what the artifact was compiled with")
        .at(path)
        .remedy("give the same weights file, or compile again");
  return copyValues(tensor, found->data, int64_t(found->bytes));
}

Status Session::draw(const artifact::TensorT &tensor) {
  using Kind = artifact::InitKind;
  artifact::InitRuleT rule = tensor.init ? *tensor.init : artifact::InitRuleT();
  if (rule.kind == Kind::None && tensor.role == artifact::TensorRole::Parameter)
    return inputError("the artifact has no values for it")
        .remedy("compile with --weights PATH, or with --init normal:0.02");
  if (rule.kind == Kind::None || rule.kind == Kind::Zeros)
    return device->clear(tensor.offset, tensor.bytes);
  int64_t size = sizeOf(tensor.dtype);
  return device->fill(tensor.offset, tensor.bytes,
                      [&](std::byte *target, int64_t begin, int64_t end) {
                        drawElements(tensor, rule, options.seed, begin / size,
                                     end / size, target);
                      });
}

void Session::writeScalars(const artifact::ProgramT &program, int64_t step,
                           int64_t run) {
  auto valueOf = [&](const std::string &name) {
    auto found = hyperparameters.values.find(name);
    return found == hyperparameters.values.end() ? 0.0 : found->second;
  };
  for (const auto &scalar : program.scalars) {
    const std::string &name = scalar->name;
    double value = valueOf(name);
    if (scalar->kind == artifact::ScalarKind::Metric)
      continue;
    if (scalar->kind == artifact::ScalarKind::Rng) {
      auto *pairs = reinterpret_cast<int64_t *>(
          executor->place(program, scalar->offset, run));
      int64_t k = program.accumulation_steps;
      for (int64_t i = 0; i < scalar->count / 2; ++i) {
        pairs[2 * i] = int64_t(options.seed);
        pairs[2 * i + 1] = step * k + i;
      }
      continue;
    }
    if (scalar->kind == artifact::ScalarKind::Coordinate)
      value = double(coordinate(scalar->communicator));
    else if (name == "lr")
      value = hyperparameters.learningRateAt(step);
    else if (name == "bias_correction1")
      value = biasCorrection(valueOf("beta1"), step);
    else if (name == "bias_correction2")
      value = biasCorrection(valueOf("beta2"), step);
    else if (name == "grad_clip" && value == 0)
      value = std::numeric_limits<float>::max(); // 0: no clipping
    for (int64_t i = 0; i < scalar->count; ++i)
      storeElement(executor->place(program, scalar->offset, run), scalar->dtype,
                   i, value);
  }
}

int64_t Session::coordinate(uint32_t communicator) const {
  for (const auto &group : artifact.plan().communicators[communicator]->groups)
    for (size_t place = 0; place < group->ranks.size(); ++place)
      if (int(group->ranks[place]) == rank)
        return int64_t(place);
  return 0; // a rank in no group is alone
}

std::optional<double> Session::metric(const artifact::ProgramT &program,
                                      const std::string &name,
                                      int64_t run) const {
  for (const auto &scalar : program.scalars)
    if (scalar->kind == artifact::ScalarKind::Metric && scalar->name == name) {
      const std::byte *value = executor->place(program, scalar->offset, run);
      return scalar->dtype == artifact::DType::F64
                 ? *reinterpret_cast<const double *>(value)
                 : double(*reinterpret_cast<const float *>(value));
    }
  return std::nullopt;
}

Status Session::startSteps(int64_t first, int64_t count) {
  const artifact::ProgramT &program = *this->program("step");
  for (int64_t run = 0; run < count; ++run)
    writeScalars(program, first + run, run);
  return executor->start(program, count);
}

StatusOr<std::vector<StepMetrics>> Session::finishSteps(int64_t count) {
  LOCKSTEP_RETURN_IF_ERROR(executor->finish());
  const artifact::ProgramT &program = *this->program("step");
  std::vector<StepMetrics> all;
  for (int64_t run = 0; run < count; ++run) {
    StepMetrics &metrics = all.emplace_back();
    metrics.loss = metric(program, "loss", run).value_or(0);
    metrics.gradNorm = metric(program, "grad_norm", run);
  }
  return all;
}

StatusOr<double> Session::evaluate() {
  const artifact::ProgramT *program = this->program("eval");
  if (!program)
    return inputError("the artifact has no evaluation program")
        .at(artifact.path());
  writeScalars(*program, 0, 0);
  LOCKSTEP_RETURN_IF_ERROR(executor->start(*program));
  LOCKSTEP_RETURN_IF_ERROR(executor->finish());
  return metric(*program, "loss", 0).value_or(0);
}

} // namespace lockstep::runtime
