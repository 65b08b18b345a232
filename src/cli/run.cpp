#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "app/resume.hpp"
#include "app/start.hpp"
#include "cli/background.hpp"
#include "cli/commands.hpp"
#include "cli/options.hpp"
#include "cli/session.hpp"

namespace combu {
namespace {

struct RunArguments : NewRun {
  std::string file;
  std::string parallel;  // a number, "false" or "true"; empty if the option is not given
  std::string resume;    // a run's id; empty for the last run
  bool edited = false;
  bool detach = false;
  bool no_cache = false;
};

// Returns the value of --parallel without a leading `=`: for `-p=8`, which means the same as `-p 8`, the
// parser keeps the `=`.
std::string_view parallel_value(std::string_view text) {
  if (text.starts_with('=')) text.remove_prefix(1);
  return text;
}

// Returns why `text` is not a valid value of --parallel, or an empty string for a valid value.
std::string parallel_fault(const std::string& text) {
  const std::string_view value = parallel_value(text);
  if (value == "true" || value == "false" || parse_number<std::size_t>(value)) return "";
  return fmt::format("must be a number or false, not {}", value);
}

// Starts or resumes a run. `resumption`: nullopt for a new run.
int run(const Invocation& invocation, const NewRun& wanted, const std::optional<Resumption>& resumption,
        const Background* background) {
  RunOwner owner(background);
  CommandSessions sessions(owner.share(open_progress(invocation)));
  const OpenSession open_session = sessions.opener();
  try {
    const Result result =
        resumption ? resume_run({invocation, sessions.progress(), open_session, owner}, *resumption)
                   : start_run(invocation, wanted, sessions.progress(), open_session, owner);
    return owner.done(sessions.exit_code(result));
  } catch (const Error& error) {
    return owner.done(sessions.exit_code(error));
  }
}

}  // namespace

void add_run(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command = line.add_command("run", "Start every trial as soon as its dependencies are met");
  const auto options = std::make_shared<RunArguments>();
  add_file_argument(command, options->file);
  command.add_flag(
      "--wait", options->options.wait,
      "Wait until all trials have ended; the exit code is 1 if a trial failed or was blocked, or if "
      "a trial that is not a service was stopped");
  command.add_flag("--replace", options->replace,
                   "First remove all containers of each earlier run that has not ended");
  command
      .add_option("--starts-in-flight", options->options.starts_in_flight, "Limit of starts at the same time")
      .type_name("N")
      .between(1, 1000)
      .show_default();
  command
      .add_option(
          "-p,--parallel", options->parallel,
          "Limit of attempts at the same time, instead of the file's `parallel` (0: no limit); false: "
          "one start after another")
      .check(parallel_fault)
      .type_name("N|false");
  command
      .add_option(
          "--only", options->only,
          "Only trials with this name or condition, such as solver-a-* or lr<0.01, and their dependencies")
      .type_name("TRIALS")
      .one_value_each();
  command
      .add_option("--reserve", options->options.reserve,
                  "CPUs, memory and GPUs of the engine that no trial gets, such as 2,4GiB,gpu=0")
      .type_name("SLOTS");
  command.add_flag("--no-cache", options->no_cache,
                   "Run trials with `cache` even if an equal trial has succeeded");
  command
      .add_option("--run-id", options->id,
                  "The run's id, which replaces \"UUID\" in the file; default: random")
      .type_name("ID");
  command.footer("Example:\n  combu run --wait experiment.jsonnet");
  add_detach_option(command, options->detach);
  CliOption resume =
      command.add_option("--resume", options->resume, "Resume the file's last run, or the run ID")
          .type_name("[ID]")
          .value_may_be_absent();
  for (const char* other : {"--only", "--replace", "--run-id"}) resume.excludes(other);
  command.add_flag("--edited", options->edited, "With --resume: use the edited file, as `apply` does");
  command.callback([&invocation, &action, command, options] {
    const std::string_view parallel = parallel_value(options->parallel);
    if (parallel == "false") options->options.starts_in_flight = 1;
    options->options.parallel = parse_number<std::size_t>(parallel);
    options->options.cache = !options->no_cache;
    const auto adjust = [command, options](RunOptions& recorded) {
      if (command.count("--wait") > 0) recorded.wait = true;
      if (command.count("--reserve") > 0) recorded.reserve = options->options.reserve;
      if (options->no_cache) recorded.cache = false;
      const bool is_switch = !options->parallel.empty() && !options->options.parallel;
      if (command.count("--starts-in-flight") > 0 || is_switch)
        recorded.starts_in_flight = options->options.starts_in_flight;
      if (options->options.parallel) recorded.parallel = options->options.parallel;
    };
    action = [&invocation, command, options, adjust] {
      const Invocation meant = with_file(invocation, options->file);
      const auto body = [&](const Background* background) {
        if (command.count("--resume") == 0) {
          if (options->edited)
            throw Error(ErrorKind::invalid, "--edited",
                        "must be used with --resume; a new run always uses the current file");
          return run(meant, *options, std::nullopt, background);
        }
        const Resumption resumption{.run = options->resume, .edited = options->edited, .adjust = adjust};
        return run(meant, *options, resumption, background);
      };
      return options->detach ? in_background(body) : body(nullptr);
    };
  });
}

}  // namespace combu
