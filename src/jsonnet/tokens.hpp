#pragma once
// A partial lexer of Jsonnet (jsonnet.org/ref/spec.html#lexing), which only distinguishes code from comments
// and strings.

#include <cstddef>
#include <string_view>

namespace combu {

enum class TokenKind { end, name, string, symbol };

struct Token {
  TokenKind kind;
  // part of the source: a name, a string with its quotes, or one character of a symbol
  std::string_view text;
};

// Splits `source` into tokens. `source` must outlive this object. Takes linear time.
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
