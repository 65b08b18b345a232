#include "jsonnet/identifier.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "combu/jsonnet.hpp"

namespace combu {
namespace {

enum class TokenKind { end, name, string, symbol };

struct Token {
  TokenKind kind;
  std::string_view text;  // with its quotes
};

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// As much of Jsonnet's lexer (jsonnet.org/ref/spec.html#lexing) as tells code from comments and strings.
class Scanner {
 public:
  explicit Scanner(std::string_view source) : source_(source) {}

  Token next() {
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
    } else if (c == '@' && at_ + 1 < source_.size() &&
               (source_[at_ + 1] == '"' || source_[at_ + 1] == '\'')) {
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

 private:
  void go_to(std::size_t place) { at_ = std::min(place, source_.size()); }

  void go_past(std::string_view mark) {
    const std::size_t found = source_.find(mark, at_);
    go_to(found == std::string_view::npos ? found : found + mark.size());
  }

  void skip_blank() {
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

  void skip_quoted(char quote) {
    ++at_;
    while (at_ < source_.size() && source_[at_] != quote) at_ += source_[at_] == '\\' ? 2 : 1;
    go_to(at_ + 1);
  }

  // @'it''s': a doubled quote stands for one.
  void skip_verbatim(char quote) {
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

  // It ends at the first line that has less than the first line's indentation; that line begins with |||.
  void skip_text_block() {
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

  std::string_view source_;
  std::size_t at_ = 0;
};

// Follows `local NAME = "UUID"` through the tokens. A bind may also come after a comma, so what is open is
// kept on a stack.
class BindReader {
 public:
  // The string between the quotes, once the token after it has shown that it is the whole of a bind's value.
  std::string_view take(const Token& token) {
    std::string_view found;
    switch (state_) {
      case State::name:
        state_ = token.kind == TokenKind::name ? State::equals : State::other;
        break;
      case State::equals:
        state_ = token.text == "=" ? State::value : State::other;
        break;
      case State::value:
        value_ = token.text;
        state_ = token.kind == TokenKind::string ? State::closed : State::other;
        break;
      case State::closed:
        if (token.text == ";" || token.text == "," || token.text == "}") found = value_;
        state_ = State::other;
        break;
      case State::other:
        break;
    }
    follow(token);
    return found;
  }

 private:
  enum class State { other, name, equals, value, closed };
  struct Open {
    int depth;
    bool binds;  // a `local`, whose commas begin another bind; or an `assert`, which has a ; of its own
  };

  void follow(const Token& token) {
    if (token.kind == TokenKind::name && (token.text == "local" || token.text == "assert")) {
      const bool binds = token.text == "local";
      open_.push_back({depth_, binds});
      state_ = binds ? State::name : State::other;
    } else if (token.kind == TokenKind::symbol) {
      follow_symbol(token.text.front());
    }
  }

  void follow_symbol(char symbol) {
    const bool innermost = !open_.empty() && open_.back().depth == depth_;
    if (symbol == '(' || symbol == '[' || symbol == '{') {
      ++depth_;
    } else if (symbol == ')' || symbol == ']' || symbol == '}') {
      --depth_;
      while (!open_.empty() && open_.back().depth > depth_) open_.pop_back();
    } else if (symbol == ';' && innermost) {
      open_.pop_back();
    } else if (symbol == ',' && innermost && open_.back().binds) {
      state_ = State::name;
    }
  }

  State state_ = State::other;
  std::string_view value_;
  std::vector<Open> open_;
  int depth_ = 0;
};

}  // namespace

std::vector<std::size_t> find_identifiers(std::string_view source) {
  std::vector<std::size_t> found;
  Scanner scanner(source);
  BindReader reader;
  for (Token token = scanner.next(); token.kind != TokenKind::end; token = scanner.next()) {
    const std::string_view value = reader.take(token);
    if (value == "\"UUID\"" || value == "'UUID'") {
      found.push_back(static_cast<std::size_t>(value.data() - source.data()) + 1);
    }
  }
  return found;
}

std::string put_identifier(const std::string& source, const RunId& run) {
  const std::vector<std::size_t> places = find_identifiers(source);
  std::string result;
  result.reserve(source.size() + places.size() * run.text().size());
  std::size_t done = 0;
  for (const std::size_t place : places) {
    result.append(source, done, place - done).append(run.text());
    done = place + k_identifier.size();
  }
  return result.append(source, done);
}

}  // namespace combu
