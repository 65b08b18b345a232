#include "workers/fleet.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "combu/inputs.hpp"
#include "workers/results_file.hpp"

namespace combu::workers {
namespace {

// A worker that holds slots ends after this time without attempts, because other attempts may need the slots.
constexpr std::chrono::milliseconds k_claim_idle{500};
constexpr std::chrono::milliseconds k_keeper_pause{200};
constexpr std::chrono::seconds k_ping_every{15};
// If an agent does not answer for this time although its container runs, the worker counts as lost.
constexpr std::chrono::seconds k_reconnect_max{30};
constexpr Seconds k_reconnect_pause_max{2};
constexpr std::size_t k_in_parallel = 8;
constexpr std::chrono::seconds k_end_max{10};
constexpr std::size_t k_start_max = agent::k_payload_max - 1024;
constexpr std::chrono::seconds k_retiring_max{2};
constexpr Seconds k_default_grace{10};  // the default of a Docker Engine

std::uint64_t milliseconds_of(Seconds duration) {
  return static_cast<std::uint64_t>(std::chrono::ceil<std::chrono::milliseconds>(duration).count());
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
  in_parallel(idle.size(), k_in_parallel, [&](std::size_t i) {
    try {
      (void)engine_.release({.run = idle[i]->key.run, .trials = {idle[i]->key.trial}}, {}, stop.get_token());
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the agent ends the worker after its idle time
    }
  });
}

// ---- Runs and images

void Fleet::adopt(const RunId& run) {
  const std::scoped_lock lock(mutex_);
  adopted_.insert(run);
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

// Returns the worker with the most free places.
Fleet::WorkerPtr Fleet::find_place(const Run& run, const Note& note) {
  WorkerPtr best;
  for (const auto& [key, worker] : workers_) {
    if (key.run != run.id || worker->note.shape != note.shape || !worker->has_place()) continue;
    if (!best || worker->alive() < best->alive()) best = worker;
  }
  return best;
}

Fleet::Found Fleet::add_attempt(const WorkerPtr& worker, const Key& key, const Slots& slots) {
  const auto attempt = std::make_shared<Attempt>();
  attempt->key = key;
  attempt->slots = slots;
  worker->attempts.insert_or_assign(id_of(key), attempt);
  ++worker->begun;
  return {worker, attempt};
}

std::variant<Fleet::Found, TakenByOther> Fleet::reserve(const Run& run, const Trial& trial, int attempt,
                                                        const std::stop_token& stop) {
  const Key key{.run = run.id, .trial = trial.name, .attempt = attempt};
  if (auto found = find(key)) {
    const std::scoped_lock lock(mutex_);
    if (found->attempt->state != Attempt::State::refused) return *found;
    found->worker->attempts.erase(id_of(key));
  }
  const Note note = note_of(trial);
  WorkerPtr created;
  {
    const std::scoped_lock lock(mutex_);
    if (const WorkerPtr worker = find_place(run, note)) return add_attempt(worker, key, trial.slots);
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
  const auto give_up = [&] {
    const std::scoped_lock lock(mutex_);
    created->state = Worker::State::over;
    // Other starts that have reserved a place in this worker look for another one.
    for (const auto& [id, one] : created->attempts) {
      one->state = Attempt::State::refused;
      one->changed.notify_all();
    }
    workers_.erase(created->key);
  };
  try {
    const StartResult result = create(created, run, trial, stop);
    if (const auto* taken = std::get_if<TakenByOther>(&result)) {
      give_up();
      return *taken;
    }
    connect(created, stop);
  } catch (...) {
    give_up();
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
    if (!end_idle(stop) && !await_end_of(taken->holder, stop)) break;
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

// Waits a moment for the end of `holder`, if it is a worker of this process with places that no attempt uses.
bool Fleet::await_end_of(const Observation& holder, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  const auto found = workers_.find(holder.key);
  if (found == workers_.end() || !found->second->is_own || found->second->note.concurrency == 1) return false;
  const WorkerPtr worker = found->second;
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
  for (const auto& [name, value] : process.env) message.env.push_back(name + "=" + value);
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
    const std::scoped_lock lock(mutex_);
    if (attempt->state == State::running || attempt->state == State::ended) return;
    worker->attempts.erase(id);
    worker->idle_since = Steady::now();
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
        if (attempt->state == State::reserved) worker->attempts.erase(id);
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
    } catch (
        const Error&) {  // NOLINT(bugprone-empty-catch): take_listed() forgets them after the next connection
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

// ---- Connections

void Fleet::connect(const WorkerPtr& worker, const std::stop_token& stop) {
  std::unique_ptr<ByteStream> stream =
      engine_.exec(worker->key, {std::string(k_program), "join", std::string(k_folder)}, stop);
  auto client = std::make_shared<AgentClient>(std::move(stream), worker->key.trial, events_of(worker));
  std::unique_lock lock(mutex_);
  std::shared_ptr<AgentClient> old = std::exchange(worker->client, client);
  for (const auto& [id, attempt] : worker->attempts) attempt->is_listed = false;
  // take_listed() sets the state `connected`.
  const auto is_settled = [&] {
    return worker->state == Worker::State::connected || worker->state == Worker::State::broken;
  };
  worker->state = Worker::State::creating;
  const bool is_in_time = changed_.wait_for(lock, stop, k_end_max, is_settled);
  const bool is_connected = worker->state == Worker::State::connected;
  if (!is_connected) worker->state = Worker::State::broken;
  lock.unlock();
  old.reset();
  if (is_connected) return;
  {
    const std::scoped_lock again(mutex_);
    if (worker->client == client) worker->client = nullptr;
  }
  client.reset();  // joins its thread, without the lock
  throw Error(stop.stop_requested() ? ErrorKind::cancelled : ErrorKind::unavailable, worker->key.trial,
              is_in_time ? "the agent of the worker has closed the connection"
                         : "the agent of the worker does not answer");
}

AgentEvents Fleet::events_of(const WorkerPtr& worker) {
  const std::weak_ptr<Worker> weak = worker;
  const auto locked = [this, weak](const auto& body) {
    const WorkerPtr it = weak.lock();
    if (!it) return;
    const std::scoped_lock lock(mutex_);
    body(*it);
  };
  return {
      .on_welcome =
          [=, this](agent::Welcome&& welcome) { locked([&](Worker& it) { take_welcome(it, welcome); }); },
      .on_started =
          [=, this](agent::Started&& started) { locked([&](Worker& it) { take_started(it, started); }); },
      .on_refused =
          [=, this](agent::Refused&& refused) { locked([&](Worker& it) { take_refused(it, refused); }); },
      .on_ended =
          [=, this](agent::Ended&& ended) { locked([&](Worker& it) { take_ended(it, std::move(ended)); }); },
      .on_listed =
          [=, this] {
            locked([&](Worker& it) { take_listed(it); });
            changed_.notify_all();
          },
      .on_broken =
          [=, this](const std::string& /*why*/) {
            const WorkerPtr it = weak.lock();
            if (!it) return;
            {
              const std::scoped_lock lock(mutex_);
              if (it->state == Worker::State::over) return;
              const bool was_connected = it->state == Worker::State::connected;
              it->state = Worker::State::broken;
              if (was_connected)
                reconnections_.push_back(
                    {.worker = it, .at = Steady::now(), .give_up_at = Steady::now() + k_reconnect_max});
            }
            changed_.notify_all();
          }};
}

void Fleet::take_welcome(Worker& worker, const agent::Welcome& welcome) {
  if (!worker.boot.empty() && worker.boot != welcome.boot)
    for (const auto& [id, attempt] : worker.attempts)
      if (attempt->is_alive() && attempt->state != Attempt::State::reserved)
        lose(worker, *attempt, "its worker was restarted");
  worker.boot = welcome.boot;
  if (!welcome.note.empty()) worker.note = parse_note(welcome.note);
}

Attempt* Fleet::attempt_of(Worker& worker, const std::string& id) {
  const auto found = worker.attempts.find(id);
  if (found != worker.attempts.end()) return found->second.get();
  const auto key = key_of(worker.key.run, id);
  if (!key) return nullptr;
  const Found added =
      add_attempt(worker.shared_from_this(), *key, divided(worker.slots, worker.note.concurrency));
  return added.attempt.get();
}

void Fleet::take_started(Worker& worker, const agent::Started& started) {
  Attempt* attempt = attempt_of(worker, started.id);
  if (attempt == nullptr) return;
  attempt->is_listed = true;
  attempt->began_at = instant_of(started.at);
  attempt->spawn = std::chrono::nanoseconds(started.spawn_ns);
  attempt->scratch = started.scratch;
  if (attempt->state == Attempt::State::running || attempt->state == Attempt::State::ended) return;
  attempt->state = Attempt::State::running;
  attempt->changed.notify_all();
  publish(worker, *attempt);
}

void Fleet::take_refused(Worker& worker, const agent::Refused& refused) {
  const auto found = worker.attempts.find(refused.id);
  if (found == worker.attempts.end()) return;
  found->second->refused = refused;
  found->second->state = Attempt::State::refused;
  found->second->changed.notify_all();
}

void Fleet::take_ended(Worker& worker, agent::Ended&& ended) {
  Attempt* attempt = attempt_of(worker, ended.id);
  if (attempt == nullptr) return;
  attempt->is_listed = true;
  if (attempt->state == Attempt::State::ended) return;
  attempt->ended = std::move(ended);
  attempt->state = Attempt::State::ended;
  attempt->changed.notify_all();
  publish(worker, *attempt);
}

void Fleet::take_listed(Worker& worker) {
  for (const auto& [id, attempt] : worker.attempts) {
    if (attempt->is_listed) continue;
    if (attempt->state == Attempt::State::running)
      lose(worker, *attempt, "its worker does not know it any more");
    if (attempt->state == Attempt::State::sent) {
      attempt->state = Attempt::State::reserved;
      attempt->changed.notify_all();
    }
  }
  worker.state = Worker::State::connected;
  for (const auto& [id, attempt] : worker.attempts) attempt->changed.notify_all();
}

void Fleet::lose(Worker& worker, Attempt& attempt, const std::string& why) {
  attempt.lost = why;
  attempt.lost_at = real_clock().now();
  attempt.state = Attempt::State::ended;
  attempt.changed.notify_all();
  publish(worker, attempt);
}

void Fleet::publish(const Worker& worker, const Attempt& attempt) {
  const Observation seen = observation_of(worker, attempt);
  for (Subscription* subscription : subscriptions_) subscription->push_selected(seen);
}

void Fleet::subscribe(Subscription& subscription) {
  const std::scoped_lock lock(mutex_);
  subscriptions_.push_back(&subscription);
}

void Fleet::unsubscribe(Subscription& subscription) {
  const std::scoped_lock lock(mutex_);
  std::erase(subscriptions_, &subscription);
}

// ---- Workers

void Fleet::discover(const std::vector<Observation>& containers, const std::stop_token& stop) {
  std::vector<std::pair<WorkerPtr, const Observation*>> fresh;
  {
    const std::scoped_lock lock(mutex_);
    for (const Observation& container : containers) {
      std::size_t& last = last_number_[container.key.run];
      last = std::max(last, number_of_worker(container.key.run, container.key.trial).value_or(0));
      const auto [at, is_new] = workers_.try_emplace(container.key);
      if (!is_new) continue;
      at->second = std::make_shared<Worker>();
      Worker& worker = *at->second;
      worker.key = container.key;
      worker.experiment = container.experiment;
      worker.file = container.file;
      worker.image = container.image;
      worker.id = container.id;
      worker.slots = container.slots;
      worker.is_own = adopted_.contains(container.key.run);
      fresh.emplace_back(at->second, &container);
    }
  }
  in_parallel(fresh.size(), k_in_parallel, [&](std::size_t i) {
    const auto& [worker, container] = fresh[i];
    try {
      if (container->phase == Phase::running) return connect(worker, stop);
      end_attempts(worker, "its worker has ended", stop);
    } catch (const Error& error) {
      const std::scoped_lock lock(mutex_);
      workers_.erase(worker->key);
      if (error.kind() != ErrorKind::conflict && error.kind() != ErrorKind::not_found) throw;
    }
  });
}

void Fleet::sync(const std::vector<Observation>& containers, const std::stop_token& stop) {
  std::vector<std::shared_ptr<AgentClient>> clients;
  {
    const std::scoped_lock lock(mutex_);
    for (const Observation& container : containers) {
      const auto found = workers_.find(container.key);
      if (found != workers_.end() && found->second->state == Worker::State::connected)
        clients.push_back(found->second->client);
    }
  }
  for (const std::shared_ptr<AgentClient>& client : clients) {
    try {
      client->sync(stop);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unavailable) throw;
    }
  }
}

std::vector<Observation> Fleet::attempts() {
  const std::scoped_lock lock(mutex_);
  std::vector<Observation> seen;
  for (const auto& [key, worker] : workers_)
    for (const auto& [id, attempt] : worker->attempts)
      if (attempt->state == Attempt::State::running || attempt->state == Attempt::State::ended)
        seen.push_back(observation_of(*worker, *attempt));
  return seen;
}

void Fleet::see(const Observation& container) {
  if (container.phase != Phase::ended && container.phase != Phase::gone) return;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = workers_.find(container.key);
    if (found == workers_.end() || found->second->state == Worker::State::over) return;
    // The next try to connect finds that the container has ended.
    reconnections_.push_back({.worker = found->second, .at = Steady::now(), .give_up_at = Steady::now()});
  }
  changed_.notify_all();
}

bool Fleet::end_idle(const std::stop_token& stop) {
  WorkerPtr idle;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [key, worker] : workers_)
      if (worker->is_own && worker->state == Worker::State::connected && worker->attempts.empty() &&
          !worker->slots.empty())
        idle = worker;
    if (idle) idle->state = Worker::State::over;
  }
  if (idle) remove(idle, stop);
  return idle != nullptr;
}

// Ends the worker's container. The state of the worker must be `over`.
void Fleet::remove(const WorkerPtr& worker, const std::stop_token& stop) {
  std::shared_ptr<AgentClient> client;
  {
    const std::scoped_lock lock(mutex_);
    client = std::exchange(worker->client, nullptr);
  }
  client.reset();
  (void)engine_.release({.run = worker->key.run, .trials = {worker->key.trial}}, {}, stop);
  {
    const std::scoped_lock lock(mutex_);
    workers_.erase(worker->key);
  }
  changed_.notify_all();
}

void Fleet::forget_worker(const Key& key) {
  std::shared_ptr<AgentClient> client;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = workers_.find(key);
    if (found == workers_.end()) return;
    const WorkerPtr worker = found->second;
    worker->state = Worker::State::over;
    client = std::exchange(worker->client, nullptr);
    for (const auto& [id, attempt] : std::exchange(worker->attempts, {})) drop(*worker, *attempt);
    workers_.erase(key);
  }
  changed_.notify_all();
}

// Reports that the attempt was removed.
void Fleet::drop(const Worker& worker, Attempt& attempt) {
  Observation seen = observation_of(worker, attempt);
  seen.phase = Phase::gone;
  if (attempt.is_alive()) attempt.state = Attempt::State::refused;
  attempt.changed.notify_all();
  for (Subscription* subscription : subscriptions_) subscription->push_selected(seen);
}

void Fleet::remove_attempts(const std::vector<Key>& keys, const std::stop_token& stop) {
  std::map<WorkerPtr, std::vector<std::string>> by_worker;
  {
    const std::scoped_lock lock(mutex_);
    for (const Key& key : keys)
      for (const auto& [worker_key, worker] : workers_) {
        if (worker_key.run != key.run) continue;
        auto found = worker->attempts.extract(id_of(key));
        if (found.empty()) continue;
        drop(*worker, *found.mapped());
        worker->idle_since = Steady::now();
        by_worker[worker].push_back(id_of(key));
      }
  }
  for (auto& [worker, ids] : by_worker)
    if (const auto client = client_of(worker, stop)) {
      client->send(agent::Forget{.ids = std::move(ids)});
      client->sync(stop);
    }
}

std::vector<Key> Fleet::without_attempts(const std::set<RunId>& runs) {
  const std::scoped_lock lock(mutex_);
  std::vector<Key> keys;
  for (const auto& [key, worker] : workers_)
    if (runs.contains(key.run) && worker->attempts.empty()) keys.push_back(key);
  return keys;
}

// ---- Workers that have ended

// Reads the results that the agent has left, and counts all other attempts as lost.
void Fleet::end_attempts(const WorkerPtr& worker, const std::string& why, const std::stop_token& stop) {
  {
    const std::scoped_lock lock(mutex_);
    worker->state = Worker::State::over;
  }
  try {
    read_results(worker, stop);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::cancelled) throw;
  }
  const std::scoped_lock lock(mutex_);
  for (const auto& [id, attempt] : worker->attempts) {
    if (attempt->state == Attempt::State::reserved) {
      attempt->state = Attempt::State::refused;
      attempt->changed.notify_all();
    } else if (attempt->is_alive()) {
      lose(*worker, *attempt, why);
    }
  }
}

void Fleet::read_results(const WorkerPtr& worker, const std::stop_token& stop) {
  for (Result& result : results_of(engine_, worker->key, fmt::format("{}/results", k_folder), stop)) {
    const std::scoped_lock lock(mutex_);
    take_started(*worker, result.started);
    const std::string id = result.ended.id;
    take_ended(*worker, std::move(result.ended));
    const auto found = worker->attempts.find(id);
    if (found != worker->attempts.end()) found->second->log = std::move(result.log);
  }
}

// ---- The keeper

void Fleet::keep(const std::stop_token& quit) {
  Steady::time_point pinged = Steady::now();
  while (!quit.stop_requested()) {
    std::optional<Reconnection> task;
    std::vector<std::shared_ptr<AgentClient>> to_ping;
    std::vector<WorkerPtr> ending;
    {
      std::unique_lock lock(mutex_);
      const auto now = Steady::now();
      const auto due = std::ranges::find_if(reconnections_, [&](const auto& one) { return one.at <= now; });
      if (due != reconnections_.end()) {
        task = std::move(*due);
        reconnections_.erase(due);
      } else {
        ending = to_end(now);
        if (now - pinged > k_ping_every) {
          pinged = now;
          for (const auto& [key, worker] : workers_)
            if (worker->state == Worker::State::connected) to_ping.push_back(worker->client);
        }
        if (ending.empty() && to_ping.empty()) {
          if (workers_.empty()) {
            changed_.wait(lock, quit, [&] { return !workers_.empty() || !reconnections_.empty(); });
          } else {
            changed_.wait_for(lock, quit, k_keeper_pause, [&] {
              return std::ranges::any_of(reconnections_,
                                         [&](const auto& one) { return one.at <= Steady::now(); });
            });
          }
          continue;
        }
      }
    }
    try {
      for (const auto& client : to_ping) client->send(agent::Ping{});
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): on_broken() handles it
    }
    to_ping.clear();
    if (task) reconnect(*task, quit);
    for (const WorkerPtr& worker : ending) {
      try {
        remove(worker, quit);
      } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the agent ends the worker after its idle time
      }
    }
  }
}

// Returns the workers that have to end, and sets their state.
std::vector<Fleet::WorkerPtr> Fleet::to_end(Steady::time_point now) {
  std::vector<WorkerPtr> ending;
  for (const auto& [key, worker] : workers_) {
    if (worker->state == Worker::State::over && worker->is_own && worker->attempts.empty())
      ending.push_back(worker);
    if (worker->state != Worker::State::connected || !worker->is_own) continue;
    const combu::Worker& limits = worker->limits;
    if ((limits.trials_max > 0 && worker->begun >= limits.trials_max) ||
        (limits.age_max > Seconds(0) && now - worker->created_at >= limits.age_max))
      worker->is_retiring = true;
    if (!worker->attempts.empty()) continue;
    const bool gives_up_claim = !worker->slots.empty() && now - worker->idle_since >= k_claim_idle;
    if (!worker->is_retiring && !gives_up_claim && now - worker->idle_since < limits.idle) continue;
    worker->state = Worker::State::over;
    ending.push_back(worker);
  }
  return ending;
}

// Connects again, or finds out that the worker has ended.
void Fleet::reconnect(Reconnection& task, const std::stop_token& quit) {
  const WorkerPtr& worker = task.worker;
  {
    const std::scoped_lock lock(mutex_);
    if (worker->state == Worker::State::over) return;
  }
  try {
    const std::vector<Observation> listed =
        engine_.list({.run = worker->key.run, .trials = {worker->key.trial}}, ListDetail::full, quit);
    if (listed.empty()) return end_attempts(worker, "its worker was removed", quit);
    const Observation& container = listed.front();
    if (container.phase != Phase::running) {
      const std::string code = container.exit_code ? fmt::format("exit code {}", *container.exit_code) : "";
      return end_attempts(worker,
                          fmt::format("its worker ended{}{}", container.oom ? ": out of memory" : "",
                                      code.empty() ? "" : " (" + code + ")"),
                          quit);
    }
    {
      const std::scoped_lock lock(mutex_);
      if (worker->state == Worker::State::connected) return;
    }
    return connect(worker, quit);
  } catch (const Error& error) {
    if (quit.stop_requested()) return;
    const bool is_engine_there = error.kind() != ErrorKind::unavailable && error.kind() != ErrorKind::timeout;
    if (is_engine_there && Steady::now() >= task.give_up_at) {
      end_attempts(worker, fmt::format("the agent of its worker does not answer: {}", error.message()), quit);
      return;
    }
  }
  task.pause = std::min(task.pause * 2, k_reconnect_pause_max);
  task.at = Steady::now() + std::chrono::duration_cast<Steady::duration>(task.pause);
  const std::scoped_lock lock(mutex_);
  reconnections_.push_back(std::move(task));
}

}  // namespace combu::workers
