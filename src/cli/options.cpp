#include "cli/options.hpp"

namespace combu {

void add_file_argument(CliCommand command, std::string& file) {
  command
      .add_option("FILE", file,
                  "The experiment's file, as -f FILE names it; else experiment.jsonnet, or "
                  "docker/experiment.jsonnet")
      .type_name("");
}

void add_selection(CliCommand command, SelectionOptions& options) {
  command.add_option("--experiment", options.experiment, "The experiment of this name, instead of -f FILE's")
      .type_name("NAME");
  command.add_option("--run", options.run, "Only this run of it").type_name("ID");
}

void add_limit(CliCommand command, std::int64_t& limit) {
  command.add_option("--limit", limit, "So many rows, 0: all; else on a terminal 100, and all elsewhere")
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
  command.add_option("--run", run, "This run instead of the file's last one").type_name("ID");
}

}  // namespace combu
