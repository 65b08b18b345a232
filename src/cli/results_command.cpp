#include <memory>

#include "app/run_results.hpp"
#include "cli/commands.hpp"
#include "cli/options.hpp"
#include "cli/output.hpp"
#include "cli/session.hpp"

namespace combu {
namespace {

struct ResultsOptions {
  ChosenRuns chosen{.ids = {""}, .where = {}};
  std::vector<std::string> columns;
  ResultsForm form;
  std::int64_t limit = -1;
  bool json = false;
};

int results(const Invocation& invocation, const ResultsOptions& options) {
  CommandSessions sessions(open_progress(invocation));
  const std::vector<Results> runs =
      read_run_results(invocation, options.chosen, sessions.opener(), sessions.progress());
  ResultsForm form = options.form;
  form.columns = names_in(options.columns, "--columns");
  form.table = options.json ? json_form(options.limit) : table_form(options.limit);
  OutStream out;
  (options.json ? print_results_json : print_results)(out, runs.front(), form);
  out.flush();
  return 0;
}

}  // namespace

void add_results(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command = line.add_command("results", "Show the params and metrics of a run's trials");
  const auto options = std::make_shared<ResultsOptions>();
  command
      .add_option("--columns", options->columns,
                  "Columns to show: fields, params and metrics, such as trial,lr,loss.least")
      .type_name("NAMES")
      .one_value_each();
  command.add_option("--sort", options->form.sort, "Sort by this column, the least value first")
      .type_name("NAME");
  command.add_flag("--reverse", options->form.reverse, "Reverse the order");
  command
      .add_option("--where", options->chosen.where,
                  "Only trials that match this condition, such as lr<0.01 && loss<0.5")
      .type_name("CONDITION");
  add_limit(command, options->limit);
  command.add_flag("--json", options->json, "Print one JSON object per line, with all digits of the numbers");
  command.add_option("RUN", options->chosen.ids.front(), "The run's id; default: the file's last run")
      .type_name("");
  command.footer("Example:\n  combu -f experiment.jsonnet results --sort loss --where 'lr<0.01'");
  command.callback([&invocation, &action, options] {
    action = [&invocation, options] { return results(invocation, *options); };
  });
}

}  // namespace combu
