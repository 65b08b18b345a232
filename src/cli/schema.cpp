#include "schema.hpp"

#include "cli/commands.hpp"
#include "cli/output.hpp"

namespace combu {

void add_schema(CommandLine& line, Action& action) {
  CliCommand command =
      line.add_command("schema", "Print the JSON Schema of the evaluated experiment file, for editors");
  command.footer("Example:\n  combu schema > experiment.schema.json");
  command.callback([&action] {
    action = [] {
      (void)put_out(k_experiment_schema);
      return 0;
    };
  });
}

}  // namespace combu
