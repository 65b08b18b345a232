#include "registry/challenge.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>

namespace combu::registry {
namespace {

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  [[nodiscard]] bool is_at_end() const { return text_.empty(); }
  // Skips blanks and the commas between the elements of a list.
  void skip_separators() { text_.remove_prefix(std::min(text_.find_first_not_of(" \t,"), text_.size())); }
  // Takes characters up to the next separator. The result is empty only before such a separator.
  std::string take_word() {
    const std::size_t end = std::min(text_.find_first_of(" \t,=\""), text_.size());
    std::string word(text_.substr(0, end));
    text_.remove_prefix(end);
    std::ranges::transform(word, word.begin(), [](unsigned char c) { return std::tolower(c); });
    return word;
  }
  bool take(char wanted) {
    if (!text_.starts_with(wanted)) return false;
    text_.remove_prefix(1);
    return true;
  }
  std::string take_value() {
    std::string value;
    if (!take('"')) {
      const std::size_t end = std::min(text_.find_first_of(" \t,"), text_.size());
      value = text_.substr(0, end);
      text_.remove_prefix(end);
      return value;
    }
    while (!text_.empty() && !take('"')) {
      if (text_.front() == '\\' && text_.size() > 1) text_.remove_prefix(1);
      value += text_.front();
      text_.remove_prefix(1);
    }
    return value;
  }
  void skip_character() { text_.remove_prefix(1); }

 private:
  std::string_view text_;
};

}  // namespace

std::vector<Challenge> parse_challenges(std::string_view value) {
  std::vector<Challenge> challenges;
  Reader reader(value);
  for (reader.skip_separators(); !reader.is_at_end(); reader.skip_separators()) {
    std::string word = reader.take_word();
    if (word.empty()) {
      reader.skip_character();
    } else if (!reader.take('=')) {
      challenges.push_back({.scheme = std::move(word), .parameters = {}});
    } else if (std::string text = reader.take_value(); !challenges.empty()) {
      challenges.back().parameters.insert_or_assign(std::move(word), std::move(text));
    }
  }
  return challenges;
}

}  // namespace combu::registry
