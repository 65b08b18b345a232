#pragma once
// What the evaluator of one build knows and that of another does not.

#include <optional>
#include <string>
#include <string_view>

namespace combu {

// The message of an error that is none by rsjsonnet, in the words of ours; nullopt when it would be one
// there, too. `before` and `from` are the file's text on both sides of the error's place, `is_syntax`: the
// file could not be read; `evaluator` names this build's own.
[[nodiscard]] std::optional<std::string> unsupported_features(std::string_view message,
                                                              std::string_view before, std::string_view from,
                                                              bool is_syntax, std::string_view evaluator);

}  // namespace combu
