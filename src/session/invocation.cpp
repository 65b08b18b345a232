#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "combu/session.hpp"

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
                fmt::format("is a second file besides -f {}; give only one file", invocation.file));
  invocation.file = file;
  return invocation;
}

}  // namespace combu
