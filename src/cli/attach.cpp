#include "app/attach.hpp"

#include <memory>
#include <string>

#include "cli/commands.hpp"
#include "cli/session.hpp"
#include "combu/system.hpp"

namespace combu {
namespace {

int attach_command(const Invocation& invocation, const std::string& id) {
  const auto progress = open_progress(invocation);
  const Interrupts interrupts([&] { progress->end(); });
  const Attached attached = attach(invocation, id, *progress, interrupts.token());
  return attached.owner_exit_code.value_or(exit_code(attached.result, interrupts.signal()));
}

}  // namespace

void add_attach(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command = line.add_command(
      "attach", "Show the progress of a run that another combu process owns; on Ctrl-C, only `attach` ends");
  const auto run = std::make_shared<std::string>();
  command.add_option("RUN", *run, "The run's id; default: the file's newest run that a process owns")
      .type_name("");
  command.footer("Example:\n  combu -f experiment.jsonnet attach");
  command.callback([&invocation, &action, run] {
    action = [&invocation, run] { return attach_command(invocation, *run); };
  });
}

}  // namespace combu
