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

// POSIX, Shell Command Language 2.2 (Quoting) and 2.3 (Token Recognition), less what expands or joins
// commands.
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
        put(c);
      }
    }
    end_word();
    return std::move(words_);
  }

 private:
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
      put('\\');  // as sh takes a backslash before the end of its input
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
                    " has no end; close it, or write \\" + quote + " for the character itself");
  }

  std::string_view line_;
  std::size_t at_ = 0;
  std::string word_;
  bool in_word_ = false;
  std::vector<std::string> words_;
};

}  // namespace

std::vector<std::string> split_words(std::string_view line) {
  return WordSplitter(line).split();
}

}  // namespace combu
