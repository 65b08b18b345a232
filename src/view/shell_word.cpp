#include <fmt/format.h>

#include "combu/view.hpp"

namespace combu {

std::string shell_word(std::string_view text) {
  constexpr std::string_view k_plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  if (!text.empty() && text.find_first_not_of(k_plain) == std::string_view::npos) return std::string(text);
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'') {
      word += "'\\''";
    } else {
      word += c;
    }
  }
  return word + "'";
}

std::string command_line(const Experiment& experiment, std::string_view command, std::string_view engine) {
  const std::string program = engine.empty() ? "combu" : fmt::format("combu --engine {}", shell_word(engine));
  if (!experiment.file.ends_with("/-"))
    return fmt::format("{} -f {} {}", program, shell_word(experiment.file), command);
  return fmt::format("{} {} --experiment {}", program, command, shell_word(experiment.name));
}

std::string resume_line(const RunId& run, std::string_view engine) {
  return fmt::format("combu {}run --resume {}",
                     engine.empty() ? "" : fmt::format("--engine {} ", shell_word(engine)), run.text());
}

}  // namespace combu
