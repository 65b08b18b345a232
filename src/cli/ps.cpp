#include <fmt/format.h>

#include <memory>
#include <span>
#include <sstream>
#include <string>

#include "app/run_list.hpp"
#include "app/status.hpp"
#include "cli/commands.hpp"
#include "cli/options.hpp"
#include "cli/output.hpp"
#include "cli/session.hpp"

namespace combu {
namespace {

struct PsOptions {
  SelectionOptions selection;
  bool json = false;
  bool all = false;
  std::int64_t limit = -1;
  std::string where;
};

// Prints trials, containers and runs in the form that the options choose.
class StatusPrinter {
 public:
  explicit StatusPrinter(const PsOptions& options)
      : is_json_(options.json), form_(options.json ? json_form(options.limit) : table_form(options.limit)) {}

  [[nodiscard]] const TableForm& form() const { return form_; }

  void trials(const RunRow& run, std::span<const TrialRow> trials,
              std::span<const Observation> unrecorded) const {
    OutStream out;
    if (is_json_) {
      print_trials_json(out, run, trials.first(form_.shown(trials.size())), real_clock().now());
    } else {
      print_trials(out, run, trials, real_clock().now(), form_);
    }
    if (!unrecorded.empty()) {
      if (!is_json_) out << "\nnot on record:\n";
      print(out, unrecorded);
    }
    out.flush();
  }

  void containers(std::span<const Observation> containers) const {
    std::ostringstream text;
    print(text, containers);
    (void)put_out(text.view());
  }

  void runs(std::span<const RunRow> runs) const {
    std::ostringstream text;
    if (is_json_) {
      print_runs_json(text, runs);
    } else {
      print_runs(text, runs, form_.columns);
    }
    (void)put_out(text.view());
  }

 private:
  void print(std::ostream& out, std::span<const Observation> containers) const {
    (is_json_ ? print_observations_json : print_observations)(out, containers, form_);
  }

  bool is_json_;
  TableForm form_;
};

int ps(const Invocation& invocation, const PsOptions& options) {
  CommandSessions sessions(open_progress(invocation));
  const StatusPrinter printer(options);
  StatusQuery query{.selection = options.selection,
                    .where = options.where,
                    .address = address_given(invocation),
                    .runs_max = std::nullopt,
                    .all_runs = options.all,
                    .trials_max = printer.form().rows,
                    .all_details = options.json,
                    // Only on a terminal, one row stands for several equal failures; a pipe gets a row for
                    // each trial.
                    .join_failures = printer.form().columns > 0 && !options.json};
  if (options.limit >= 0) query.runs_max = static_cast<std::size_t>(options.limit);
  const StatusListener listener{
      .trials = [&](const auto&... shown) { printer.trials(shown...); },
      .containers = [&](std::span<const Observation> containers) { printer.containers(containers); },
      .runs = [&](std::span<const RunRow> runs) { printer.runs(runs); }};
  try {
    return sessions.exit_code(status(invocation, sessions.progress(), sessions.opener(), query, listener));
  } catch (const Error& error) {
    return sessions.exit_code(error);
  }
}

}  // namespace

void add_ps(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command = line.add_command(
      "ps", "List the trials of the file's last run; without a file, an experiment or a run, list runs");
  const auto options = std::make_shared<PsOptions>();
  add_selection(command, options->selection);
  command.add_flag("--json", options->json, "Print one JSON object per line");
  command.add_flag("--all", options->all, fmt::format("List all runs, not only the newest {}", k_runs_shown));
  add_limit(command, options->limit);
  command
      .add_option("--where", options->where,
                  "Only rows that match this condition, such as lr<0.01 && state=failed")
      .type_name("CONDITION");
  command.add_option("TRIAL", options->selection.trials, "Only trials with these names, such as solver-a-*")
      .type_name("");
  command.footer("Example:\n  combu -f experiment.jsonnet ps --where 'lr<0.01 && state=failed'");
  command.callback([&invocation, &action, options] {
    action = [&invocation, options] { return ps(invocation, *options); };
  });
}

}  // namespace combu
