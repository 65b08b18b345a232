#pragma once
// Features of Jsonnet that only some evaluators support.

#include <optional>
#include <string>
#include <string_view>

namespace combu {

// If an error exists only because this build's evaluator lacks a feature of rsjsonnet, returns a message
// about that feature, else nullopt. `before` and `from` are the file's text before and after the place of the
// error. If `is_syntax` is true, the error is a syntax error. `evaluator` is the name of this build's
// evaluator.
[[nodiscard]] std::optional<std::string> unsupported_features(std::string_view message,
                                                              std::string_view before, std::string_view from,
                                                              bool is_syntax, std::string_view evaluator);

}  // namespace combu
