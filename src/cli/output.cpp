#include "cli/output.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "combu/base.hpp"

namespace combu {
namespace {

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
    // The lowest number that is free, which is `file`.
    (void)open("/dev/null", file == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

bool put_out(std::string_view data) {
  return put(stdout, data, "standard output");
}

bool put_err(std::string_view data) {
  return put(stderr, data, "standard error");
}

OutStream::OutStream() : std::ostream(nullptr) {
  rdbuf(&buffer_);
  exceptions(std::ios::badbit);  // what put_out() throws is thrown on
}

OutStream::Buffer::int_type OutStream::Buffer::overflow(int_type letter) {
  sync();
  if (letter != traits_type::eof()) sputc(traits_type::to_char_type(letter));
  return traits_type::not_eof(letter);
}

int OutStream::Buffer::sync() {
  if (is_read_) is_read_ = put_out({pbase(), pptr()});
  clear();
  return 0;
}

}  // namespace combu
