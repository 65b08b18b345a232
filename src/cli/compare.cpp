#include "app/compare.hpp"

#include <cstdint>
#include <memory>

#include "cli/commands.hpp"
#include "cli/options.hpp"
#include "cli/output.hpp"
#include "cli/session.hpp"

namespace combu {
namespace {

struct CompareCommand {
  CompareOptions compare;
  std::int64_t limit = -1;
  bool json = false;
};

int compare(const Invocation& invocation, const CompareCommand& options) {
  CommandSessions sessions(open_progress(invocation));
  Progress& progress = sessions.progress();
  const auto [runs, form] = read_compared(invocation, options.compare, sessions.opener(), progress);
  const TableForm table = options.json ? json_form(options.limit) : table_form(options.limit);
  OutStream out;
  std::vector<std::string> notes;
  if (options.json) {
    notes = print_comparison_json(out, runs, form, table);
  } else {
    print_comparison(out, runs, form, table);
  }
  out.flush();
  for (const std::string& note : notes) progress.note(note);
  return 0;
}

}  // namespace

void add_compare(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command =
      line.add_command("compare", "Compare the metrics of runs, or of the repeats within one run");
  const auto options = std::make_shared<CompareCommand>();
  command
      .add_option("--metric", options->compare.metrics,
                  "Columns to compare, such as loss,accuracy.greatest; default: all metrics")
      .type_name("NAMES")
      .one_value_each();
  command
      .add_option("--over", options->compare.over,
                  "Params whose values differ between the repeats of one setting")
      .type_name("NAMES")
      .one_value_each()
      .show_default();
  command
      .add_option("--where", options->compare.where, "Only trials that match this condition, such as lr<0.01")
      .type_name("CONDITION");
  add_limit(command, options->limit);
  command.add_flag("--json", options->json, "Print one JSON object per line");
  command.add_option("RUN", options->compare.runs, "The runs' ids; default: the file's last run")
      .type_name("");
  command.footer("Example:\n  combu compare 3k9x0q2m7abc 0a1b2c3d4e5f --metric loss");
  command.callback([&invocation, &action, command, options] {
    options->compare.is_over_given = command.count("--over") > 0;
    action = [&invocation, options] { return compare(invocation, *options); };
  });
}

}  // namespace combu
