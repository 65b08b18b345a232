#include "workers/supervised_container.hpp"

#include <fmt/format.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "workers/agent_files.hpp"
#include "workers/attempt.hpp"
#include "workers/container.hpp"

namespace combu::workers {
namespace {

// A Pod that waits occupies a place in the cluster. The cluster reports that its program has not begun.
constexpr int k_await_files_seconds = 3600;
// A Docker Engine cannot report that a program has not begun, so the agent waits for the resumed run.
constexpr int k_await_secrets_seconds = 7 * 24 * 3600;
constexpr std::uint64_t k_unused_log_max = 4096;  // the engine has the log

// Returns the folders of the files by which the trial gets its secrets.
std::vector<std::string> secret_folders(const Trial& trial) {
  std::set<std::string> folders;
  for (const Secret& secret : *trial.container.secrets)
    if (!secret.target.empty()) folders.insert(parent_of(secret.target));
  return {folders.begin(), folders.end()};
}

}  // namespace

Trial supervised_container(const Trial& trial, Supervision use, const ImageProgram& image,
                           std::shared_ptr<const ProvidedProgram> program, const Experiment& experiment) {
  const bool is_for_files = use == Supervision::files;
  Trial container = trial;
  Process& process = container.process;
  const std::string& signal = process.stop_signal.empty() ? image.stop_signal : process.stop_signal;
  const int await =
      is_for_files ? (awaits_files(trial) ? k_await_files_seconds : 0) : k_await_secrets_seconds;
  process.entrypoint = {
      std::string(k_program), "supervise", std::string(k_folder),
      fmt::format("hold={:.0f}", is_for_files ? std::ceil(experiment.hold.count()) : 0),
      // Without a connection, the agent cannot report a timeout; combu stops the container then.
      fmt::format("timeout_ms={}", is_for_files ? milliseconds_of(trial.timeout) : 0),
      fmt::format("grace_ms={}", milliseconds_of(process.stop_grace.value_or(k_default_grace))),
      fmt::format("stop_signal={}", signal_number(signal)),
      fmt::format("log_max={}", is_for_files ? log_max_of(trial) : k_unused_log_max),
      fmt::format("await={}", await)};
  if (is_for_files && experiment.keep == Keep::volume && !trial.outputs.empty()) {
    process.entrypoint->emplace_back("keep=1");
    for (const Output& output : trial.outputs) container.container.kept_folders.push_back(output.path);
  }
  if (is_for_files) pass_variables_as_files(container);
  process.entrypoint->emplace_back("--");
  process.cmd = argv_of(trial, image);
  process.init = false;  // the agent is the first process
  process.stop_signal = "SIGTERM";
  container.container.provided = std::move(program);
  container.container.awaits_delivery = await > 0;
  if (!is_for_files) {
    container.container.written_folders = secret_folders(trial);
    std::vector<Secret> others = *trial.container.secrets;
    std::erase_if(others, [](const Secret& secret) { return !secret.is_in_cluster; });
    container.container.secrets = std::move(others);
    return container;
  }
  container.container.written_folders = written_folders(trial);
  container.inputs.clear();
  container.params_file = false;
  container.outputs.clear();
  container.metrics = Metrics{};
  return container;
}

}  // namespace combu::workers
