#include "cli/output.hpp"

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

bool put_out(std::string_view data) {
  return put(stdout, data, "standard output");
}

bool put_err(std::string_view data) {
  return put(stderr, data, "standard error");
}

}  // namespace combu
