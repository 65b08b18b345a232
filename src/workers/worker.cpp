#include "workers/worker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "workers/results_file.hpp"
#include "workers/staging.hpp"

namespace combu::workers {
namespace {

constexpr int k_signal_base = 128;  // an exit code above is 128 plus the number of the signal, as in Docker
constexpr std::chrono::seconds k_answer_max{10};
// If an agent does not answer for this time although its container runs, the worker counts as lost.
constexpr std::chrono::seconds k_reconnect_max{30};
constexpr Seconds k_reconnect_pause_max{2};
constexpr std::chrono::seconds k_remove_pause{1};
constexpr Seconds k_silence_max{15};
constexpr Seconds k_staging_silence_max{60};
// When the container has ended, the end of the agent's stream arrives within this time.
constexpr std::chrono::seconds k_stream_end_max{10};
// A worker that holds slots ends after this time without attempts, because other attempts may need the slots.
constexpr std::chrono::milliseconds k_claim_idle{500};
// A container that still waits for a place ends after this time without attempts.
constexpr std::chrono::seconds k_left_idle{5};

std::string results_path() {
  return fmt::format("{}/results", k_folder);
}

}  // namespace

// ---- Attempts

std::size_t Worker::alive() {
  std::erase_if(occupants, [](const auto& attempt) { return !attempt->is_alive(); });
  return occupants.size();
}

bool Worker::has_room() {
  return is_own && (state == State::connected || state == State::creating) && !is_retiring &&
         alive() < note.concurrency && (limits.trials_max == 0 || begun < limits.trials_max);
}

bool Worker::has_to_end(Steady::time_point now) {
  if (!is_own) return false;
  if (state == State::over) return attempts.empty() && now >= remove_at;
  if (creation.is_left && state == State::creating)
    return attempts.empty() && now - idle_since >= k_left_idle;
  if (state != State::connected) return false;
  if ((limits.trials_max > 0 && begun >= limits.trials_max) ||
      (limits.age_max > Seconds(0) && now - created_at >= limits.age_max))
    is_retiring = true;
  if (!attempts.empty()) return false;
  const bool gives_up_claim = has_claim() && now - idle_since >= k_claim_idle;
  return is_retiring || gives_up_claim || now - idle_since >= limits.idle;
}

std::shared_ptr<Attempt> Worker::add_attempt(const Key& attempt, const Slots& attempt_slots) {
  const auto added = std::make_shared<Attempt>();
  added->key = attempt;
  added->slots = attempt_slots;
  const std::string name = id_of(attempt);
  attempts.insert_or_assign(name, added);
  occupants.push_back(added);
  forgotten.erase(name);
  forgotten_before.erase(name);
  return added;
}

std::shared_ptr<Attempt> Worker::forget(const std::string& attempt) {
  auto found = attempts.extract(attempt);
  if (found.empty()) return nullptr;
  forgotten.insert(attempt);
  idle_since = Steady::now();
  return std::move(found.mapped());
}

void Worker::forget_later(const std::string& attempt) {
  (void)forget(attempt);
  unsent.push_back(attempt);
  registry.changed.notify_all();
}

void Worker::offer_places() {
  if (!has_room()) return;
  std::size_t places = note.concurrency - alive();
  for (const auto& [other_key, other] : registry.workers)
    if (other->creation.is_pending && other_key.run == key().run && other->note.shape == note.shape)
      places -= other->displace(places);
}

std::size_t Worker::displace(std::size_t count_max) {
  const std::size_t before = attempts.size();
  std::erase_if(attempts, [&, count = std::size_t{0}](const auto& one) mutable {
    if (one.second->state != Attempt::State::reserved || count == count_max) return false;
    ++count;
    one.second->state = Attempt::State::displaced;
    one.second->changed.notify_all();
    return true;
  });
  const std::size_t displaced = before - attempts.size();
  if (displaced == 0) return 0;
  begun -= std::min(begun, displaced);
  idle_since = Steady::now();
  registry.changed.notify_all();
  return displaced;
}

void Worker::publish_pending(const std::string& reason) const {
  for (const auto& [name, attempt] : attempts) {
    if (attempt->state != Attempt::State::reserved) continue;
    Observation seen = observation_of(*attempt);
    seen.phase = Phase::pending;
    seen.placement.pending_reason = reason;
    registry.publish(seen);
  }
}

void Worker::drop(Attempt& attempt) const {
  Observation seen = observation_of(attempt);
  seen.phase = Phase::gone;
  if (attempt.is_alive()) attempt.state = Attempt::State::displaced;
  attempt.changed.notify_all();
  registry.publish(seen);
}

Observation Worker::observation_of(const Attempt& attempt) const {
  Observation seen;
  seen.key = attempt.key;
  seen.experiment = container.experiment;
  seen.file = container.file;
  seen.id = fmt::format("{}/{}", container.id, id_of(attempt.key));
  seen.image = container.image;
  seen.slots = attempt.slots;
  seen.created_at = attempt.began_at;
  if (attempt.state == Attempt::State::running || attempt.state == Attempt::State::ended) {
    seen.phase = Phase::running;
    seen.status = "running";
    seen.ran_at = attempt.began_at;
    seen.start_took = StartDuration{.created = Seconds(0), .started = attempt.spawn};
  }
  if (attempt.state != Attempt::State::ended) return seen;
  seen.phase = Phase::ended;
  seen.status = "exited";
  seen.is_unacknowledged = true;
  if (!attempt.ended) {
    seen.lost = attempt.lost;
    seen.ended_at = attempt.lost_at;
    return seen;
  }
  add_end(seen, *attempt.ended);
  return seen;
}

// ---- The connection

void Worker::become(State next) {
  if (state == State::over) return;
  state = next;
  registry.changed.notify_all();
}

void Worker::connect(const std::stop_token& stop) {
  std::shared_ptr<AgentClient> old;
  {
    const std::scoped_lock lock(registry.mutex);
    if (state == State::over) throw Error(ErrorKind::unavailable, key().trial, "the worker has ended");
    old = std::exchange(client, nullptr);
    become(State::creating);
    broken_why.clear();
    creation.is_left = false;
    is_listed = false;
    for (const auto& [name, attempt] : attempts) attempt->is_listed = false;
  }
  old.reset();
  std::shared_ptr<AgentClient> opened;
  try {
    stage(stop);
    opened = std::make_shared<AgentClient>(
        registry.engine.exec(key(), {std::string(k_program), "join", std::string(k_folder)}, stop),
        key().trial, events());
    opened->begin();
  } catch (const Error& error) {
    const std::scoped_lock lock(registry.mutex);
    broken_why = error.message();
    become(State::broken);
    throw;
  }
  std::string why;
  {
    std::unique_lock lock(registry.mutex);
    const auto is_settled = [&] { return is_listed || state != State::creating; };
    const bool is_in_time = registry.changed.wait_for(lock, stop, k_answer_max, is_settled);
    if (is_listed && state == State::creating) {
      client = std::move(opened);
      become(State::connected);
      offer_places();
      for (const auto& [name, attempt] : attempts) attempt->changed.notify_all();
      return;
    }
    become(State::broken);
    if (!is_in_time) broken_why = "the agent does not answer";
    if (broken_why.empty()) broken_why = "the worker has ended";
    why = broken_why;
  }
  opened.reset();  // joins its threads, without the lock
  throw Error(stop.stop_requested() ? ErrorKind::cancelled : ErrorKind::unavailable, key().trial, why);
}

// Copies the inputs into the container, before its first attempt.
void Worker::stage(const std::stop_token& stop) {
  std::optional<Trial> trial;
  {
    const std::scoped_lock lock(registry.mutex);
    trial = creation.unstaged;
  }
  if (!trial) return;
  std::vector<std::string> digests =
      stage_inputs(registry.engine, key(), *trial, k_staging_silence_max, stop);
  const std::scoped_lock lock(registry.mutex);
  container.inputs = std::move(digests);
  creation.unstaged.reset();
}

void Worker::connect_or_end(const std::stop_token& stop) {
  try {
    connect(stop);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::cancelled) throw;
    if (!handle_end(stop)) throw;
  }
}

void Worker::reconnect_soon() {
  const auto now = Steady::now();
  reconnection = Reconnection{.at = now, .give_up_at = now + k_reconnect_max};
}

void Worker::reconnect(const std::stop_token& stop) {
  const bool is_settled = try_reconnect(stop);
  const std::scoped_lock lock(registry.mutex);
  // During the try, reconnect_soon() may have asked for another one.
  if (!reconnection || reconnection->at != Reconnection::k_under_way) return;
  if (is_settled) return reconnection.reset();
  reconnection->pause = std::min(reconnection->pause * 2, k_reconnect_pause_max);
  reconnection->at = Steady::now() + std::chrono::duration_cast<Steady::duration>(reconnection->pause);
}

// Returns true if no further try is necessary.
bool Worker::try_reconnect(const std::stop_token& stop) {
  bool may_remove = false;
  try {
    {
      const std::scoped_lock lock(registry.mutex);
      if (state == State::over) return true;
    }
    if (handle_end(stop)) return true;
    {
      const std::scoped_lock lock(registry.mutex);
      may_remove = is_own && reconnection && Steady::now() >= reconnection->give_up_at;
      if (state != State::broken && !creation.is_left) return true;  // connected, or another thread connects
    }
    connect(stop);
    return true;
  } catch (const Error& error) {
    if (stop.stop_requested() || !may_remove || !try_remove_container(stop)) return false;
    end_attempts(fmt::format("the agent of its worker does not answer: {}", error.message()));
    return true;
  }
}

std::shared_ptr<AgentClient> Worker::await_client(const std::stop_token& stop) {
  std::unique_lock lock(registry.mutex);
  const auto is_settled = [&] { return state == State::connected || state == State::over; };
  if (!registry.changed.wait(lock, stop, is_settled))
    throw Error(ErrorKind::cancelled, key().trial, "cancelled");
  return state == State::connected ? client : nullptr;
}

void Worker::send_messages(bool with_ping) {
  if (state != State::connected) return;
  // If the agent has answered the last ping, it has handled every Forget that was sent before.
  if (with_ping && client->silence() == Seconds(0)) forgotten_before = std::exchange(forgotten, {});
  // An attempt with the same id may have been added since.
  std::erase_if(unsent, [&](const std::string& one) { return !has_forgotten(one); });
  client->forget(std::exchange(unsent, {}));
  if (with_ping) client->ping();
}

void Worker::close_if_silent() {
  std::shared_ptr<AgentClient> open;
  {
    const std::scoped_lock lock(registry.mutex);
    open = client;
  }
  if (open && open->silence() > k_silence_max) open->close();
}

// ---- Events of the agent

AgentEvents Worker::events() {
  const auto locked = [weak = weak_from_this()](const auto& body) {
    const WorkerPtr it = weak.lock();
    if (!it) return;
    const std::scoped_lock lock(it->registry.mutex);
    body(*it);
  };
  return {
      .on_welcome = [=](agent::Welcome&& welcome) { locked([&](Worker& it) { it.on_welcome(welcome); }); },
      .on_started = [=](agent::Started&& started) { locked([&](Worker& it) { it.on_started(started); }); },
      .on_refused = [=](agent::Refused&& refused) { locked([&](Worker& it) { it.on_refused(refused); }); },
      .on_ended = [=](agent::Ended&& ended) { locked([&](Worker& it) { it.on_ended(std::move(ended)); }); },
      .on_listed = [=] { locked([&](Worker& it) { it.on_listed(); }); },
      .on_broken = [=](const std::string& why) { locked([&](Worker& it) { it.on_broken(why); }); }};
}

void Worker::on_broken(const std::string& why) {
  broken_why = why;
  if (state == State::connected) reconnect_soon();
  become(State::broken);
}

void Worker::on_welcome(const agent::Welcome& welcome) {
  if (!boot.empty() && boot != welcome.boot)
    for (const auto& [name, attempt] : attempts)
      if (attempt->is_alive() && attempt->state != Attempt::State::reserved)
        lose(*attempt, "its worker was restarted");
  boot = welcome.boot;
  begun = std::max<std::size_t>(begun, welcome.begun);
  if (!welcome.note.empty()) note = parse_note(welcome.note);
}

// Returns the attempt, which another process may have started. Returns nullptr if it is forgotten.
Attempt* Worker::attempt_of(const std::string& attempt) {
  const auto found = attempts.find(attempt);
  if (found != attempts.end()) return found->second.get();
  if (has_forgotten(attempt)) {
    unsent.push_back(attempt);
    registry.changed.notify_all();
    return nullptr;
  }
  const auto its_key = key_of(key().run, attempt);
  if (!its_key) return nullptr;
  return add_attempt(*its_key, divided(container.slots, note.concurrency)).get();
}

void Worker::on_started(const agent::Started& started) {
  Attempt* attempt = attempt_of(started.id);
  if (attempt == nullptr) return;
  attempt->is_listed = true;
  attempt->began_at = instant_of(started.at);
  attempt->spawn = std::chrono::nanoseconds(started.spawn_ns);
  attempt->scratch = started.scratch;
  if (attempt->state == Attempt::State::running || attempt->state == Attempt::State::ended) return;
  attempt->state = Attempt::State::running;
  attempt->changed.notify_all();
  registry.publish(observation_of(*attempt));
}

void Worker::on_refused(const agent::Refused& refused) {
  const auto found = attempts.find(refused.id);
  if (found == attempts.end()) return;
  found->second->refused = refused;
  found->second->state = Attempt::State::refused;
  found->second->changed.notify_all();
}

void Worker::on_ended(agent::Ended&& ended) {
  Attempt* attempt = attempt_of(ended.id);
  if (attempt == nullptr) return;
  attempt->is_listed = true;
  if (attempt->state == Attempt::State::ended) return;
  attempt->ended = std::move(ended);
  attempt->state = Attempt::State::ended;
  attempt->changed.notify_all();
  registry.publish(observation_of(*attempt));
  offer_places();
}

void Worker::on_listed() {
  for (const auto& [name, attempt] : attempts) {
    if (attempt->is_listed) continue;
    if (attempt->state == Attempt::State::running) lose(*attempt, "its worker does not know it any more");
    if (attempt->state == Attempt::State::sent) {
      attempt->state = Attempt::State::reserved;
      attempt->changed.notify_all();
    }
  }
  is_listed = true;
  registry.changed.notify_all();
}

void Worker::lose(Attempt& attempt, const std::string& why) {
  attempt.lost = why;
  attempt.lost_at = real_clock().now();
  attempt.state = Attempt::State::ended;
  attempt.changed.notify_all();
  registry.publish(observation_of(attempt));
}

// ---- The end

bool Worker::handle_end(const std::stop_token& stop) {
  const std::vector<Observation> listed =
      registry.engine.list({.run = key().run, .trials = {key().trial}}, ListDetail::full, stop);
  const bool is_removed = listed.empty();
  if (!is_removed && listed.front().phase != Phase::ended && listed.front().phase != Phase::gone)
    return false;
  await_stream_end(stop);
  if (is_removed) {
    end_attempts("its worker was removed");
    return true;
  }
  const Observation& ended = listed.front();
  // After another end, the file may be the work of an attempt.
  const std::string problem = ended.exit_code == 0 ? read_results(stop) : "";
  end_attempts(fmt::format("its worker ended{}{}{}", ended.oom ? ", out of memory" : "",
                           ended.exit_code ? fmt::format(" (exit code {})", *ended.exit_code) : "", problem));
  return true;
}

// Waits until the events are handled that the agent had sent before the container ended.
void Worker::await_stream_end(const std::stop_token& stop) {
  std::unique_lock lock(registry.mutex);
  registry.changed.wait_for(lock, stop, k_stream_end_max, [&] { return state != State::connected; });
}

void Worker::end_attempts(const std::string& why) {
  const std::scoped_lock lock(registry.mutex);
  become(State::over);  // from now on, the keeper may remove the container
  for (const auto& [name, attempt] : attempts) {
    if (attempt->state == Attempt::State::reserved) {
      attempt->state = Attempt::State::displaced;
      attempt->changed.notify_all();
    } else if (attempt->is_alive()) {
      lose(*attempt, why);
    }
  }
}

// Reads the results that the agent has left. Returns the end of a sentence that says why results are missing,
// or an empty text. Throws if the engine cannot be reached.
std::string Worker::read_results(const std::stop_token& stop) {
  EndsReader ends;
  std::string problem =
      ", and the end of its file of results is missing, for example because its disk was full";
  try {
    const auto take = [&](const agent::Frame& frame) { return ends.take(frame); };
    if (!workers::read_results(registry.engine, key(), results_path(), take, stop))
      return ", and left no file of results";
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::cancelled || error.kind() == ErrorKind::unavailable) throw;
    problem = fmt::format(", and its file of results cannot be read: {}", error.message());
  }
  for (Result& result : ends.results) {
    const std::scoped_lock lock(registry.mutex);
    const std::string name = result.ended.id;
    const bool is_elsewhere = std::ranges::any_of(registry.workers, [&](const auto& one) {
      return one.second.get() != this && one.first.run == key().run && one.second->attempts.contains(name);
    });
    if (is_elsewhere) continue;
    on_started(result.started);
    on_ended(std::move(result.ended));
    const auto found = attempts.find(name);
    if (found != attempts.end() && found->second->ended) found->second->result = result.number;
  }
  return ends.is_whole ? "" : problem;
}

bool Worker::read_result_log(std::uint32_t result, const std::function<void(const agent::LogChunk&)>& sink,
                             const std::stop_token& stop) const {
  ResultLogReader log(result, sink);
  const auto take = [&](const agent::Frame& frame) { return log.take(frame); };
  try {
    if (!workers::read_results(registry.engine, key(), results_path(), take, stop))
      throw Error(ErrorKind::not_found, key().trial, "the worker has no file of results");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::corrupt && error.kind() != ErrorKind::invalid) throw;
  }
  return log.is_whole;
}

bool Worker::try_remove(const std::stop_token& stop) {
  std::shared_ptr<AgentClient> closed;
  {
    const std::scoped_lock lock(registry.mutex);
    closed = std::exchange(client, nullptr);
  }
  closed.reset();
  const bool is_removed = try_remove_container(stop);
  {
    const std::scoped_lock lock(registry.mutex);
    remove_at = Steady::now() + k_remove_pause;
    if (is_removed) registry.workers.erase(key());
  }
  registry.changed.notify_all();
  return is_removed;
}

bool Worker::try_remove_container(const std::stop_token& stop) {
  try {
    return registry.engine.release({.run = key().run, .trials = {key().trial}}, {}, stop).left.empty();
  } catch (const Error&) {
    return false;
  }
}

}  // namespace combu::workers
