#include <fmt/format.h>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "app/history.hpp"
#include "app/load.hpp"
#include "cli/commands.hpp"
#include "cli/options.hpp"
#include "cli/output.hpp"
#include "cli/session.hpp"
#include "combu/agent.hpp"
#include "combu/kubernetes.hpp"
#include "combu/workers.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

struct PlanOptions {
  std::string file;
  bool json = false;
  bool manifest = false;
};

// Prints hints_of() the newest run of the file that gives hints. Looks at a few runs, until one has attempts
// enough to judge by.
void note_hints_of_earlier_runs(const Invocation& invocation, const std::string& file,
                                const Experiment& experiment, Progress& progress) {
  constexpr std::size_t k_runs_max = 5;
  const Invocation of_file = with_file(invocation, file);
  try {
    for (const RunId& id : recent_runs(of_file, k_runs_max)) {
      const RunTimes run = read_times(of_file, {.run = id.text()});
      if (names_cluster(run.run.engine.address)) continue;  // starts take another time there
      const std::vector<std::string> hints = hints_of(experiment, run.attempts);
      for (const std::string& hint : hints)
        progress.note(fmt::format("hint: by run {}, {}", id.text(), hint));
      if (!hints.empty() || run.attempts.size() >= k_hint_attempts_min) return;
    }
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): there is no record, or no run of the file in it
  }
}

// Returns the namespace that --engine names. Without a kubeconfig, this is the namespace "default".
std::string name_space_of(const Invocation& invocation) {
  try {
    const std::string address = find_cluster(environment, invocation.engine).address;
    return address.substr(address.rfind('/') + 1);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::not_found) throw;
    return "default";
  }
}

int plan(const Invocation& invocation, const PlanOptions& options) {
  if (options.manifest && !names_cluster(invocation.engine))
    throw Error(ErrorKind::invalid, "--manifest",
                "needs a cluster as engine: combu --engine kubernetes plan --manifest");
  const auto progress = open_progress(invocation);
  const auto loaded = load(with_file(invocation, options.file), RunId::random(), *progress);
  if (!loaded) return 2;
  if (options.manifest) {
    const Run run = with_supervised_containers(loaded->run, agent::program_for);
    (void)put_out(
        kubernetes_manifests(with_worker_containers(run, agent::program_for), name_space_of(invocation)));
    return 0;
  }
  std::ostringstream text;
  const auto print = options.json ? print_plan_json : print_plan;
  print(text, loaded->run.experiment, loaded->plan);
  (void)put_out(text.str());
  note_hints_of_earlier_runs(invocation, options.file, loaded->run.experiment, *progress);
  return 0;
}

}  // namespace

void add_plan(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command = line.add_command("plan", "Show in which order the trials would start; start nothing");
  const auto options = std::make_shared<PlanOptions>();
  command.add_flag("--json", options->json, "Print the whole plan as one JSON object");
  command.add_flag("--manifest", options->manifest,
                   "With --engine kubernetes: print the objects that a run would create in the cluster");
  add_file_argument(command, options->file);
  command.footer("Example:\n  combu plan experiment.jsonnet");
  command.callback([&invocation, &action, options] {
    action = [&invocation, options] { return plan(invocation, *options); };
  });
}

}  // namespace combu
