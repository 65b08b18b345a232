#include "workers/fleet.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "combu/inputs.hpp"

namespace combu::workers {
namespace {

constexpr std::size_t k_ends_in_parallel = 8;
constexpr std::chrono::seconds k_end_max{10};
constexpr std::size_t k_start_max = agent::k_payload_max - 1024;
constexpr std::chrono::seconds k_retiring_max{2};
constexpr Seconds k_default_grace{10};  // the default of a Docker Engine
// While other attempts of the worker use up all processes or all space, or their files are not removed yet,
// combu repeats a start for this time.
constexpr std::chrono::seconds k_short_of_resources_max{30};
constexpr std::chrono::milliseconds k_short_of_resources_pause{200};

std::uint64_t milliseconds_of(Seconds duration) {
  return static_cast<std::uint64_t>(std::chrono::ceil<std::chrono::milliseconds>(duration).count());
}

// True if the agent could not start the attempt because the container has no more processes, memory or space.
bool is_short_of_resources(const agent::Refused& refused) {
  return (refused.stage == agent::Refused::process || refused.stage == agent::Refused::scratch) &&
         (refused.code == EAGAIN || refused.code == ENOMEM || refused.code == ENOSPC);
}

}  // namespace

Fleet::Fleet(Engine& engine, AgentPrograms programs) : engine_(engine), programs_(std::move(programs)) {
  keeper_ = std::jthread([this](const std::stop_token& quit) { keep(quit); });
}

Fleet::~Fleet() {
  keeper_.request_stop();
  changed_.notify_all();
  keeper_.join();
  std::vector<WorkerPtr> idle;
  std::vector<std::shared_ptr<AgentClient>> clients;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [key, worker] : workers_) {
      if (worker->client) clients.push_back(std::exchange(worker->client, nullptr));
      if (worker->is_own && worker->attempts.empty() && worker->state != Worker::State::creating)
        idle.push_back(worker);
    }
  }
  clients.clear();  // joins their threads
  std::stop_source stop;
  const std::jthread timer([&stop](const std::stop_token& quit) {
    real_clock().wait(k_end_max, quit);
    stop.request_stop();
  });
  in_parallel(idle.size(), k_ends_in_parallel, [&](std::size_t i) {
    // If this fails, the agent ends the worker after its idle time.
    (void)try_remove_container(*idle[i], stop.get_token());
  });
}

// ---- Runs and images

void Fleet::adopt(const RunId& run) {
  const std::scoped_lock lock(mutex_);
  if (!adopted_.insert(run).second) return;
  // The process may have listed the workers of the run before.
  for (const auto& [key, worker] : workers_)
    if (key.run == run) worker->is_own = true;
}

bool Fleet::is_adopted(const RunId& run) {
  const std::scoped_lock lock(mutex_);
  return adopted_.contains(run);
}

void Fleet::set_program(const std::string& image, const std::string& platform, const ImageProgram& program) {
  const std::scoped_lock lock(mutex_);
  images_.insert_or_assign({image, platform}, program);
}

std::optional<ImageProgram> Fleet::program_of(const Trial& trial) {
  const std::scoped_lock lock(mutex_);
  const auto found = images_.find({trial.image, trial.platform});
  return found == images_.end() ? std::nullopt : std::optional(found->second);
}

std::shared_ptr<const ProvidedProgram> Fleet::provided(const Trial& trial) {
  const auto program = program_of(trial);
  const std::string platform = program ? program->platform : trial.platform;
  const std::scoped_lock lock(mutex_);
  auto& provided = provided_[platform];
  if (!provided)
    provided = std::make_shared<ProvidedProgram>(ProvidedProgram{.path = std::string(k_program),
                                                                 .content = std::string(programs_(platform)),
                                                                 .folder = std::string(k_writable)});
  return provided;
}

// ---- Attempts

std::optional<Fleet::Found> Fleet::find(const Key& key) {
  const std::scoped_lock lock(mutex_);
  const std::string id = id_of(key);
  for (const auto& [worker_key, worker] : workers_) {
    if (worker_key.run != key.run) continue;
    const auto found = worker->attempts.find(id);
    if (found != worker->attempts.end()) return Found{worker, found->second};
  }
  return std::nullopt;
}

std::optional<Fleet::Found> Fleet::find_by_id(const std::string& id) {
  const std::scoped_lock lock(mutex_);
  const std::size_t slash = id.find('/');
  if (slash == std::string::npos) return std::nullopt;
  for (const auto& [key, worker] : workers_) {
    if (id.compare(0, slash, worker->id) != 0) continue;
    const auto found = worker->attempts.find(id.substr(slash + 1));
    if (found != worker->attempts.end()) return Found{worker, found->second};
  }
  return std::nullopt;
}

bool Fleet::is_alive(const Found& found) {
  const std::scoped_lock lock(mutex_);
  return found.attempt->is_alive();
}

// Returns the worker with the most free places.
Fleet::WorkerPtr Fleet::find_place(const Run& run, const Trial& trial, const Note& note) {
  WorkerPtr best;
  for (const auto& [key, worker] : workers_) {
    if (key.run != run.id || worker->note.shape != note.shape) continue;
    worker->limits = *trial.worker;  // another process may have created the worker
    if (!worker->has_place()) continue;
    if (!best || worker->alive() < best->alive()) best = worker;
  }
  return best;
}

Fleet::Found Fleet::add_attempt(const WorkerPtr& worker, const Key& key, const Slots& slots) {
  const auto attempt = std::make_shared<Attempt>();
  attempt->key = key;
  attempt->slots = slots;
  worker->attempts.insert_or_assign(id_of(key), attempt);
  worker->places.push_back(attempt);
  worker->forgotten.erase(id_of(key));
  worker->forgotten_before.erase(id_of(key));
  ++worker->begun;
  return {worker, attempt};
}

// Removes the earlier attempts of a trial, which have ended. Throws Error(conflict) if one of them runs.
void Fleet::remove_earlier(const Key& key, const std::stop_token& stop) {
  if (key.attempt <= 1) return;
  std::vector<Key> earlier;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [worker_key, worker] : workers_) {
      if (worker_key.run != key.run) continue;
      for (const auto& [id, attempt] : worker->attempts) {
        if (attempt->key.trial != key.trial || attempt->key.attempt >= key.attempt) continue;
        if (attempt->state == Attempt::State::sent || attempt->state == Attempt::State::running)
          throw Error(ErrorKind::conflict, key.trial,
                      fmt::format("attempt {} of the trial still runs", attempt->key.attempt));
        if (attempt->state == Attempt::State::ended) earlier.push_back(attempt->key);
      }
    }
  }
  if (!earlier.empty()) remove_attempts(earlier, stop);
}

std::variant<Fleet::Found, TakenByOther> Fleet::reserve(const Run& run, const Trial& trial, int attempt,
                                                        const std::stop_token& stop) {
  const Key key{.run = run.id, .trial = trial.name, .attempt = attempt};
  if (auto found = find(key)) {
    const std::scoped_lock lock(mutex_);
    if (found->attempt->state != Attempt::State::refused) return *found;
    found->worker->attempts.erase(id_of(key));
  }
  remove_earlier(key, stop);
  const Note note = note_of(trial);
  WorkerPtr created;
  {
    const std::scoped_lock lock(mutex_);
    if (const WorkerPtr worker = find_place(run, trial, note)) return add_attempt(worker, key, trial.slots);
    created = std::make_shared<Worker>();
    created->key = {.run = run.id, .trial = worker_name(run.id, ++last_number_[run.id]), .attempt = 1};
    created->experiment = run.experiment.name;
    created->file = run.experiment.file;
    created->image = trial.image;
    created->note = note;
    created->limits = *trial.worker;
    created->is_own = true;
    workers_.emplace(created->key, created);
    add_attempt(created, key, trial.slots);
  }
  // Other starts that have reserved a place in this worker look for another one.
  const auto refuse_all = [&] {
    created->state = Worker::State::over;
    for (const auto& [id, one] : std::exchange(created->attempts, {})) {
      one->state = Attempt::State::refused;
      one->changed.notify_all();
    }
  };
  try {
    const StartResult result = create(created, run, trial, stop);
    if (const auto* taken = std::get_if<TakenByOther>(&result)) {
      const std::scoped_lock lock(mutex_);
      refuse_all();
      workers_.erase(created->key);
      return *taken;
    }
    try {
      connect(created, stop);
    } catch (const Error&) {
      (void)try_remove_container(*created,
                                 {});  // not `stop`: the container must not stay after a cancellation
      throw;
    }
  } catch (...) {
    // The container may exist. The keeper removes the worker, because its state is `over`.
    {
      const std::scoped_lock lock(mutex_);
      refuse_all();
    }
    changed_.notify_all();
    throw;
  }
  const std::scoped_lock lock(mutex_);
  return Found{created, created->attempts.at(id_of(key))};
}

StartResult Fleet::create(const WorkerPtr& worker, const Run& run, const Trial& trial,
                          const std::stop_token& stop) {
  const Trial container = container_of(trial, worker->key.trial, provided(trial));
  StartResult result = engine_.start(run, container, 1, stop);
  while (const auto* taken = std::get_if<TakenByOther>(&result)) {
    if (!free_slots(taken->holder, stop)) break;
    result = engine_.start(run, container, 1, stop);
  }
  if (const auto* running = std::get_if<Running>(&result)) {
    const std::scoped_lock lock(mutex_);
    worker->id = running->observation.id;
    worker->slots = container.slots;
    worker->input_digests = running->observation.inputs;
  }
  return result;
}

bool Fleet::free_slots(const Observation& holder, const std::stop_token& stop) {
  return end_idle(stop) || await_end_of(holder, stop);
}

// Waits a moment for the end of `holder`, if it is a worker of this process with places that no attempt uses.
bool Fleet::await_end_of(const Observation& holder, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  const auto found = workers_.find(holder.key);
  if (found == workers_.end() || !found->second->is_own) return false;
  const WorkerPtr worker = found->second;
  if (worker->alive() >= worker->note.concurrency) return false;
  worker->is_retiring = true;
  const auto is_over = [&] { return !workers_.contains(worker->key); };
  return changed_.wait_for(lock, stop, k_retiring_max, is_over);
}

agent::Start Fleet::start_message(const Trial& trial, const Key& key) {
  const auto image = program_of(trial);
  const Process& process = trial.process;
  agent::Start message{.id = id_of(key), .argv = argv_of(trial, image.value_or(ImageProgram{}))};
  if (message.argv.empty())
    throw Error(ErrorKind::refused, trial.name, "neither `cmd` nor the image names a program; write `cmd`");
  for (const auto& [name, value] : process.env) message.env.push_back(fmt::format("{}={}", name, value));
  if (trial.params_file)
    message.files.push_back({.name = "params.json", .content = trial.params.empty() ? "{}" : trial.params});
  message.timeout_ms = milliseconds_of(trial.timeout);
  message.grace_ms = milliseconds_of(process.stop_grace.value_or(k_default_grace));
  message.stop_signal = static_cast<std::uint8_t>(
      signal_number(process.stop_signal.empty() && image ? image->stop_signal : process.stop_signal));
  message.log_max = static_cast<std::uint64_t>(trial.log_size_max.count);
  message.awaits_inputs = std::ranges::any_of(trial.inputs, &Input::in_scratch) ? 1 : 0;
  std::string frame;
  agent::append(frame, message);
  if (frame.size() > k_start_max)
    throw Error(ErrorKind::refused, trial.name,
                "`cmd`, `env` and `params` together are larger than 1 MiB; pass large values as `inputs`");
  return message;
}

// Sends the start, and then the inputs in the scratch folder. `digests` receives the digests of the inputs.
// If the connection ends, returns: the start is sent again after the next connection.
void Fleet::send_start(AgentClient& client, const agent::Start& message, const Trial& trial,
                       std::vector<std::string>& digests, const std::stop_token& stop) {
  try {
    client.send(message);
    if (message.awaits_inputs == 0) return;
    std::vector<Input> inputs;
    std::ranges::copy_if(trial.inputs, std::back_inserter(inputs), &Input::in_scratch);
    const auto put = [&](std::string_view bytes) {
      for (std::size_t at = 0; at < bytes.size(); at += agent::k_part_max)
        client.send(agent::Put{.id = message.id, .bytes = std::string(bytes.substr(at, agent::k_part_max))});
      return !stop.stop_requested();
    };
    digests = pack_inputs(inputs, input_owner(trial), put).value_or(std::vector<std::string>());
    client.send(agent::Put{.id = message.id, .bytes = {}, .is_last = 1});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unavailable) throw;
  }
}

std::optional<Observation> Fleet::start(const Found& place, const Trial& trial, const std::stop_token& stop) {
  using State = Attempt::State;
  const auto& [worker, attempt] = place;
  const auto asked = Steady::now();
  const std::string id = id_of(attempt->key);
  const auto give_up_place = [&] {
    std::shared_ptr<AgentClient> client;
    {
      const std::scoped_lock lock(mutex_);
      if (attempt->state == State::running || attempt->state == State::ended) return;
      if (attempt->state == State::sent) client = worker->client;  // the attempt waits for its inputs
      attempt->state = State::refused;
      worker->attempts.erase(id);
      worker->idle_since = Steady::now();
    }
    try {
      if (client) client->send(agent::Forget{.ids = {id}});
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the agent drops it at the end of the connection
    }
  };
  std::vector<std::string> digests;
  try {
    const agent::Start message = start_message(trial, attempt->key);
    std::unique_lock lock(mutex_);
    while (attempt->state != State::running && attempt->state != State::ended) {
      if (attempt->state == State::refused && !attempt->refused) {
        worker->attempts.erase(id);
        return std::nullopt;
      }
      if (attempt->state == State::refused && is_short_of_resources(*attempt->refused) &&
          worker->attempts.size() > 1 && Steady::now() - asked < k_short_of_resources_max) {
        attempt->refused.reset();
        attempt->state = State::reserved;
        std::erase(worker->places, attempt);
        worker->places.push_back(attempt);
        changed_.wait_for(lock, stop, k_short_of_resources_pause, [] { return false; });
        continue;
      }
      if (attempt->state == State::refused)
        throw Error(ErrorKind::refused, trial.name, reason_of(*attempt->refused, message.argv));
      const bool may_send = attempt->state == State::reserved && worker->state == Worker::State::connected;
      if (may_send) {
        attempt->state = State::sent;
        const std::shared_ptr<AgentClient> client = worker->client;
        lock.unlock();
        send_start(*client, message, trial, digests, stop);
        lock.lock();
        continue;
      }
      const auto has_changed = [&] {
        return attempt->state != State::sent &&
               (attempt->state != State::reserved || worker->state == Worker::State::connected);
      };
      if (!attempt->changed.wait(lock, stop, has_changed)) {
        // If the start is sent, the attempt may run, and the caller stops it.
        if (attempt->state == State::reserved) {
          attempt->state = State::refused;
          worker->attempts.erase(id);
        }
        throw Error(ErrorKind::cancelled, trial.name, "cancelled");
      }
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::cancelled) give_up_place();
    throw;
  }
  const std::scoped_lock lock(mutex_);
  Observation seen = observation_of(*worker, *attempt);
  std::size_t next = 0;
  std::size_t next_own = 0;
  for (const Input& input : trial.inputs) {
    const std::vector<std::string>& from = input.in_scratch ? digests : worker->input_digests;
    std::size_t& at = input.in_scratch ? next : next_own;
    if (at < from.size()) seen.inputs.push_back(from[at++]);
  }
  seen.created_in = std::max(Seconds(0), Seconds(Steady::now() - asked) - attempt->spawn);
  return seen;
}

void Fleet::stop(const Found& found, std::optional<Seconds> grace, const std::stop_token& stop) {
  const auto& [worker, attempt] = found;
  while (true) {
    const std::shared_ptr<AgentClient> client = client_of(worker, stop);
    if (!client) return;
    try {
      client->send(agent::Stop{.id = id_of(attempt->key),
                               .grace_ms = grace ? static_cast<std::int64_t>(grace->count() * 1000) : -1});
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unavailable) throw;
      real_clock().wait(Seconds(0.1), stop);
      continue;
    }
    std::unique_lock lock(mutex_);
    const auto is_settled = [&] { return !attempt->is_alive() || worker->client != client; };
    if (!attempt->changed.wait(lock, stop, is_settled))
      throw Error(ErrorKind::cancelled, attempt->key.trial, "cancelled");
    if (!attempt->is_alive()) return;
  }
}

void Fleet::acknowledge(const std::vector<Key>& keys) {
  std::map<WorkerPtr, std::vector<std::string>> by_worker;
  {
    const std::scoped_lock lock(mutex_);
    for (const Key& key : keys) {
      const std::string id = id_of(key);
      for (const auto& [worker_key, worker] : workers_) {
        if (worker_key.run != key.run) continue;
        const auto found = worker->attempts.find(id);
        if (found == worker->attempts.end() || found->second->is_alive()) continue;
        worker->attempts.erase(found);
        worker->forgotten.insert(id);
        worker->idle_since = Steady::now();
        by_worker[worker].push_back(id);
        break;
      }
    }
  }
  for (auto& [worker, ids] : by_worker) {
    std::shared_ptr<AgentClient> client;
    {
      const std::scoped_lock lock(mutex_);
      client = worker->client;
    }
    try {
      if (client) client->send(agent::Forget{.ids = std::move(ids)});
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the keeper sends it again
    }
  }
}

std::optional<std::vector<agent::LogChunk>> Fleet::whole_log(const Found& found) {
  const std::scoped_lock lock(mutex_);
  const Attempt& attempt = *found.attempt;
  if (!attempt.log.empty()) return attempt.log;
  if (attempt.ended && (attempt.ended->flags & agent::Ended::log_is_whole) != 0) return attempt.ended->log;
  return std::nullopt;
}

std::shared_ptr<AgentClient> Fleet::client_of(const WorkerPtr& worker, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  const auto is_settled = [&] {
    return worker->state == Worker::State::connected || worker->state == Worker::State::over;
  };
  if (!changed_.wait(lock, stop, is_settled))
    throw Error(ErrorKind::cancelled, worker->key.trial, "cancelled");
  return worker->state == Worker::State::connected ? worker->client : nullptr;
}

}  // namespace combu::workers
