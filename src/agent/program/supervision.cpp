#include "supervision.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "system.hpp"

namespace combu::agent {
namespace {

constexpr int k_not_found = 127;  // as k_not_started
constexpr std::string_view k_variable = "variable=";

bool read_setting(std::string_view text, Supervision& supervision) {
  if (add_variable(text, supervision.variables)) return true;
  const std::size_t equals = text.find('=');
  std::uint64_t value = 0;
  if (equals == std::string_view::npos || !read_number(text.substr(equals + 1), value)) return false;
  const std::string_view name = text.substr(0, equals);
  if (name == "hold")
    supervision.hold = static_cast<std::int64_t>(value) * k_second;
  else if (name == "await")
    supervision.await = static_cast<std::int64_t>(value) * k_second;
  else if (name == "timeout_ms")
    supervision.start.timeout_ms = value;
  else if (name == "grace_ms")
    supervision.start.grace_ms = value;
  else if (name == "stop_signal" && value < NSIG)
    supervision.start.stop_signal = static_cast<std::uint8_t>(value);
  else if (name == "log_max")
    supervision.start.log_max = value;
  else if (name == "keep")
    supervision.keeps = value != 0;
  else
    return false;
  return true;
}

std::string field(std::string_view name, std::uint64_t value) {
  return " " + std::string(name) + "=" + to_text(value);
}

}  // namespace

bool add_variable(std::string_view argument, std::vector<Variable>& variables) {
  if (!argument.starts_with(k_variable)) return false;
  argument.remove_prefix(k_variable.size());
  const std::size_t name_end = argument.find('=');
  if (name_end == std::string_view::npos) return false;
  variables.push_back(
      {std::string(argument.substr(0, name_end)), std::string(argument.substr(name_end + 1))});
  return true;
}

bool read_supervision(const std::vector<std::string_view>& arguments, Supervision& supervision) {
  std::size_t at = 0;
  while (at < arguments.size() && arguments[at] != "--")
    if (!read_setting(arguments[at++], supervision)) return false;
  supervision.start.id = k_supervised_id;
  for (++at; at < arguments.size(); ++at) supervision.start.argv.emplace_back(arguments[at]);
  return !supervision.start.argv.empty();
}

std::string read_variables(const std::vector<Variable>& variables, std::vector<std::string>& environment) {
  for (const Variable& variable : variables) {
    const Descriptor file(open(variable.path.c_str(), O_RDONLY | O_CLOEXEC));
    std::string value;
    std::array<char, 4096> part{};
    ssize_t count = -1;
    while (file.is_open() && (count = read(file.get(), part.data(), part.size())) > 0)
      value.append(part.data(), static_cast<std::size_t>(count));
    if (count < 0) return problem_text(variable.path, errno);
    if (value.find('\0') != std::string::npos)
      return "the variable " + variable.name + " has a NUL character";
    environment.push_back(variable.name + "=" + value);
  }
  return {};
}

int exit_code_of(const Ended& ended) {
  return ended.signal != 0 ? k_signalled + ended.signal : ended.exit_code;
}

int exit_code_of(const Refused& refused) {
  return refused.stage == Refused::program && refused.code == ENOENT ? k_not_found : k_not_started;
}

std::string report_of_end(const Ended& ended) {
  return "combu-agent ended" + field("flags", ended.flags) + field("cpu_ns", ended.cpu_ns) +
         field("memory_peak", ended.memory_peak);
}

std::string report_of_refusal(const Refused& refused) {
  return "combu-agent refused" + field("stage", refused.stage) +
         field("code", static_cast<std::uint64_t>(refused.code)) + " " + refused.text;
}

}  // namespace combu::agent
