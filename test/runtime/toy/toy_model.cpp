#include "test/runtime/toy/toy_model.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace lockstep::runtime::testing {

using namespace artifact;

namespace {

/// Lays out the arena and builds the plan's tables.
class Builder {
public:
  explicit Builder(const ToyOptions &options) : o(options) {}
  PlanT build();

private:
  int64_t allocate(int64_t bytes) {
    int64_t offset = end;
    end += (bytes + 63) / 64 * 64;
    return offset;
  }
  Operand operand(int64_t offset, int64_t bytes, int64_t stride = 0) {
    return Operand(offset, bytes, stride);
  }
  void addKernel(const char *symbol);
  void addTensor(const char *name, TensorRole role, int64_t size,
                 int64_t &offset);
  void addProgram(bool step);
  static std::unique_ptr<InstructionT> instruction(OperationUnion operation) {
    auto result = std::make_unique<InstructionT>();
    result->operation = std::move(operation);
    return result;
  }
  std::unique_ptr<InstructionT> launch(uint32_t kernel, int64_t items,
                                       std::vector<Operand> arguments);
  void addScalar(ProgramT &program, const char *name, ScalarKind kind,
                 int64_t offset);
  void addInput(ProgramT &program, const char *name, int64_t offset,
                std::vector<int64_t> shape, bool labels);

  ToyOptions o;
  PlanT plan;
  int64_t end = 0;
  int64_t w = 0, m = 0, seen = 0;
};

void Builder::addKernel(const char *symbol) {
  auto kernel = std::make_unique<KernelT>();
  kernel->name = std::string("k_") + symbol;
  kernel->symbol = symbol;
  kernel->sources = {"toy.py:7"};
  plan.kernels.push_back(std::move(kernel));
}

void Builder::addTensor(const char *name, TensorRole role, int64_t size,
                        int64_t &offset) {
  auto tensor = std::make_unique<TensorT>();
  tensor->name = name;
  tensor->role = role;
  tensor->shape = {size};
  tensor->bytes = size * 4;
  tensor->offset = offset = allocate(size * 4);
  plan.tensors.push_back(std::move(tensor));
}

std::unique_ptr<InstructionT> Builder::launch(uint32_t kernel, int64_t items,
                                              std::vector<Operand> arguments) {
  LaunchT launch;
  launch.kernel = kernel;
  launch.segments.push_back(std::make_unique<SegmentT>());
  launch.segments[0]->arguments = std::move(arguments);
  launch.segments[0]->work_items = items;
  OperationUnion operation;
  operation.Set(std::move(launch));
  return instruction(std::move(operation));
}

void Builder::addScalar(ProgramT &program, const char *name, ScalarKind kind,
                        int64_t offset) {
  auto scalar = std::make_unique<ScalarT>();
  scalar->name = name;
  scalar->kind = kind;
  scalar->offset = offset;
  program.scalars.push_back(std::move(scalar));
}

void Builder::addInput(ProgramT &program, const char *name, int64_t offset,
                       std::vector<int64_t> shape, bool labels) {
  auto input = std::make_unique<InputT>();
  input->name = name;
  input->global_shape = input->local_shape = shape;
  input->local_shape[0] /= o.ranks;
  input->bytes = 4;
  for (int64_t size : input->local_shape)
    input->bytes *= size;
  input->offset = offset;
  input->is_labels = labels;
  program.inputs.push_back(std::move(input));
}

void Builder::addProgram(bool step) {
  auto program = std::make_unique<ProgramT>();
  program->name = step ? "step" : "eval";
  int64_t k = step ? o.accumulation : 1;
  program->accumulation_steps = k;
  int64_t localRows = o.batch / o.ranks, micro = localRows / k;
  int64_t x = allocate(localRows * o.width * 4), y = allocate(localRows * 4);
  int64_t error = allocate(localRows * 4), sums = allocate((o.width + 1) * 4);
  int64_t scalars = allocate(8 * 4);
  addInput(*program, "x", x, {o.batch, o.width}, false);
  addInput(*program, "y", y, {o.batch}, true);
  const char *hyperparameters[] = {"lr", "momentum", "width", "rows", "batch"};
  for (int i = 0; i < 5; ++i)
    if (step || i > 1)
      addScalar(*program, hyperparameters[i], ScalarKind::Hyperparameter,
                scalars + 4 * i);
  addScalar(*program, "loss", ScalarKind::Metric, scalars + 20);
  if (step)
    addScalar(*program, "grad_norm", ScalarKind::Metric, scalars + 24);
  auto scalar = [&](int i) { return operand(scalars + 4 * i, 4); };

  int64_t rowBytes = o.width * 4, sumBytes = (o.width + 1) * 4;
  program->instructions.push_back(launch(4, 1, {operand(sums, sumBytes)}));
  LoopT loop;
  loop.count = k;
  loop.body.push_back(
      launch(0, micro,
             {operand(x, micro * rowBytes, micro * rowBytes),
              operand(w, rowBytes), operand(y, micro * 4, micro * 4),
              operand(error, micro * 4, micro * 4), scalar(2)}));
  // "rows" is the batch's; eval has all local rows at once.
  loop.body.push_back(launch(1, o.width + 1,
                             {operand(x, micro * rowBytes, micro * rowBytes),
                              operand(error, micro * 4, micro * 4),
                              operand(sums, sumBytes), scalar(2), scalar(3)}));
  OperationUnion operation;
  operation.Set(std::move(loop));
  program->instructions.push_back(instruction(std::move(operation)));

  CollectiveStartT start;
  start.id = step ? 7 : 8;
  start.name = "sums";
  start.inputs = start.outputs = {operand(sums, sumBytes)};
  OperationUnion startOperation, waitOperation;
  startOperation.Set(std::move(start));
  program->instructions.push_back(instruction(std::move(startOperation)));
  CollectiveWaitT wait;
  wait.id = step ? 7 : 8;
  waitOperation.Set(std::move(wait));
  program->instructions.push_back(instruction(std::move(waitOperation)));
  if (step)
    program->instructions.push_back(
        launch(2, 1,
               {operand(sums, sumBytes), operand(w, rowBytes),
                operand(m, rowBytes), operand(seen, 4), scalar(0), scalar(1),
                scalar(5), scalar(6), scalar(2), scalar(4)}));
  else
    program->instructions.push_back(launch(
        3, 1, {operand(sums, sumBytes), scalar(5), scalar(2), scalar(4)}));
  plan.programs.push_back(std::move(program));
}

PlanT Builder::build() {
  plan.model = "toy";
  plan.ranks = o.ranks;
  plan.global_batch = o.batch;
  plan.loss = "mse";
  plan.optimizer = "sgd";
  plan.labels_rule = LabelsRule::Data;
  plan.labels = "y";
  plan.schedule = std::make_unique<ScheduleT>();
  std::pair<const char *, double> values[] = {
      {"lr", 0.05},
      {"momentum", 0.9},
      {"width", double(o.width)},
      {"rows", double(o.batch / o.ranks / o.accumulation)},
      {"batch", double(o.batch)}};
  for (auto [name, value] : values) {
    plan.hyperparameters.push_back(std::make_unique<HyperparameterT>());
    plan.hyperparameters.back()->name = name;
    plan.hyperparameters.back()->value = value;
  }
  for (const char *symbol :
       {"toy_errors", "toy_sums", "toy_update", "toy_loss"})
    addKernel(symbol);
  auto fill = std::make_unique<KernelT>();
  fill->name = "k_clear";
  fill->library = LibraryKernel::Fill;
  fill->attributes.push_back(std::make_unique<AttributeT>());
  fill->attributes[0]->name = "bytes";
  fill->attributes[0]->ints = {(o.width + 1) * 4};
  plan.kernels.push_back(std::move(fill));
  addTensor("w", TensorRole::Parameter, o.width, w);
  plan.tensors.back()->tied_names = {"w_tied"};
  addTensor("seen", TensorRole::Buffer, 1, seen);
  addTensor("momentum_buffer.w", TensorRole::OptimizerState, o.width, m);
  plan.tensors.back()->of_parameter = "w";
  plan.tensors.back()->slot = "momentum_buffer";
  auto communicator = std::make_unique<CommunicatorT>();
  communicator->name = "data";
  communicator->groups.push_back(std::make_unique<RankGroupT>());
  for (uint32_t rank = 0; rank < o.ranks; ++rank)
    communicator->groups[0]->ranks.push_back(rank);
  plan.communicators.push_back(std::move(communicator));
  addProgram(true);
  if (o.accumulation == 1) // "rows" fits both programs
    addProgram(false);
  for (auto &program : plan.programs)
    program->arena_bytes = end;
  plan.summary = std::make_unique<SummaryT>();
  plan.summary->parameters = o.width;
  plan.summary->samples_per_step = o.batch;
  plan.summary->peak_bytes = end;
  return std::move(plan);
}

} // namespace

PlanT toyPlan(const ToyOptions &options) { return Builder(options).build(); }

Status writeToy(PlanT &plan, const ToyOptions &options,
                const std::string &path) {
  std::ifstream file(TOY_KERNELS, std::ios::binary);
  std::string object{std::istreambuf_iterator<char>(file), {}};
  ArtifactWriter writer("0.1.0-test");
  writer.addCode(options.target, std::move(object));
  std::vector<float> weights;
  for (int64_t i = 0; i < options.width; ++i)
    weights.push_back(float(i));
  plan.tensors[0]->weight =
      writer.addWeight(weights.data(), weights.size() * 4);
  return writer.write(plan, path);
}

Status writeToy(const ToyOptions &options, const std::string &path) {
  PlanT plan = toyPlan(options);
  return writeToy(plan, options, path);
}

ToyReference::ToyReference(const ToyOptions &options) : options(options) {
  for (int64_t i = 0; i < options.width; ++i)
    w.push_back(double(i));
  m.resize(w.size());
}

double ToyReference::step(const std::vector<float> &x,
                          const std::vector<float> &y, double lr,
                          double momentum) {
  std::vector<double> gradient(w.size());
  double loss = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    double error = -y[i];
    for (size_t j = 0; j < w.size(); ++j)
      error += x[i * w.size() + j] * w[j];
    for (size_t j = 0; j < w.size(); ++j)
      gradient[j] += 2 * error * x[i * w.size() + j] / double(y.size());
    loss += error * error / double(y.size());
  }
  gradNorm = 0;
  for (size_t j = 0; j < w.size(); ++j) {
    m[j] = momentum * m[j] + gradient[j];
    w[j] -= lr * m[j];
    gradNorm += gradient[j] * gradient[j];
  }
  gradNorm = std::sqrt(gradNorm);
  return loss;
}

TemporaryFolder::TemporaryFolder() {
  std::string name =
      (std::filesystem::temp_directory_path() / "lockstep-test-XXXXXX")
          .string();
  path = mkdtemp(name.data());
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

} // namespace lockstep::runtime::testing
