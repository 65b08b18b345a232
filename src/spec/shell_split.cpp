#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "combu/spec.hpp"

namespace combu {

namespace {

bool blank(char c) {
  return c == ' ' || c == '\t' || c == '\n';
}

bool is_of_name(char c) {
  return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Returns the "$NAME" or "${NAME}" at the beginning of `text`, or an empty view if there is none.
std::string_view variable_at(std::string_view text) {
  if (!text.starts_with('$')) return {};
  const bool is_braced = text.substr(1).starts_with('{');
  const std::size_t begin = is_braced ? 2 : 1;
  std::size_t end = begin;
  while (end < text.size() && is_of_name(text[end])) ++end;
  const bool is_name = end > begin && (text[begin] < '0' || text[begin] > '9');
  if (!is_name) return {};
  return text.substr(0, is_braced && text.substr(end).starts_with('}') ? end + 1 : end);
}

std::string_view operator_at(std::string_view text) {
  for (const std::string_view one : {"&&", "||", "|", "<", ">", ";"})
    if (text.starts_with(one)) return text.substr(0, one.size());
  return {};
}

// Implements POSIX, Shell Command Language, 2.2 (Quoting) and 2.3 (Token Recognition), without expansions and
// operators.
class WordSplitter {
 public:
  explicit WordSplitter(std::string_view line) : line_(line) {}

  std::vector<std::string> split() {
    while (at_ < line_.size()) {
      const char c = line_[at_++];
      if (c == '\'') {
        single_quoted();
      } else if (c == '"') {
        double_quoted();
      } else if (c == '\\') {
        escaped();
      } else if (blank(c)) {
        end_word();
      } else {
        const std::string_view rest = line_.substr(at_ - 1);
        meet(operator_at(rest));
        meet(variable_at(rest));
        put(c);
      }
    }
    end_word();
    return std::move(words_);
  }
  // Returns the first shell syntax in the text that split() has read.
  [[nodiscard]] std::string_view shell_syntax() const { return shell_syntax_; }

 private:
  void meet(std::string_view syntax) {
    if (shell_syntax_.empty()) shell_syntax_ = syntax;
  }
  void put(char c) {
    word_ += c;
    in_word_ = true;
  }
  void end_word() {
    if (in_word_) words_.push_back(std::move(word_));
    word_.clear();
    in_word_ = false;
  }
  void escaped() {
    if (at_ == line_.size()) {
      put('\\');  // sh also keeps a backslash at the end of its input
    } else if (line_[at_] == '\n') {
      ++at_;
    } else {
      put(line_[at_++]);
    }
  }
  void single_quoted() {
    in_word_ = true;
    const std::size_t end = line_.find('\'', at_);
    if (end == std::string_view::npos) unterminated('\'');
    word_ += line_.substr(at_, end - at_);
    at_ = end + 1;
  }
  void double_quoted() {
    in_word_ = true;
    const std::size_t start = at_;
    while (at_ < line_.size() && line_[at_] != '"') {
      const char c = line_[at_++];
      const bool escapes = c == '\\' && at_ < line_.size() &&
                           std::string_view("$`\"\\\n").find(line_[at_]) != std::string_view::npos;
      if (!escapes) {
        meet(variable_at(line_.substr(at_ - 1)));
        word_ += c;
      } else if (const char next = line_[at_++]; next != '\n') {
        word_ += next;
      }
    }
    if (at_ == line_.size()) {
      at_ = start;
      unterminated('"');
    }
    ++at_;
  }
  [[noreturn]] void unterminated(char quote) const {
    throw Error(ErrorKind::invalid, "",
                std::string("the quote ") + quote + " at character " + std::to_string(at_) +
                    " has no end; close the quote, or escape it as \\" + quote);
  }

  std::string_view line_;
  std::size_t at_ = 0;
  std::string word_;
  bool in_word_ = false;
  std::vector<std::string> words_;
  std::string_view shell_syntax_;  // the first shell syntax that split() has found
};

}  // namespace

std::vector<std::string> split_words(std::string_view line) {
  return WordSplitter(line).split();
}

std::string_view find_shell_syntax(std::string_view line) {
  if (line.find_first_of("&|<>;$") == std::string_view::npos) return {};
  WordSplitter splitter(line);
  (void)splitter.split();
  return splitter.shell_syntax();
}

}  // namespace combu
