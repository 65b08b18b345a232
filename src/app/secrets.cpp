#include "app/secrets.hpp"

#include <fmt/format.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "combu/system.hpp"
#include "combu/text.hpp"

namespace combu {
namespace {

// The limit of Kubernetes for all values of a Secret together.
constexpr Bytes k_values_max{std::int64_t{1} << 20U};
// Linux accepts at most 128 KiB for a variable, with its name, `=` and NUL: MAX_ARG_STRLEN, execve(2).
constexpr std::size_t k_variable_max = std::size_t{128} << 10U;
constexpr Seconds k_command_max{60};

Error fault(const SecretSource& source, const char* field, const std::string& message) {
  return {ErrorKind::invalid, fmt::format("{}.{}", source.path, field), message};
}

std::string read_file_of(const SecretSource& source) {
  try {
    if (auto content = read_regular_file(source.file, k_values_max)) return *std::move(content);
  } catch (const Error& error) {
    throw fault(source, "file", error.what());
  }
  throw fault(source, "file",
              fmt::format("{} does not exist; create the file, or correct the path", source.file));
}

std::string read_variable_of(const SecretSource& source, const Caller& caller) {
  if (auto value = caller.env(source.variable)) return *std::move(value);
  throw fault(source, "env",
              fmt::format("the variable {} is not set in the environment of combu; export it",
                          shortened(source.variable)));
}

std::string command_text(const SecretSource& source) {
  std::string text;
  for (const std::string& word : source.command) text += (text.empty() ? "" : " ") + shell_word(word);
  return shortened(text);
}

// Neither the output nor the standard error of the command is shown, since both may contain the value.
std::string run_command_of(const SecretSource& source, const Caller& caller, const std::stop_token& stop) {
  ProgramEnd end = run_program({.arguments = source.command,
                                .environment = own_environment(),
                                .folder = caller.folder,
                                .input = {},
                                .output_max = static_cast<std::size_t>(k_values_max.count),
                                .time_max = k_command_max,
                                .user = std::nullopt,
                                .stop = stop});
  if (stop.stop_requested()) throw Error(ErrorKind::cancelled, source.path, "cancelled");
  const auto fail = [&](const std::string& why) {
    explicit_bzero(end.output.data(), end.output.size());
    throw fault(source, "command",
                fmt::format("{}; run the command in the folder {} to see why: {}", why, caller.folder,
                            command_text(source)));
  };
  if (end.output_cut) fail(fmt::format("the output is larger than {}", to_string(k_values_max)));
  if (!end.problem.empty()) fail(fmt::format("the command {}", end.problem));
  if (end.exit_code != 0) fail(fmt::format("the command failed with exit code {}", end.exit_code));
  if (end.output.ends_with('\n')) end.output.pop_back();
  return std::move(end.output);
}

SecretValue read_value(const SecretSource& source, const Caller& caller, const std::stop_token& stop) {
  const bool is_file = !source.file.empty();
  const bool is_variable = !source.variable.empty();
  SecretValue value(is_file       ? read_file_of(source)
                    : is_variable ? read_variable_of(source, caller)
                                  : run_command_of(source, caller, stop));
  if (!value.reveal().empty()) return value;
  throw fault(source,
              is_file       ? "file"
              : is_variable ? "env"
                            : "command",
              is_file       ? fmt::format("{} is empty", source.file)
              : is_variable ? fmt::format("the variable {} is empty", shortened(source.variable))
                            : "the command prints nothing: " + command_text(source));
}

// Returns why a variable cannot have a value, or an empty text.
std::string fault_of_variable(const Secret& secret, std::string_view value) {
  if (value.find('\0') != std::string_view::npos)
    return "the value has a NUL character, which no variable can have; use `target`";
  if (secret.variable.size() + value.size() + 2 > k_variable_max)
    return fmt::format("the value is too large for a variable, which can have {} with its name; use `target`",
                       to_string(Bytes{static_cast<std::int64_t>(k_variable_max)}));
  return "";
}

}  // namespace

std::vector<Error> read_secrets(Session& session, Loaded& loaded) {
  std::map<std::string_view, std::vector<const Secret*>> uses;
  for (const Trial& trial : loaded.run.experiment.trials)
    for (const Secret& secret : *trial.container.secrets)
      if (!secret.is_in_cluster) uses[secret.source].push_back(&secret);
  std::vector<Error> errors;
  auto values = std::make_shared<SecretValues>();
  Bytes total;
  for (const SecretSource& source : loaded.run.experiment.secrets) {
    const auto used = uses.find(source.name);
    if (used == uses.end()) continue;
    if (values->empty()) session.progress().phase("reading secrets");
    try {
      const auto [at, is_new] =
          values->emplace(source.name, read_value(source, loaded.caller, session.stop()));
      const std::string_view value = at->second.reveal();
      total.count += static_cast<std::int64_t>(value.size());
      bool ends_line = value.ends_with('\n');
      for (const Secret* secret : used->second) {
        if (secret->variable.empty()) continue;
        if (const std::string why = fault_of_variable(*secret, value); !why.empty()) {
          errors.emplace_back(ErrorKind::invalid, secret->path, why);
          break;
        }
        if (std::exchange(ends_line, false))
          session.progress().note(fmt::format(
              "{}: the value ends with a line end, which becomes part of the variable {}; to remove it, "
              "write command: [\"cat\", FILE] in place of the file",
              secret->path, shortened(secret->variable)));
      }
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::cancelled) throw;
      errors.push_back(error);
    }
  }
  if (total > k_values_max)
    errors.emplace_back(
        ErrorKind::invalid, "secrets",
        fmt::format("the values are larger than {} together; use `inputs` or `volumes` for large "
                    "files",
                    to_string(k_values_max)));
  loaded.run.secrets = std::move(values);
  return errors;
}

}  // namespace combu
