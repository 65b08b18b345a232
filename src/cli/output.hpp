#pragma once

#include <array>
#include <ostream>
#include <streambuf>
#include <string_view>

#include "combu/text.hpp"

namespace combu {

// A standard file that the caller has closed would be the first one that is opened, an engine's socket. From
// now on it is one that can be neither read nor written. Call it first.
void hold_standard_files();

// Commands print only by these functions and classes, and progress by room progress, so that text from
// trials, engines and files cannot give a terminal commands.

// Writes text at once to standard output, with escape_controls(). False when its reader has gone (`combu ps |
// head`): that is no error, and there is no use in writing more. Throws Error(refused) when it cannot be
// written otherwise.
[[nodiscard]] bool put_out(std::string_view text);
// The same to standard error.
[[nodiscard]] bool put_err(std::string_view text);
// The same as put_out(), but keeps the colours of `text`, which combu itself made.
[[nodiscard]] bool put_coloured(std::string_view text);
// Writes a file's content to standard output: unchanged to a pipe or a file, to a terminal as put_out().
[[nodiscard]] bool put_bytes(std::string_view bytes);

// Writes one stream of a log: unchanged to a pipe or a file, to a terminal with ColouredText. Returns and
// throws as put_out().
class LogOutput {
 public:
  enum class File { out, err };
  // `prefix`: as in ColouredText.
  explicit LogOutput(File file, std::string_view prefix = {});
  ~LogOutput();
  LogOutput(const LogOutput&) = delete;
  LogOutput& operator=(const LogOutput&) = delete;

  // `piece` continues the last one.
  [[nodiscard]] bool put(std::string_view piece);
  // Writes what a terminal has not got yet.
  [[nodiscard]] bool end();

 private:
  [[nodiscard]] bool write(std::string_view text) const;

  File file_;
  bool is_terminal_;
  ColouredText text_;
};

// Standard output as a stream, for what is too much to be kept until all of it is there: it goes on by
// put_out() or put_bytes(), in pieces, the last one at flush(). What is written after its reader has gone is
// dropped.
class OutStream : public std::ostream {
 public:
  enum class Content { text, bytes };
  explicit OutStream(Content content = Content::text);

 private:
  class Buffer : public std::streambuf {
   public:
    explicit Buffer(Content content) : content_(content) { clear(); }

   protected:
    int_type overflow(int_type letter) override;
    int sync() override;

   private:
    void clear() { setp(piece_.data(), piece_.data() + piece_.size()); }
    void put(std::string_view piece);

    Content content_;
    std::array<char, std::size_t{64} << 10U> piece_;
    bool is_read_ = true;
  };
  Buffer buffer_;
};

}  // namespace combu
