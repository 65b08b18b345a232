#include "workers/assigned_attempt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "combu/inputs.hpp"
#include "workers/worker.hpp"

namespace combu::workers {
namespace {

constexpr std::chrono::seconds k_start_answer_max{2};
// While other attempts of the worker use up all processes or all space, or their files are not removed yet,
// combu repeats a start for this time.
constexpr std::chrono::seconds k_short_of_resources_max{30};
constexpr std::chrono::milliseconds k_short_of_resources_pause{200};

// True if the agent could not start the attempt because the container has no more processes, memory or space.
bool is_short_of_resources(const agent::Refused& refused) {
  return (refused.stage == agent::Refused::process || refused.stage == agent::Refused::scratch) &&
         (refused.code == EAGAIN || refused.code == ENOMEM || refused.code == ENOSPC);
}

agent::Start start_message(const Run& run, const Trial& trial, const Key& key,
                           const std::optional<ImageProgram>& image) {
  const Process& process = trial.process;
  agent::Start message{.id = id_of(key), .argv = argv_of(trial, image.value_or(ImageProgram{}))};
  expect_program(message.argv, trial.name);
  for (const auto& [name, value] : process.env) message.env.push_back(fmt::format("{}={}", name, value));
  for (const auto& [name, value] : reveal_secrets(run, trial).variables)
    message.env.push_back(fmt::format("{}={}", name, value));
  if (trial.params_file)
    message.files.push_back({.name = "params.json", .content = trial.params.empty() ? "{}" : trial.params});
  message.timeout_ms = milliseconds_of(trial.timeout);
  message.grace_ms = milliseconds_of(process.stop_grace.value_or(k_default_grace));
  message.stop_signal = static_cast<std::uint8_t>(
      signal_number(process.stop_signal.empty() && image ? image->stop_signal : process.stop_signal));
  message.log_max = log_max_of(trial);
  message.awaits_inputs = std::ranges::any_of(trial.inputs, &Input::in_scratch) ? 1 : 0;
  check_size(message, trial.name);
  return message;
}

// Sends the start, and then the inputs in the scratch folder. `digests` receives the digests of the inputs.
// Returns false if `stop` was set before all inputs were sent, so that the attempt waits for them. If the
// connection ends, returns true: the start is sent again after the next connection.
bool send_start(AgentClient& client, const agent::Start& message, const Trial& trial,
                std::vector<std::string>& digests, const std::stop_token& stop) {
  try {
    client.send(message);
    if (message.awaits_inputs == 0) return true;
    std::vector<Input> inputs;
    std::ranges::copy_if(trial.inputs, std::back_inserter(inputs), &Input::in_scratch);
    const auto put = [&](std::string_view bytes) {
      for (std::size_t at = 0; at < bytes.size(); at += agent::k_part_max)
        client.send(agent::Put{.id = message.id, .bytes = std::string(bytes.substr(at, agent::k_part_max))});
      return !stop.stop_requested();
    };
    auto packed = pack_inputs(inputs, input_owner(trial), put);
    if (!packed) return false;
    digests = *std::move(packed);
    client.send(agent::Put{.id = message.id, .bytes = {}, .is_last = 1});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unavailable) throw;
  }
  return true;
}

// Returns the digests of the trial's inputs. `scratch`: of those in the scratch folder; `container`: of the
// others. Returns an empty list if a digest is unknown, because another process has staged the input.
std::vector<std::string> in_order_of(const std::vector<Input>& inputs,
                                     const std::vector<std::string>& scratch,
                                     const std::vector<std::string>& container) {
  if (scratch.size() + container.size() != inputs.size()) return {};
  std::vector<std::string> digests;
  digests.reserve(inputs.size());
  auto from_scratch = scratch.begin();
  auto from_container = container.begin();
  for (const Input& input : inputs) digests.push_back(input.in_scratch ? *from_scratch++ : *from_container++);
  return digests;
}

}  // namespace

bool AssignedAttempt::is_alive() const {
  const std::scoped_lock lock(worker->registry.mutex);
  return attempt->is_alive();
}

// Removes the attempt from the worker, unless it runs or has ended. The caller holds the mutex.
void AssignedAttempt::give_up_locked() const {
  if (attempt->state == Attempt::State::running || attempt->state == Attempt::State::ended) return;
  const std::string id = id_of(attempt->key);
  const auto found = worker->attempts.find(id);
  if (found == worker->attempts.end() || found->second != attempt) return;  // another thread has removed it
  // The attempt may wait for its inputs in the agent. The agent may also read the start later, from an
  // earlier connection.
  if (attempt->is_start_sent) worker->forget_later(id);
  attempt->state = Attempt::State::displaced;
  attempt->changed.notify_all();
  worker->attempts.erase(id);
  worker->idle_since = Steady::now();
}

void AssignedAttempt::give_up() const {
  const std::scoped_lock lock(worker->registry.mutex);
  give_up_locked();
}

// Starts the attempt, and blocks until it runs or has ended. Returns false if its worker ended before.
// `digests`: receives the digests of the inputs in the scratch folder.
bool AssignedAttempt::run(const agent::Start& message, const Trial& trial, std::vector<std::string>& digests,
                          const std::stop_token& stop) const {
  using State = Attempt::State;
  const auto asked = Steady::now();
  std::unique_lock lock(worker->registry.mutex);
  while (attempt->state != State::running && attempt->state != State::ended) {
    if (attempt->state == State::displaced) {
      worker->attempts.erase(message.id);
      return false;
    }
    if (attempt->state == State::refused) {
      const bool may_wait = is_short_of_resources(*attempt->refused) && worker->attempts.size() > 1 &&
                            Steady::now() - asked < k_short_of_resources_max;
      if (!may_wait) throw Error(ErrorKind::refused, trial.name, reason_of(*attempt->refused, message.argv));
      attempt->refused.reset();
      attempt->state = State::reserved;
      std::erase(worker->occupants, attempt);
      worker->occupants.push_back(attempt);
      worker->registry.changed.wait_for(lock, stop, k_short_of_resources_pause, [] { return false; });
      continue;
    }
    if (attempt->state == State::reserved && worker->state == Worker::State::connected) {
      attempt->state = State::sent;
      attempt->is_start_sent = true;
      std::shared_ptr<AgentClient> client = worker->client;
      lock.unlock();
      const bool is_sent = send_start(*client, message, trial, digests, stop);
      client.reset();  // may join its thread, which locks the mutex
      if (!is_sent) {
        give_up();
        throw Error(ErrorKind::cancelled, trial.name, "cancelled");
      }
      lock.lock();
      continue;
    }
    const auto has_changed = [&] {
      return attempt->state != State::sent &&
             (attempt->state != State::reserved || worker->state == Worker::State::connected);
    };
    if (!attempt->changed.wait(lock, stop, has_changed)) {
      // An agent answers a start at once.
      const auto is_answered = [&] { return attempt->state != State::sent; };
      if (attempt->state == State::sent && attempt->changed.wait_for(lock, k_start_answer_max, is_answered))
        continue;
      // If the start is sent, the attempt may run, and the caller stops it.
      if (attempt->state == State::reserved) give_up_locked();
      throw Error(ErrorKind::cancelled, trial.name, "cancelled");
    }
  }
  return true;
}

std::optional<Observation> AssignedAttempt::start(const Run& of_run, const Trial& trial,
                                                  const std::optional<ImageProgram>& image,
                                                  const std::stop_token& stop) const {
  const auto asked = Steady::now();
  std::vector<std::string> digests;
  try {
    if (!run(start_message(of_run, trial, attempt->key, image), trial, digests, stop)) return std::nullopt;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::cancelled) give_up();
    throw;
  }
  const std::scoped_lock lock(worker->registry.mutex);
  Observation seen = worker->observation_of(*attempt);
  if (trial.cache.on) seen.digest = worker->container.digest;
  seen.inputs = in_order_of(trial.inputs, digests, worker->container.inputs);
  seen.start_took =
      StartDuration{.created = std::max(Seconds(0), Seconds(Steady::now() - asked) - attempt->spawn),
                    .started = attempt->spawn};
  return seen;
}

void AssignedAttempt::end(std::optional<Seconds> grace, const std::stop_token& stop) const {
  while (true) {
    const std::shared_ptr<AgentClient> client = worker->await_client(stop);
    if (!client) return give_up();
    try {
      client->send(agent::Stop{.id = id_of(attempt->key),
                               .grace_ms = grace ? static_cast<std::int64_t>(grace->count() * 1000) : -1});
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unavailable) throw;
      real_clock().wait(Seconds(0.1), stop);
      continue;
    }
    std::unique_lock lock(worker->registry.mutex);
    // The agent does not know an attempt that is `reserved`, and has forgotten one that it has refused. If
    // the start of such an attempt was given up, no other function removes the attempt from its worker.
    const auto may_run = [&] {
      return attempt->state == Attempt::State::sent || attempt->state == Attempt::State::running;
    };
    if (!attempt->changed.wait(lock, stop, [&] { return !may_run() || worker->client != client; }))
      throw Error(ErrorKind::cancelled, attempt->key.trial, "cancelled");
    if (!may_run()) return give_up_locked();
  }
}

std::optional<std::vector<agent::LogChunk>> AssignedAttempt::whole_log() const {
  const std::scoped_lock lock(worker->registry.mutex);
  if (attempt->ended && (attempt->ended->flags & agent::Ended::log_is_whole) != 0) return attempt->ended->log;
  return std::nullopt;
}

void AssignedAttempt::read_left_log(const std::function<void(const agent::LogChunk&)>& sink,
                                    const std::stop_token& stop) const {
  std::uint32_t result = 0;
  bool had_output = false;
  {
    const std::scoped_lock lock(worker->registry.mutex);
    result = attempt->result;
    had_output = attempt->ended && attempt->ended->log_size > 0;
  }
  if (result == 0 && !had_output)
    throw Error(ErrorKind::not_found, attempt->key.trial, "the attempt's log was lost with its worker");
  try {
    if (result != 0 && worker->read_result_log(result, sink, stop)) return;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::not_found || !had_output) throw;
  }
  const std::scoped_lock lock(worker->registry.mutex);
  attempt->ended->flags |= agent::Ended::log_is_incomplete;
}

bool AssignedAttempt::lacks_log() const {
  const std::scoped_lock lock(worker->registry.mutex);
  return attempt->ended && (attempt->ended->flags & agent::Ended::log_is_incomplete) != 0;
}

}  // namespace combu::workers
