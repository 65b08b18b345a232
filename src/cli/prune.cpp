#include <fmt/format.h>

#include <memory>
#include <vector>

#include "app/forget.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/session.hpp"
#include "cli/timestamp_option.hpp"
#include "combu/text.hpp"

namespace combu {
namespace {

struct PruneOptions {
  std::string before = "30d";
};

int print_removed(std::size_t count) {
  (void)put_err(fmt::format("removed {} from the record\n", number_of(count, "run")));
  return 0;
}

int remove(const Invocation& invocation, const std::vector<std::string>& ids) {
  CommandSessions sessions(open_progress(invocation));
  try {
    return print_removed(remove_runs(invocation, ids, sessions.opener()));
  } catch (const Error& error) {
    return sessions.exit_code(error);
  }
}

int prune(const Invocation& invocation, const PruneOptions& options) {
  const Instant before = timestamp_option("--before", options.before, real_clock().now());
  return print_removed(remove_runs_before(invocation, before));
}

}  // namespace

void add_rm(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command = line.add_command("rm", "Remove ended runs from the record");
  const auto ids = std::make_shared<std::vector<std::string>>();
  command.add_option("RUN", *ids, "The runs' ids").required().type_name("");
  command.footer("Example:\n  combu rm 3k9x0q2m7abc");
  command.callback(
      [&invocation, &action, ids] { action = [&invocation, ids] { return remove(invocation, *ids); }; });
}

void add_prune(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command =
      line.add_command("prune", "Remove from the record all runs that ended before a given time");
  const auto options = std::make_shared<PruneOptions>();
  command
      .add_option("--before", options->before,
                  "Remove runs that ended before this moment, such as 30d (ago) or 2026-01-31")
      .type_name("TIME")
      .show_default();
  command.footer("Example:\n  combu prune --before 90d");
  command.callback([&invocation, &action, options] {
    action = [&invocation, options] { return prune(invocation, *options); };
  });
}

}  // namespace combu
