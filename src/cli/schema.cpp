#include "schema.hpp"

#include "cli/commands.hpp"
#include "cli/output.hpp"

namespace combu {

void add_schema(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "schema", "Print JSON Schema of the experiment's file as it is evaluated, for editors");
  command->footer("Example:\n  combu schema > experiment.schema.json");
  command->callback([&action] {
    action = [] {
      (void)put_out(k_experiment_schema);
      return 0;
    };
  });
}

}  // namespace combu
