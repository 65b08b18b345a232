#include "view/shell_word.hpp"

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

std::string command_line(const Experiment& experiment, std::string_view command) {
  if (!experiment.file.ends_with("/-"))
    return fmt::format("combu -f {} {}", shell_word(experiment.file), command);
  return fmt::format("combu {} --experiment {}", command, shell_word(experiment.name));
}

}  // namespace combu
