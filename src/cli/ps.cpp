#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/selection.hpp"

namespace combu {
namespace {

struct PsOptions {
  SelectionOptions selection;
  bool json = false;
  std::string where;
};

// The fields of --json, by which --where chooses.
std::optional<std::string> value_of(const Sighting& sighting, std::string_view name) {
  if (name == "experiment") return sighting.experiment;
  if (name == "run") return sighting.key.run.text();
  if (name == "trial") return sighting.key.trial;
  if (name == "attempt") return std::to_string(sighting.key.attempt);
  if (name == "state") return std::string(to_string(sighting.phase));
  if (name == "image") return sighting.image;
  if (name == "id") return sighting.id;
  if (name == "health" && sighting.health != Health::none) return std::string(to_string(sighting.health));
  if (name == "exit_code" && sighting.exit_code) return std::to_string(*sighting.exit_code);
  return std::nullopt;
}

int ps(Session& session, const Invocation& invocation, const PsOptions& options) {
  const std::optional<Filter> where =
      options.where.empty() ? std::nullopt : std::optional(Filter(options.where));
  auto sightings = list_all(session, selectors_of(session, invocation, options.selection), Look::closely);
  const bool chosen = !invocation.file.empty() || !options.selection.experiment.empty();
  if (sightings.empty() && chosen)
    session.progress().note(
        with_others("nothing of it is on this engine", session, invocation, options.selection));
  if (where) {
    std::erase_if(sightings, [&](const Sighting& sighting) {
      return !where->matches([&](std::string_view name) { return value_of(sighting, name); });
    });
  }
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
  command
      ->add_option("--where", options->where, "Only those of which this is so: state=ended && exit_code!=0")
      ->type_name("CONDITION");
  command->footer("Example:\n  combu -f experiment.jsonnet ps --json | jq -r .trial");
  command->callback([&invocation, &action, options] {
    action = [&invocation, options] {
      return in_session(invocation, [&](Session& session) { return ps(session, invocation, *options); });
    };
  });
}

}  // namespace combu
