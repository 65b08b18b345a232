#include "cli/git.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace combu {
namespace {

constexpr Seconds k_time_max{60};
constexpr std::size_t k_output_max = std::size_t{64} << 20U;
constexpr std::string_view k_empty_variable = "COMBU_EMPTY";

// Variables that say where git and the user's own settings are, and how far it looks for a repository. All
// others that begin with GIT_ are dropped: they name another repository, programs, or files to write.
constexpr std::array<std::string_view, 8> k_kept{
    "GIT_CEILING_DIRECTORIES=", "GIT_CONFIG_COUNT=",  "GIT_CONFIG_GLOBAL=", "GIT_CONFIG_KEY_",
    "GIT_CONFIG_NOSYSTEM=",     "GIT_CONFIG_SYSTEM=", "GIT_CONFIG_VALUE_",  "GIT_EXEC_PATH="};

bool is_kept(std::string_view variable, bool is_for_another) {
  const auto begins_it = [&](std::string_view name) { return variable.starts_with(name); };
  if (begins_it("GIT_")) return std::ranges::any_of(k_kept, begins_it);
  // Root's own settings, which the user cannot read.
  return !is_for_another || (!begins_it("HOME=") && !begins_it("XDG_CONFIG_HOME="));
}

std::vector<std::string> environment_for(const std::optional<User>& user) {
  std::vector<std::string> environment = own_environment();
  std::erase_if(environment, [&](const std::string& each) { return !is_kept(each, user.has_value()); });
  if (user) {
    const std::string home = home_of_user(user->uid);
    environment.push_back(fmt::format("HOME={}", home.empty() ? "/" : home));
  }
  // A partial clone would fetch what it lacks, by programs that its settings name. A git that does not know
  // the first variable (before 2.44) finds that no protocol is allowed.
  for (const char* variable :
       {"GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0"})
    environment.emplace_back(variable);
  environment.push_back(fmt::format("{}=", k_empty_variable));
  return environment;
}

// The NAME in "filter.NAME.clean"; nullopt for other settings.
std::optional<std::string> filter_in(std::string_view setting) {
  constexpr std::string_view k_section = "filter.";
  const std::size_t end = setting.rfind('.');
  if (!setting.starts_with(k_section) || end < k_section.size()) return std::nullopt;
  return std::string(setting.substr(k_section.size(), end - k_section.size()));
}

std::vector<std::string> arguments_without(const std::set<std::string>& filters) {
  std::vector<std::string> arguments;
  for (const std::string& filter : filters) {
    for (const char* name : {"clean", "smudge", "process", "required"}) {
      const std::string setting = fmt::format("filter.{}.{}", filter, name);
      // `-c` takes the name up to the first `=`, and this option up to the last one. A git that does not know
      // it (before 2.31) fails.
      if (filter.find('=') != std::string::npos) {
        arguments.push_back(fmt::format("--config-env={}={}", setting, k_empty_variable));
      } else {
        arguments.insert(arguments.end(), {"-c", setting + "="});
      }
    }
  }
  return arguments;
}

}  // namespace

Git::Git(std::string folder)
    : folder_(std::move(folder)),
      limit_(std::chrono::steady_clock::now() +
             std::chrono::duration_cast<std::chrono::steady_clock::duration>(k_time_max)) {
  if (const User user = calling_user(); user.uid != geteuid()) user_ = user;
  environment_ = environment_for(user_);
  const auto settings = ask({"config", "--list", "--name-only", "-z"});
  knows_settings_ = settings.has_value();
  if (!settings) return;
  std::size_t from = 0;
  for (std::size_t end = settings->find('\0'); end != std::string::npos; end = settings->find('\0', from)) {
    if (auto filter = filter_in(std::string_view(*settings).substr(from, end - from)))
      filters_.insert(std::move(*filter));
    from = end + 1;
  }
  without_filters_ = arguments_without(filters_);
}

std::optional<Git::Cut> Git::ask_up_to(std::size_t size_max, const std::vector<std::string>& arguments,
                                       const std::string& input) {
  ProgramCall call{.arguments = {"git", "--no-pager", "--no-optional-locks", "-C", folder_, "-c",
                                 "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"},
                   .environment = environment_,
                   .input = input,
                   .output_max = size_max,
                   .time_max = limit_ - std::chrono::steady_clock::now(),
                   .user = user_};
  call.arguments.insert(call.arguments.end(), without_filters_.begin(), without_filters_.end());
  call.arguments.insert(call.arguments.end(), arguments.begin(), arguments.end());
  if (!knows_settings_ || call.time_max <= Seconds{0}) return std::nullopt;
  ProgramEnd end = run_program(call);
  if (std::chrono::steady_clock::now() >= limit_)
    problem_ = fmt::format("git did not end within {}", to_string(k_time_max));
  if (!end.problem.empty() || (end.exit_code != 0 && !end.output_cut)) return std::nullopt;
  return Cut{.text = std::move(end.output), .is_cut = end.output_cut};
}

std::optional<std::string> Git::ask(const std::vector<std::string>& arguments, const std::string& input) {
  auto answer = ask_up_to(k_output_max, arguments, input);
  if (!answer || answer->is_cut) return std::nullopt;
  return std::move(answer->text);
}

}  // namespace combu
