#pragma once
// The JSON messages of the channel to a run's owner, except for the lines of progress.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "combu/schedule.hpp"

namespace combu::control {

// The following functions return the lines that a client sends.
[[nodiscard]] std::string follow_line();
[[nodiscard]] std::string adjust_line(const Adjust& adjust);
[[nodiscard]] std::string hand_over_line();
// The following functions return the lines that the server sends.
[[nodiscard]] std::string settings_line(const Settings& settings);
[[nodiscard]] std::string handed_over_line();
[[nodiscard]] std::string error_line(const std::string& text);
[[nodiscard]] std::string done_line(int exit_code);

// Parse a request of a client. Throw Error(invalid) if the request is invalid.
enum class Ask { follow, adjust, hand_over };
[[nodiscard]] Ask ask_of(const nlohmann::json& request);
[[nodiscard]] Adjust adjust_of(const nlohmann::json& request);
// Parses an answer of the server. Throws nlohmann's exceptions if the answer is invalid.
[[nodiscard]] Settings settings_of(const nlohmann::json& answer);

}  // namespace combu::control
