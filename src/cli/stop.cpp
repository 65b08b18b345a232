#include "app/stop.hpp"

#include <memory>
#include <optional>
#include <string>

#include "cli/commands.hpp"
#include "cli/options.hpp"
#include "cli/output.hpp"
#include "cli/session.hpp"
#include "combu/json.hpp"

namespace combu {
namespace {

struct StopArguments {
  SelectionOptions selection;
  std::string grace;
  bool json = false;
};

std::string json_line(const Observation& observation, const std::optional<Error>& error) {
  nlohmann::ordered_json object{{"experiment", observation.experiment},
                                {"run", observation.key.run.text()},
                                {"trial", observation.key.trial},
                                {"attempt", observation.key.attempt},
                                {"stopped", !error}};
  if (error) object["error"] = error->message();
  return json_text(object) + "\n";
}

StopOptions stop_options(const StopArguments& command) {
  StopOptions options{.selection = command.selection, .grace = {}, .on_stopped = {}};
  if (!command.grace.empty()) options.grace = duration_option("--grace", command.grace);
  if (command.json)
    options.on_stopped = [](const Observation& attempt, const std::optional<Error>& error) {
      (void)put_out(json_line(attempt, error));
    };
  return options;
}

}  // namespace

void add_stop(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command =
      line.add_command("stop", "Stop trials, kill them after their grace period, and keep their containers");
  const auto options = std::make_shared<StopArguments>();
  command
      .add_option("TRIAL", options->selection.trials,
                  "Only trials with these names, such as solver-a-*; default: all")
      .type_name("");
  add_selection(command, options->selection);
  command
      .add_option("--grace", options->grace,
                  "Time from the stop signal to the kill, such as 10s; default: the trial's `stop_grace`")
      .type_name("TIME");
  command.add_flag("--json", options->json, "Print one JSON object per line");
  command.footer("Example:\n  combu -f experiment.jsonnet stop --grace 30s 'solver-a-*'");
  command.callback([&invocation, &action, options] {
    action = [&invocation, options] {
      const Invocation meant = for_selection(invocation, options->selection);
      return in_session(meant,
                        [&](Session& session) { return stop(session, meant, stop_options(*options)); });
    };
  });
}

}  // namespace combu
