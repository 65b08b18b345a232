#include "jsonnet/identifier.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "combu/jsonnet.hpp"
#include "jsonnet/tokens.hpp"

namespace combu {
namespace {

// Recognises `local NAME = "UUID"` in a sequence of tokens. A `local` may have several binds (NAME = VALUE),
// separated by commas, so a stack holds each `local` and `assert` that has not ended.
class BindReader {
 public:
  // Returns the string of a bind, with its quotes, when `token` is the token after the string. Only this
  // token shows that the string is the whole value of the bind. For all other tokens, returns an empty
  // string.
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
    bool binds;  // true: a `local`, whose commas separate binds; false: an `assert`, which also ends at a `;`
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
  Tokens tokens(source);
  BindReader reader;
  for (Token token = tokens.next(); token.kind != TokenKind::end; token = tokens.next()) {
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
