#include "cli/options.hpp"

namespace combu {

void add_file_argument(CliCommand command, std::string& file) {
  command
      .add_option("FILE", file,
                  "The experiment's file, as with -f; default: experiment.jsonnet, else "
                  "docker/experiment.jsonnet")
      .type_name("");
}

void add_selection(CliCommand command, SelectionOptions& options) {
  command.add_option("--experiment", options.experiment, "Select the experiment by its name, not by -f FILE")
      .type_name("NAME");
  command.add_option("--run", options.run, "Only the run with this id").type_name("ID");
}

void add_limit(CliCommand command, std::int64_t& limit) {
  command
      .add_option("--limit", limit,
                  "Print at most N rows (0: all rows); default: 100 on a terminal, else all")
      .type_name("N")
      .count_of("rows");
}

TableForm table_form(std::int64_t limit) {
  TableForm form = standard_table();
  if (limit >= 0) form.rows = static_cast<std::size_t>(limit);
  return form;
}

TableForm json_form(std::int64_t limit) {
  return {.columns = 0, .rows = limit > 0 ? static_cast<std::size_t>(limit) : 0};
}

void add_run_option(CliCommand command, std::string& run) {
  command.add_option("--run", run, "The run's id; default: the file's last run").type_name("ID");
}

}  // namespace combu
