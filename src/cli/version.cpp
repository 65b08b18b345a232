#include "cli/commands.hpp"
#include "cli/output.hpp"

namespace combu {

std::string version_text() {
  return "combu " COMBU_VERSION;
}

void add_version(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("version", "Print the program's version");
  command->footer("Example:\n  combu version");
  command->callback([&action] {
    action = [] {
      (void)put_out(version_text() + "\n");
      return 0;
    };
  });
}

}  // namespace combu
