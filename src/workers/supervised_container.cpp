#include "workers/supervised_container.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "combu/inputs.hpp"
#include "workers/attempt.hpp"
#include "workers/container.hpp"

namespace combu::workers {
namespace {

constexpr int k_await_seconds = 3600;  // a combu that has ended for longer does not send the files any more
constexpr int k_await_secrets_seconds = 600;      // combu sends them as soon as the container runs
constexpr std::uint64_t k_unused_log_max = 4096;  // the engine has the log
constexpr std::string_view k_params_file = "/combu/params.json";

std::string parent_of(const std::string& path) {
  return path.substr(0, std::max<std::size_t>(path.rfind('/'), 1));
}

// Returns the folders of the files by which the trial gets its secrets.
std::vector<std::string> secret_folders(const Trial& trial) {
  std::set<std::string> folders;
  for (const Secret& secret : *trial.container.secrets)
    if (!secret.target.empty()) folders.insert(parent_of(secret.target));
  return {folders.begin(), folders.end()};
}

}  // namespace

std::vector<std::string> written_folders(const Trial& trial) {
  std::set<std::string> folders;
  for (const Input& input : trial.inputs) {
    std::error_code ignored;
    const bool is_file = std::filesystem::is_regular_file(input.from, ignored);
    folders.insert(is_file ? parent_of(input.to) : input.to);
  }
  for (const auto& [path, content] : provided_files(trial)) folders.insert(parent_of(path));
  return {folders.begin(), folders.end()};
}

bool awaits_files(const Trial& trial) {
  return !trial.inputs.empty() || trial.params_file;
}

std::map<std::string, std::string> provided_files(const Trial& trial) {
  if (!trial.params_file) return {};
  return {{std::string(k_params_file), trial.params.empty() ? "{}" : trial.params}};
}

void check_inputs(const Trial& trial) {
  // The function packs the beginning of an input before it calls its argument.
  for (const Input& input : trial.inputs)
    (void)pack_inputs({input}, input_owner(trial), [](std::string_view) { return false; });
}

Trial supervised_container(const Trial& trial, Supervision use, const ImageProgram& image,
                           std::shared_ptr<const ProvidedProgram> program, Seconds hold) {
  const bool is_for_files = use == Supervision::files;
  Trial container = trial;
  Process& process = container.process;
  const std::string& signal = process.stop_signal.empty() ? image.stop_signal : process.stop_signal;
  const int await = is_for_files ? (awaits_files(trial) ? k_await_seconds : 0) : k_await_secrets_seconds;
  process.entrypoint = {
      std::string(k_program),
      "supervise",
      std::string(k_folder),
      fmt::format("hold={:.0f}", is_for_files ? std::ceil(hold.count()) : 0),
      fmt::format("timeout_ms={}", milliseconds_of(trial.timeout)),
      fmt::format("grace_ms={}", milliseconds_of(process.stop_grace.value_or(k_default_grace))),
      fmt::format("stop_signal={}", signal_number(signal)),
      fmt::format("log_max={}", is_for_files ? log_max_of(trial) : k_unused_log_max),
      fmt::format("await={}", await),
      "--"};
  process.cmd = argv_of(trial, image);
  process.init = false;  // the agent is the first process
  process.stop_signal = "SIGTERM";
  container.container.provided = std::move(program);
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
