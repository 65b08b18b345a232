#pragma once
// What is said on the channel beside the lines of progress, as JSON.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "combu/schedule.hpp"

namespace combu::control {

// A client's lines.
[[nodiscard]] std::string follow_line();
[[nodiscard]] std::string adjust_line(const Adjust& adjust);
[[nodiscard]] std::string hand_over_line();
// The server's answers.
[[nodiscard]] std::string settings_line(const Settings& settings);
[[nodiscard]] std::string handed_over_line();
[[nodiscard]] std::string error_line(const std::string& text);
[[nodiscard]] std::string done_line(int exit_code);

// Of a request; throw Error(invalid).
enum class Ask { follow, adjust, hand_over };
[[nodiscard]] Ask ask_of(const nlohmann::json& request);
[[nodiscard]] Adjust adjust_of(const nlohmann::json& request);
// Of an answer; throws nlohmann's exceptions.
[[nodiscard]] Settings settings_of(const nlohmann::json& answer);

}  // namespace combu::control
