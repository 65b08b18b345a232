#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "combu/base.hpp"

namespace combu {
namespace {

constexpr std::size_t k_run_id_characters_max = 64;

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_run_id_character(char c) {
  return is_alphanumeric(c) || c == '_' || c == '.' || c == '-';
}

}  // namespace

RunId::RunId(std::string text) : text_(std::move(text)) {
  if (text_.empty() || text_.size() > k_run_id_characters_max || !is_alphanumeric(text_.front()) ||
      !std::ranges::all_of(text_, is_run_id_character)) {
    throw Error(
        ErrorKind::invalid, "",
        "\"" + text_ +
            "\" is not a run id: use 1 to 64 of the characters a-z A-Z 0-9 _ . - beginning with a letter "
            "or a digit");
  }
}

RunId RunId::random() {
  constexpr std::string_view k_alphabet = "abcdefghijklmnopqrstuvwxyz0123456789";
  constexpr int k_characters = 12;
  std::random_device source;
  std::uniform_int_distribution<std::size_t> pick(0, k_alphabet.size() - 1);
  std::string text;
  for (int i = 0; i < k_characters; ++i) text += k_alphabet[pick(source)];
  return RunId(std::move(text));
}

}  // namespace combu
