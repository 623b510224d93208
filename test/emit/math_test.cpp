// The elementary functions over the whole range of f32, infinities, NaN and
// subnormal numbers included, against the C library in double.
#include "compiler/driver/Registration.h"
#include "compiler/emit/Target.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "runtime/device/host/code_object.h"
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

using namespace lockstep;

namespace {

struct Function {
  const char *name;
  double (*exact)(double);
  /// Largest error, in units in the last place of the result.
  double ulps;
  /// Arguments beyond are left out.
  double limit = INFINITY;
};

const Function functions[] = {
    {"exponential", [](double x) { return std::exp(x); }, 2},
    {"exponential_minus_one", [](double x) { return std::expm1(x); }, 3},
    {"log", [](double x) { return std::log(x); }, 2},
    {"log_plus_one", [](double x) { return std::log1p(x); }, 3},
    {"tanh", [](double x) { return std::tanh(x); }, 4},
    {"logistic", [](double x) { return 1 / (1 + std::exp(-x)); }, 4},
    {"erf", [](double x) { return std::erf(x); }, 3},
    {"sine", [](double x) { return std::sin(x); }, 2, 0x1p50},
    {"cosine", [](double x) { return std::cos(x); }, 2, 0x1p50},
    {"tan", [](double x) { return std::tan(x); }, 3, 0x1p50},
    {"atan", [](double x) { return std::atan(x); }, 3},
};

constexpr int64_t count = 1 << 20;

/// Distance in units in the last place of f32.
double errorInUlps(float got, double exact) {
  float rounded = float(exact);
  if (std::isnan(rounded) || std::isnan(got))
    return std::isnan(rounded) && std::isnan(got) ? 0 : INFINITY;
  if (std::isinf(rounded) || std::isinf(got))
    return rounded == got ? 0 : INFINITY;
  int exponent;
  std::frexp(std::max(std::abs(exact), 0x1p-126), &exponent);
  return std::abs(got - exact) / std::ldexp(1.0, exponent - 24);
}

} // namespace

TEST_CASE("functions are precise over the whole range") {
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  std::string type = "tensor<" + std::to_string(count) + "xf32>", text;
  for (const Function &function : functions)
    text += std::string("plan.kernel loop @") + function.name + "(%x: " + type +
            ") -> " + type + " {\n  %0 = train." + function.name +
            " %x : " + type + "\n  plan.return %0 : " + type + "\n}\n";
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  REQUIRE(module);
  mlir::SmallVector<emit::GeneratedKernel> kernels;
  for (auto kernel : module->getOps<plan::KernelOp>())
    kernels.push_back({kernel, kernel.getSymName().str(), {}, {}});
  std::vector<std::string> objects;
  REQUIRE(mlir::succeeded(
      emit::Target::create("x86-64-v3")->compile(*module, kernels, objects)));
  StatusOr<runtime::CodeObject> code =
      runtime::CodeObject::load(objects.front());
  REQUIRE(code.ok());

  std::vector<float> x(count), y(count);
  for (int64_t i = 0; i < count; ++i) {
    // Every 4096th pattern of bits, at changing places.
    uint32_t bits = uint32_t(i) * 4096 + uint32_t(i) % 4096;
    std::memcpy(&x[i], &bits, sizeof bits);
  }
  for (size_t f = 0; f < kernels.size(); ++f) {
    const Function &function = functions[f];
    auto run = code->find(kernels[f].symbol);
    REQUIRE(run.ok());
    void *arguments[] = {x.data(), y.data()};
    (*run)(arguments, 0, kernels[f].shape.workItems);
    double worst = 0;
    float where = 0;
    for (int64_t i = 0; i < count; ++i) {
      if (std::isfinite(x[i]) && std::abs(x[i]) > function.limit)
        continue;
      double error = errorInUlps(y[i], function.exact(x[i]));
      if (error > worst)
        worst = error, where = x[i];
    }
    INFO(function.name << "(" << where << ") is off by " << worst << " ulp");
    CHECK(worst <= function.ulps);
  }
}
