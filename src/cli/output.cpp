#include "cli/output.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>

#include "combu/base.hpp"

namespace combu {
namespace {

constexpr const char* k_standard_output = "standard output";
constexpr const char* k_standard_error = "standard error";

bool put(std::FILE* stream, std::string_view data, const char* name) {
  errno = 0;
  if (std::fwrite(data.data(), 1, data.size(), stream) == data.size() && std::fflush(stream) == 0)
    return true;
  if (errno == EPIPE) return false;
  throw Error(ErrorKind::refused, name, "cannot be written: " + std::generic_category().message(errno));
}

}  // namespace

void hold_standard_files() {
  for (const int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(file, F_GETFD) != -1) continue;
    // open() returns the lowest free number, which is `file`.
    (void)open("/dev/null", file == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

bool put_out(std::string_view text) {
  return put(stdout, escape_controls(text), k_standard_output);
}

bool put_err(std::string_view text) {
  return put(stderr, escape_controls(text), k_standard_error);
}

bool put_coloured(std::string_view text) {
  ColouredText coloured;
  return put(stdout, coloured.add(text) + coloured.end(), k_standard_output);
}

bool put_bytes(std::string_view bytes) {
  return isatty(STDOUT_FILENO) != 0 ? put_out(bytes) : put(stdout, bytes, k_standard_output);
}

LogOutput::LogOutput(File file, std::string_view prefix)
    : file_(file),
      is_terminal_(isatty(file == File::out ? STDOUT_FILENO : STDERR_FILENO) != 0),
      text_(prefix) {}

LogOutput::~LogOutput() {
  try {
    (void)end();
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the reset of a colour is lost
  }
}

bool LogOutput::put(std::string_view piece) {
  return is_terminal_ ? write(text_.add(piece)) : write(piece);
}

bool LogOutput::end() {
  return write(text_.end());
}

bool LogOutput::write(std::string_view text) const {
  return file_ == File::out ? combu::put(stdout, text, k_standard_output)
                            : combu::put(stderr, text, k_standard_error);
}

OutStream::OutStream(Content content) : std::ostream(nullptr), buffer_(content) {
  rdbuf(&buffer_);
  // Without this call, std::ostream would catch the exceptions of put_out().
  exceptions(std::ios::badbit);
}

OutStream::Buffer::int_type OutStream::Buffer::overflow(int_type letter) {
  // Keeps the bytes of an incomplete UTF-8 character for the next piece.
  const std::string_view piece(pbase(), pptr());
  const std::string rest(piece.substr(whole_characters(piece)));
  put(piece.substr(0, piece.size() - rest.size()));
  clear();
  sputn(rest.data(), static_cast<std::streamsize>(rest.size()));
  if (letter != traits_type::eof()) sputc(traits_type::to_char_type(letter));
  return traits_type::not_eof(letter);
}

int OutStream::Buffer::sync() {
  put({pbase(), pptr()});
  clear();
  return 0;
}

void OutStream::Buffer::put(std::string_view piece) {
  if (is_read_) is_read_ = content_ == Content::text ? put_out(piece) : put_bytes(piece);
}

}  // namespace combu
