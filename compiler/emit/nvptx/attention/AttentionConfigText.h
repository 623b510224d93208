//===- AttentionConfigText.h - Configurations as words ---------*- C++ -*-===//
#ifndef LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_ATTENTIONCONFIGTEXT_H
#define LOCKSTEP_COMPILER_EMIT_NVPTX_ATTENTION_ATTENTIONCONFIGTEXT_H

#include "compiler/emit/nvptx/attention/AttentionConfig.h"
#include <optional>
#include <string_view>
#include <variant>

namespace lockstep::attention {

using KernelConfig =
    std::variant<ForwardConfig, BackwardConfig, QueryGradientConfig>;

/// A configuration as words in a fixed order: "backward 128 causal stages=2
/// bulk defer late". The kernel and the head dimension come first; words at
/// their default are left out.
std::string printConfig(const KernelConfig &config);
/// The reverse, with the words after the first two in any order; the error text
/// names the word. The result is not checked.
std::optional<KernelConfig> parseConfig(std::string_view text,
                                        std::string &error);

} // namespace lockstep::attention

#endif
