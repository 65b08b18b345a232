#include <memory>
#include <sstream>

#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/selection.hpp"

namespace combu {
namespace {

struct PsOptions {
  SelectionOptions selection;
  bool json = false;
};

int ps(Session& session, const Invocation& invocation, const PsOptions& options) {
  const auto sightings =
      list_all(session, selectors_of(session, invocation, options.selection), Look::closely);
  const bool chosen = !invocation.file.empty() || !options.selection.experiment.empty();
  if (sightings.empty() && chosen)
    session.progress().note(
        with_others("nothing of it is on this engine", session, invocation, options.selection));
  std::ostringstream text;
  const auto print = options.json ? print_sightings_json : print_sightings;
  print(text, sightings);
  (void)put_out(text.str());
  return 0;
}

}  // namespace

void add_ps(CLI::App& app, const Invocation& invocation, Action& action) {
  CLI::App* command =
      app.add_subcommand("ps", "List an experiment's trials; without -f those of all experiments");
  const auto options = std::make_shared<PsOptions>();
  add_selection(*command, options->selection);
  command->add_flag("--json", options->json, "One JSON object a line");
  command->footer("Example:\n  combu -f experiment.jsonnet ps --json | jq -r .trial");
  command->callback([&invocation, &action, options] {
    action = [&invocation, options] {
      return in_session(invocation, [&](Session& session) { return ps(session, invocation, *options); });
    };
  });
}

}  // namespace combu
