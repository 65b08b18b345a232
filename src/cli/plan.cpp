#include <memory>
#include <sstream>

#include "app/history.hpp"
#include "app/load.hpp"
#include "cli/commands.hpp"
#include "cli/options.hpp"
#include "cli/output.hpp"
#include "cli/session.hpp"

namespace combu {
namespace {

struct PlanOptions {
  std::string file;
  bool json = false;
};

// Prints hints_of() the file's last run, if it is on record.
void note_hints_of_last_run(const Invocation& invocation, const std::string& file,
                            const Experiment& experiment, Progress& progress) {
  try {
    const RunTimes last = read_times(with_file(invocation, file), {});
    for (const std::string& hint : hints_of(experiment, last.attempts))
      progress.note("hint: last run: " + hint);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): there is no record, or no run of the file in it
  }
}

int plan(const Invocation& invocation, const PlanOptions& options) {
  const auto progress = open_progress(invocation);
  const auto loaded = load(with_file(invocation, options.file), RunId::random(), *progress);
  if (!loaded) return 2;
  std::ostringstream text;
  const auto print = options.json ? print_plan_json : print_plan;
  print(text, loaded->run.experiment, loaded->plan);
  (void)put_out(text.str());
  note_hints_of_last_run(invocation, options.file, loaded->run.experiment, *progress);
  return 0;
}

}  // namespace

void add_plan(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command = line.add_command("plan", "Show in which order the trials would start; start nothing");
  const auto options = std::make_shared<PlanOptions>();
  command.add_flag("--json", options->json, "Print the whole plan as one JSON object");
  add_file_argument(command, options->file);
  command.footer("Example:\n  combu plan experiment.jsonnet");
  command.callback([&invocation, &action, options] {
    action = [&invocation, options] { return plan(invocation, *options); };
  });
}

}  // namespace combu
