//===- GemmConfigText.cpp - Configurations as words -----------------------===//
#include "compiler/emit/nvptx/gemm/GemmConfig.h"
#include <cstdio>
#include <functional>
#include <vector>

using namespace lockstep;
using namespace lockstep::gemm;

namespace {
/// A word without a value, which sets one field.
struct Flag {
  const char *word;
  std::function<void(GemmConfig &)> set;
  std::function<bool(const GemmConfig &)> isSet;
};
/// A word with a number after "=".
struct Number {
  const char *word;
  int GemmConfig::*field;
};
} // namespace

template <typename T>
static Flag flag(const char *word, T GemmConfig::*field, T value) {
  return {word, [=](GemmConfig &config) { config.*field = value; },
          [=](const GemmConfig &config) { return config.*field == value; }};
}

static const std::vector<Flag> &getFlags() {
  static const std::vector<Flag> flags = {
      flag("cluster=none", &GemmConfig::cluster, Cluster::None),
      flag("cluster=n", &GemmConfig::cluster, Cluster::AlongN),
      flag("a=outer", &GemmConfig::a, Major::Outer),
      flag("b=outer", &GemmConfig::b, Major::Outer),
      flag("f32", &GemmConfig::output, Output::Float32),
      flag("accumulate", &GemmConfig::output, Output::Float32Accumulate),
      flag("bias", &GemmConfig::bias, true),
      flag("gelu", &GemmConfig::activation, Activation::Gelu),
      flag("gelutanh", &GemmConfig::activation, Activation::GeluTanh),
      flag("relu", &GemmConfig::activation, Activation::Relu),
      flag("silu", &GemmConfig::activation, Activation::Silu),
      flag("save", &GemmConfig::side, Side::SavePreactivation),
      flag("residual", &GemmConfig::side, Side::AddResidual),
      flag("gradient", &GemmConfig::side, Side::ActivationGradient),
      flag("sums", &GemmConfig::columnSums, true),
      flag("split", &GemmConfig::splitK, true),
      flag("batched", &GemmConfig::batched, true),
      flag("overlap", &GemmConfig::overlapLaunch, true),
      flag("hints", &GemmConfig::cacheHints, true),
  };
  return flags;
}

static constexpr Number numbers[] = {
    {"consumers", &GemmConfig::consumers},
    {"stages", &GemmConfig::stages},
    {"ring", &GemmConfig::ring},
    {"ringbytes", &GemmConfig::ringBytes},
    {"registers", &GemmConfig::consumerRegisters},
    {"loadregisters", &GemmConfig::producerRegisters},
};

std::string gemm::printConfig(const GemmConfig &config) {
  std::string text =
      config.schedule == Schedule::PingPong ? "pingpong " : "cooperative ";
  text += std::to_string(config.tileM) + "x" + std::to_string(config.tileN);
  GemmConfig initial;
  for (const Number &number : numbers)
    if (config.*number.field != initial.*number.field)
      text += std::string(" ") + number.word + "=" +
              std::to_string(config.*number.field);
  for (const Flag &flag : getFlags())
    if (flag.isSet(config))
      text += std::string(" ") + flag.word;
  return text;
}

static bool parseWord(GemmConfig &config, const std::string &word) {
  for (const Flag &flag : getFlags())
    if (word == flag.word) {
      flag.set(config);
      return true;
    }
  for (const Number &number : numbers) {
    std::string prefix = std::string(number.word) + "=";
    int used = 0;
    if (word.compare(0, prefix.size(), prefix) == 0)
      return std::sscanf(word.c_str() + prefix.size(), "%d%n",
                         &(config.*number.field), &used) == 1 &&
             prefix.size() + used == word.size();
  }
  return false;
}

std::optional<GemmConfig> gemm::parseConfig(std::string_view text,
                                            std::string &error) {
  GemmConfig config;
  size_t count = 0;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find(' ', begin), text.size());
    std::string word(text.substr(begin, end - begin));
    begin = end + 1;
    if (word.empty())
      continue;
    bool known = false;
    int used = 0;
    if (count == 0) {
      known = word == "pingpong" || word == "cooperative";
      config.schedule =
          word == "pingpong" ? Schedule::PingPong : Schedule::Cooperative;
    } else if (count == 1) {
      known = std::sscanf(word.c_str(), "%dx%d%n", &config.tileM, &config.tileN,
                          &used) == 2 &&
              size_t(used) == word.size();
    } else {
      known = parseWord(config, word);
    }
    if (!known) {
      error = "unknown word '" + word + "' in a GEMM configuration";
      return std::nullopt;
    }
    ++count;
  }
  if (count < 2) {
    error =
        "expected a schedule and a tile, but got '" + std::string(text) + "'";
    return std::nullopt;
  }
  return config;
}
