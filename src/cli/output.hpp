#pragma once

#include <array>
#include <ostream>
#include <streambuf>
#include <string_view>

#include "combu/text.hpp"

namespace combu {

// Opens /dev/null for each standard file that the caller closed. If a standard file stayed closed, the next
// opened file, such as an engine's socket, would become that standard file. Must be called before any file is
// opened.
void hold_standard_files();

// Commands print only with the functions of this header, and show progress only with the room `progress`
// (src/progress). So no text from a trial, an engine or a file can send control sequences to a terminal.

// Writes escape_controls(text) to standard output, without buffering. Returns false if the reader of the
// output has closed the pipe, as in `combu ps | head`. A closed pipe is not an error, but further output is
// useless. Throws Error(refused) for other errors.
[[nodiscard]] bool put_out(std::string_view text);
// Like put_out(), but writes to standard error.
[[nodiscard]] bool put_err(std::string_view text);
// Like put_out(), but keeps colour sequences. `text` must come from combu itself.
[[nodiscard]] bool put_coloured(std::string_view text);
// Writes the content of a file to standard output: unchanged to a pipe or a file, and like put_out() to a
// terminal.
[[nodiscard]] bool put_bytes(std::string_view bytes);

// Writes one stream of a log: unchanged to a pipe or a file, and through ColouredText to a terminal. Returns
// and throws like put_out().
class LogOutput {
 public:
  enum class File { out, err };
  // `prefix` has the same meaning as in ColouredText.
  explicit LogOutput(File file, std::string_view prefix = {});
  ~LogOutput();
  LogOutput(const LogOutput&) = delete;
  LogOutput& operator=(const LogOutput&) = delete;

  // Writes the next piece of the stream.
  [[nodiscard]] bool put(std::string_view piece);
  // Writes text that is still buffered for the terminal.
  [[nodiscard]] bool end();

 private:
  [[nodiscard]] bool write(std::string_view text) const;

  File file_;
  bool is_terminal_;
  ColouredText text_;
};

// Standard output as a stream, for output that is too large to keep in memory. Writes each piece with
// put_out() or put_bytes(); flush() writes the last piece. If the reader of the output has closed the pipe,
// further output is dropped.
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
