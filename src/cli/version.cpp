#include <fmt/format.h>

#include <memory>
#include <string_view>

#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "combu/jsonnet.hpp"

namespace combu {

std::string_view version_text() {
  return "combu " COMBU_VERSION;
}

void add_version(CommandLine& line, Action& action) {
  CliCommand command = line.add_command("version", "Print the program's version");
  command.footer("Example:\n  combu version --verbose");
  const auto verbose = std::make_shared<bool>(false);
  command.add_flag("--verbose", *verbose, "Also print the evaluator of experiments and its version");
  command.callback([&action, verbose] {
    action = [is_verbose = *verbose] {
      (void)put_out(fmt::format("{}\n", version_text()));
      if (is_verbose) (void)put_out(fmt::format("evaluator: {}\n", evaluator()));
      return 0;
    };
  });
}

}  // namespace combu
