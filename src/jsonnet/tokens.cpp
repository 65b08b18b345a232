#include "jsonnet/tokens.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace combu {
namespace {

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

}  // namespace

Token Tokens::next() {
  skip_blank();
  if (at_ >= source_.size()) return {TokenKind::end, {}};
  const std::size_t begin = at_;
  const char c = source_[at_];
  TokenKind kind = TokenKind::symbol;
  if (is_name_character(c)) {
    kind = TokenKind::name;
    while (at_ < source_.size() && is_name_character(source_[at_])) ++at_;
  } else if (c == '"' || c == '\'') {
    kind = TokenKind::string;
    skip_quoted(c);
  } else if (c == '@' && at_ + 1 < source_.size() && (source_[at_ + 1] == '"' || source_[at_ + 1] == '\'')) {
    kind = TokenKind::string;
    skip_verbatim(source_[at_ + 1]);
  } else if (source_.substr(at_, 3) == "|||") {
    kind = TokenKind::string;
    skip_text_block();
  } else {
    ++at_;
  }
  return {kind, source_.substr(begin, at_ - begin)};
}

void Tokens::go_past(std::string_view mark) {
  const std::size_t found = source_.find(mark, at_);
  go_to(found == std::string_view::npos ? found : found + mark.size());
}

void Tokens::skip_blank() {
  while (at_ < source_.size()) {
    const std::string_view two = source_.substr(at_, 2);
    if (two.front() == '#' || two == "//") {
      go_past("\n");
    } else if (two == "/*") {
      at_ += 2;
      go_past("*/");
    } else if (std::string_view(" \t\r\n").find(two.front()) != std::string_view::npos) {
      ++at_;
    } else {
      return;
    }
  }
}

void Tokens::skip_quoted(char quote) {
  ++at_;
  while (at_ < source_.size() && source_[at_] != quote) at_ += source_[at_] == '\\' ? 2 : 1;
  go_to(at_ + 1);
}

// Skips a string such as @'it''s', in which a doubled quote means a quote.
void Tokens::skip_verbatim(char quote) {
  at_ += 2;
  while (at_ < source_.size()) {
    if (source_[at_] != quote) {
      ++at_;
    } else if (source_.substr(at_ + 1, 1) == std::string_view(&quote, 1)) {
      at_ += 2;
    } else {
      ++at_;
      return;
    }
  }
}

// Skips a text block. The text block ends at the first line that is indented less than the block's first
// line. The ending line begins with |||.
void Tokens::skip_text_block() {
  go_past("\n");
  while (at_ < source_.size() && source_[at_] == '\n') ++at_;
  const std::size_t text = std::min(source_.find_first_not_of(" \t", at_), source_.size());
  const std::string_view indentation = source_.substr(at_, text - at_);
  while (at_ < source_.size() && !indentation.empty() &&
         (source_[at_] == '\n' || source_.substr(at_, indentation.size()) == indentation)) {
    go_past("\n");
  }
  go_past("|||");
}

void Tokens::go_to(std::size_t place) {
  at_ = std::min(place, source_.size());
}

}  // namespace combu
