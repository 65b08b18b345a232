#include "cli/invocation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

namespace combu {
namespace {

template <class Parse>
auto parsed(std::string_view option, const std::string& text, Parse parse) {
  try {
    return parse(text);
  } catch (const Error& error) {
    throw Error(ErrorKind::invalid, std::string(option), error.message());
  }
}

}  // namespace

Seconds duration_option(std::string_view option, const std::string& text) {
  return parsed(option, text, parse_duration);
}

Cpus cpus_option(std::string_view option, const std::string& text) {
  return parsed(option, text, parse_cpus);
}

Bytes bytes_option(std::string_view option, const std::string& text) {
  return parsed(option, text, parse_bytes);
}

Invocation with_default_file(Invocation invocation) {
  if (!invocation.file.empty()) return invocation;
  for (const char* file : {"experiment.jsonnet", "docker/experiment.jsonnet"}) {
    std::error_code unreadable;
    if (!std::filesystem::exists(file, unreadable)) continue;
    invocation.file = file;
    invocation.must_be_regular = true;
    break;
  }
  return invocation;
}

Invocation with_file(Invocation invocation, const std::string& file) {
  if (file.empty()) return invocation;
  if (!invocation.file.empty())
    throw Error(ErrorKind::invalid, file,
                fmt::format("is a second file beside -f {}: name one", invocation.file));
  invocation.file = file;
  return invocation;
}

std::unique_ptr<Progress> open_progress(const Invocation& invocation) {
  return make_progress(parse_progress_form(invocation.progress), stderr);
}

std::string error_line(const Error& error, std::string_view engine_source) {
  if (error.kind() != ErrorKind::unavailable && error.kind() != ErrorKind::timeout)
    return fmt::format("combu: {}", error.what());
  const std::string source = engine_source.empty() ? "" : fmt::format(" (from {})", engine_source);
  return fmt::format("combu: no engine at {}{}: {}; --engine or DOCKER_HOST names another one",
                     error.subject(), source, error.message());
}

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid:
      return 2;
    case ErrorKind::unavailable:
    case ErrorKind::timeout:
    case ErrorKind::corrupt:  // what answers is not an engine
      return 3;
    default:
      return 1;
  }
}

int exit_code(const std::vector<Error>& errors) {
  int code = 0;
  for (const Error& error : errors) code = std::max(code, exit_code(error.kind()));
  return code;
}

}  // namespace combu
