#pragma once
// The part of Jsonnet's lexer (jsonnet.org/ref/spec.html#lexing) that distinguishes code from comments and
// strings.

#include <cstddef>
#include <string_view>

namespace combu {

enum class TokenKind { end, name, string, symbol };

struct Token {
  TokenKind kind;
  std::string_view text;  // part of the source: a string with its quotes, or one character of a symbol
};

// The tokens of `source`, which must outlive this object. Takes linear time.
class Tokens {
 public:
  explicit Tokens(std::string_view source) : source_(source) {}

  Token next();

 private:
  void go_to(std::size_t place);
  void go_past(std::string_view mark);
  void skip_blank();
  void skip_quoted(char quote);
  void skip_verbatim(char quote);
  void skip_text_block();

  std::string_view source_;
  std::size_t at_ = 0;
};

}  // namespace combu
