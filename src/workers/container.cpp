#include "workers/container.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <limits>
#include <unordered_map>
#include <utility>

#include "combu/workers.hpp"
#include "workers/agent_files.hpp"

namespace combu {

bool is_worker_name(std::string_view name) {
  return name.starts_with(k_worker_name_prefix);
}

namespace workers {
namespace {

// Number of workers on an engine that does not know its capacity, such as a cluster.
constexpr std::size_t k_count_on_cluster = 16;
constexpr std::string_view k_variables_folder = "/combu/variables";

}  // namespace

std::string worker_name(const RunId& run, std::size_t number) {
  return fmt::format("{}{}-{}", k_worker_name_prefix, run.text(), number);
}

std::optional<std::size_t> number_of_worker(const RunId& run, std::string_view name) {
  const std::string begin = fmt::format("{}{}-", k_worker_name_prefix, run.text());
  if (!name.starts_with(begin)) return std::nullopt;
  return parse_number<std::size_t>(name.substr(begin.size()));
}

std::string to_text(const Note& note) {
  return fmt::format("{} {}", note.concurrency, note.shape);
}

Note parse_note(std::string_view text) {
  const std::size_t blank = std::min(text.find(' '), text.size());
  return {
      .concurrency = std::max<std::size_t>(parse_number<std::size_t>(text.substr(0, blank)).value_or(1), 1),
      .shape = std::string(text.substr(std::min(blank + 1, text.size())))};
}

Note note_of(const Trial& trial) {
  return {.concurrency = trial.worker->concurrency, .shape = sha256_of(worker_shape(trial))};
}

Slots times(const Slots& slots, std::size_t concurrency) {
  Slots all = slots;
  all.cpus.nano *= static_cast<std::int64_t>(concurrency);
  all.memory.count *= static_cast<std::int64_t>(concurrency);
  return all;
}

Slots divided(const Slots& slots, std::size_t concurrency) {
  Slots one = slots;
  one.cpus.nano /= static_cast<std::int64_t>(concurrency);
  one.memory.count /= static_cast<std::int64_t>(concurrency);
  return one;
}

Trial container_of(const Trial& trial, std::string name, std::shared_ptr<const ProvidedProgram> program,
                   Staging staging) {
  Trial worker;
  worker.name = std::move(name);
  worker.image = trial.image;
  worker.platform = trial.platform;
  worker.pull = trial.pull;
  worker.process.entrypoint = {std::string(k_program), "worker", std::string(k_folder),
                               fmt::format("{}", std::max<long>(1, std::lround(trial.worker->idle.count()))),
                               to_text(note_of(trial))};
  worker.process.workdir = trial.process.workdir;
  worker.process.user = trial.process.user;
  worker.process.init = false;  // the agent is the first process
  worker.process.stop_signal = "SIGTERM";
  worker.container.volumes = trial.container.volumes;
  worker.container.networks = trial.container.networks;
  worker.container.shm_size = trial.container.shm_size;
  worker.container.docker = trial.container.docker;
  worker.container.kubernetes = trial.container.kubernetes;
  std::vector<Secret> secrets;
  std::ranges::copy_if(*trial.container.secrets, std::back_inserter(secrets), is_of_container);
  worker.container.secrets = std::move(secrets);
  pass_variables_as_files(worker);
  worker.container.provided = std::move(program);
  worker.healthcheck = Healthcheck{.test = {"NONE"}};
  worker.slots = times(trial.slots, trial.worker->concurrency);
  worker.gpus = trial.gpus;
  for (const Input& input : trial.inputs)
    if (!input.in_scratch) worker.inputs.push_back(input);
  if (staging == Staging::by_agent) worker.container.written_folders = written_folders(worker);
  worker.cache.on = true;  // start() then reports the image's digest, for the attempts of trials with `cache`
  worker.path = trial.path;
  return worker;
}

void pass_variables_as_files(Trial& container) {
  std::vector<Secret> secrets = *container.container.secrets;
  int number = 0;
  for (Secret& secret : secrets) {
    if (secret.variable.empty()) continue;
    secret.target = fmt::format("{}/{}", k_variables_folder, ++number);
    container.process.entrypoint->push_back(fmt::format("variable={}={}", secret.variable, secret.target));
    secret.variable.clear();
  }
  container.container.secrets = std::move(secrets);
}

std::uint64_t milliseconds_of(Seconds duration) {
  return static_cast<std::uint64_t>(std::chrono::ceil<std::chrono::milliseconds>(duration).count());
}

std::uint64_t log_max_of(const Trial& trial) {
  // If combu stores no log, it still needs the output for metrics, and the last lines of a failed attempt.
  const Bytes log_size_max = trial.log_size_max.count > 0 ? trial.log_size_max : Trial{}.log_size_max;
  return static_cast<std::uint64_t>(log_size_max.count);
}

std::vector<std::string> argv_of(const Trial& trial, const ImageProgram& image) {
  const Process& process = trial.process;
  std::vector<std::string> argv = process.entrypoint.value_or(image.entrypoint);
  // As in Docker, another entrypoint makes the image's command meaningless.
  const std::vector<std::string> rest =
      process.cmd.value_or(process.entrypoint ? std::vector<std::string>() : image.cmd);
  argv.insert(argv.end(), rest.begin(), rest.end());
  return argv;
}

void expect_program(const std::vector<std::string>& argv, const std::string& trial) {
  if (argv.empty())
    throw Error(ErrorKind::refused, trial, "neither `cmd` nor the image names a program; write `cmd`");
}

void prepare_image(Engine& engine, const Run& run, const Trial& trial, const std::stop_token& stop) {
  Run one = run;
  one.experiment.trials = {trial};
  one.experiment.trials.front().depends.clear();
  one.experiment.trials.front().pull = Pull::never;  // like start() of other engines
  const std::vector<Error> errors = engine.prepare(
      one, [](const Preparation&) {}, stop);
  if (!errors.empty()) throw Error(errors.front().kind(), trial.name, errors.front().message());
}

std::size_t count_max(const Trial& trial, const Slots& capacity) {
  const WorkerSettings& worker = *trial.worker;
  if (capacity.empty()) return worker.count > 0 ? worker.count : k_count_on_cluster;
  std::size_t count = std::numeric_limits<std::size_t>::max();
  if (worker.count > 0) count = worker.count;
  const auto fit = [&](std::int64_t there, std::int64_t needed) {
    if (needed > 0)
      count = std::min(count, static_cast<std::size_t>(std::max<std::int64_t>(there, 0) / needed));
  };
  const Slots needed = times(trial.slots, worker.concurrency);
  fit(capacity.cpus.nano, needed.cpus.nano);
  fit(capacity.memory.count, needed.memory.count);
  if (worker.count == 0 && trial.slots.empty() && trial.gpus->empty()) {
    constexpr std::int64_t k_nano = 1'000'000'000;
    count = static_cast<std::size_t>(std::max<std::int64_t>(capacity.cpus.nano / k_nano, 1));
  }
  return count;
}

std::vector<StartLimit> limits_of(const Experiment& experiment, const Slots& capacity) {
  std::vector<StartLimit> limits;
  std::unordered_map<std::string, std::size_t> by_shape;
  for (std::size_t i = 0; i < experiment.trials.size(); ++i) {
    const Trial& trial = experiment.trials[i];
    if (trial.has_own_container()) continue;
    const auto [at, is_new] = by_shape.try_emplace(worker_shape(trial), limits.size());
    if (is_new) {
      const std::size_t count = count_max(trial, capacity);
      const std::size_t concurrency = trial.worker->concurrency;
      constexpr std::size_t k_unlimited = std::numeric_limits<std::size_t>::max();
      limits.push_back({.attempts_max = count > k_unlimited / concurrency ? k_unlimited : count * concurrency,
                        .trials = {}});
    }
    limits[at->second].trials.push_back(i);
  }
  return limits;
}

}  // namespace workers
}  // namespace combu
