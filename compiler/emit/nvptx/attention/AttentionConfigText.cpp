//===- AttentionConfigText.cpp - Configurations as words ------------------===//
#include "compiler/emit/nvptx/attention/AttentionConfigText.h"
#include <cstdio>
#include <functional>
#include <vector>

using namespace lockstep;
using namespace lockstep::attention;

namespace {
/// A word without a value, which sets one field.
template <typename Config> struct Flag {
  const char *word;
  std::function<void(Config &)> set;
  std::function<bool(const Config &)> isSet;
};
/// A word with a number after "=".
template <typename Config> struct Number {
  const char *word;
  int Config::*field;
};
template <typename Config> struct Words {
  const char *kernel;
  std::vector<Flag<Config>> flags;
  std::vector<Number<Config>> numbers;
};
} // namespace

template <typename Config, typename T>
static Flag<Config> flag(const char *word, T Config::*field, T value) {
  return {word, [=](Config &config) { config.*field = value; },
          [=](const Config &config) { return config.*field == value; }};
}

template <typename Config> static std::vector<Flag<Config>> getMaskFlags() {
  return {flag("causal", &Config::mask, Mask::Causal),
          flag("window", &Config::mask, Mask::CausalWindow),
          flag("keybias", &Config::keyBias, true),
          flag("boolean", &Config::tensorMask, TensorMask::Boolean),
          flag("added", &Config::tensorMask, TensorMask::Added)};
}

template <typename Config> static const Words<Config> &getWords();

template <> const Words<ForwardConfig> &getWords() {
  using Config = ForwardConfig;
  static const Words<Config> words = {"forward",
                                      getMaskFlags<Config>(),
                                      {{"consumers", &Config::consumers},
                                       {"stages", &Config::stages},
                                       {"querystages", &Config::queryStages},
                                       {"polynomial", &Config::polynomial}}};
  return words;
}

template <> const Words<BackwardConfig> &getWords() {
  using Config = BackwardConfig;
  static const Words<Config> words = [] {
    Words<Config> made = {
        "backward",
        getMaskFlags<Config>(),
        {{"stages", &Config::stages}, {"keystages", &Config::keyStages}}};
    for (const Flag<Config> &each :
         {flag("bulk", &Config::queryGradient, QueryGradient::BulkReduce),
          flag("noquery", &Config::queryGradient, QueryGradient::None),
          flag("defer", &Config::deferKeyGradient, true),
          flag("late", &Config::lateValueGradient, true)})
      made.flags.push_back(each);
    return made;
  }();
  return words;
}

template <> const Words<QueryGradientConfig> &getWords() {
  using Config = QueryGradientConfig;
  static const Words<Config> words = {
      "querygradient",
      getMaskFlags<Config>(),
      {{"stages", &Config::stages}, {"querystages", &Config::queryStages}}};
  return words;
}

template <typename Config> static std::string print(const Config &config) {
  const Words<Config> &words = getWords<Config>();
  std::string text =
      std::string(words.kernel) + " " + std::to_string(config.headDim);
  for (const Flag<Config> &each : words.flags)
    if (each.isSet(config))
      text += std::string(" ") + each.word;
  Config initial;
  for (const Number<Config> &each : words.numbers)
    if (config.*each.field != initial.*each.field)
      text += std::string(" ") + each.word + "=" +
              std::to_string(config.*each.field);
  return text;
}

std::string attention::printConfig(const KernelConfig &config) {
  return std::visit([](const auto &each) { return print(each); }, config);
}

template <typename Config>
static bool parseWord(Config &config, const std::string &word) {
  for (const Flag<Config> &each : getWords<Config>().flags)
    if (word == each.word) {
      each.set(config);
      return true;
    }
  for (const Number<Config> &each : getWords<Config>().numbers) {
    std::string prefix = std::string(each.word) + "=";
    int used = 0;
    if (word.compare(0, prefix.size(), prefix) == 0)
      return std::sscanf(word.c_str() + prefix.size(), "%d%n",
                         &(config.*each.field), &used) == 1 &&
             prefix.size() + used == word.size();
  }
  return false;
}

static std::optional<KernelConfig> startConfig(const std::string &kernel) {
  if (kernel == getWords<ForwardConfig>().kernel)
    return ForwardConfig();
  if (kernel == getWords<BackwardConfig>().kernel)
    return BackwardConfig();
  if (kernel == getWords<QueryGradientConfig>().kernel)
    return QueryGradientConfig();
  return std::nullopt;
}

static bool parseHeadDim(KernelConfig &config, const std::string &word) {
  int headDim = 0, used = 0;
  if (std::sscanf(word.c_str(), "%d%n", &headDim, &used) != 1 ||
      size_t(used) != word.size())
    return false;
  std::visit([&](auto &each) { each.headDim = headDim; }, config);
  return true;
}

std::optional<KernelConfig> attention::parseConfig(std::string_view text,
                                                   std::string &error) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find(' ', begin), text.size());
    if (end > begin)
      words.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  if (words.size() < 2) {
    error = "expected a kernel and a head dimension, but got '" +
            std::string(text) + "'";
    return std::nullopt;
  }
  auto config = startConfig(words[0]);
  for (size_t i = 0; i < words.size(); ++i) {
    bool known = config.has_value();
    if (known && i == 1)
      known = parseHeadDim(*config, words[i]);
    if (known && i > 1)
      known = std::visit([&](auto &each) { return parseWord(each, words[i]); },
                         *config);
    if (known)
      continue;
    error = "unknown word '" + words[i] + "' in an attention configuration";
    return std::nullopt;
  }
  return config;
}
