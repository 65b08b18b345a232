#include <fmt/format.h>

#include <utility>

#include "combu/text.hpp"

namespace combu {

std::string shell_word(std::string_view text) {
  constexpr std::string_view k_plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  if (!text.empty() && text.find_first_not_of(k_plain) == std::string_view::npos) return std::string(text);
  std::string word = "'";
  bool is_octal = false;
  const auto end_octal = [&] {
    if (std::exchange(is_octal, false)) word += "')\"'";
  };
  while (!text.empty()) {
    const auto character = first_character(text);
    const std::string_view letter = text.substr(0, character ? character->bytes : 1);
    text.remove_prefix(letter.size());
    // POSIX shells have no quoted escape sequences. Hence the word contains a call of printf that writes each
    // hidden byte from its octal number.
    const bool is_hidden = letter != "\n" && escape_controls(letter) != letter;
    if (!is_hidden) {
      end_octal();
      word += letter == "'" ? R"('\'')" : letter;
      continue;
    }
    if (!std::exchange(is_octal, true)) word += R"('"$(printf ')";
    for (const char byte : letter) word += fmt::format("\\{:03o}", static_cast<unsigned char>(byte));
  }
  end_octal();
  return word + "'";
}

}  // namespace combu
