#include "workers/supervised_attempts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "workers/attempt.hpp"
#include "workers/container.hpp"
#include "workers/supervised_container.hpp"

namespace combu::workers {
namespace {

constexpr std::size_t k_connects_at_once = 8;

// `refused.text`: if the program itself cannot be started, its name.
void fail_start(Observation& seen, const agent::Refused& refused) {
  if (seen.phase != Phase::gone) seen.phase = Phase::ended;
  seen.ran_at.reset();
  seen.exit_code.reset();
  seen.placement.start_error = reason_of(refused, {refused.text});
  seen.status = fmt::format("could not be started: {}", seen.placement.start_error);
}

// Adds what the agent has left as the termination message of its container, see docs/agent.md.
void add_report(Observation& seen) {
  constexpr std::string_view k_refused = "combu-agent refused ";
  constexpr std::string_view k_ended = "combu-agent ended ";
  constexpr std::string_view k_not_begun = "combu-agent not begun";
  const std::string left = seen.placement.supervisor_report.value_or("");
  const std::string_view report = left;
  const auto number = [&](std::string_view name) {
    const std::size_t at = report.find(fmt::format(" {}=", name));
    if (at == std::string_view::npos) return std::uint64_t{0};
    const std::string_view value = report.substr(at + name.size() + 2);
    return parse_number<std::uint64_t>(value.substr(0, value.find(' '))).value_or(0);
  };
  if (report.starts_with(k_refused)) {
    const std::size_t text = report.find(' ', std::min(report.find(" code="), report.size() - 1) + 1);
    const std::string reason(report.substr(std::min(text, report.size() - 1) + 1));
    fail_start(seen, {.stage = static_cast<std::uint8_t>(number("stage")),
                      .code = static_cast<std::int32_t>(number("code")),
                      .text = reason});
  } else if (report == k_not_begun) {
    seen.ran_at.reset();
    seen.exit_code.reset();
    seen.lost = "combu ended before it had sent the files or secrets of the trial";
  } else if (report.starts_with(k_ended) && seen.lost.empty()) {
    add_flags(seen, static_cast<std::uint32_t>(number("flags")));
    seen.usage = Usage{.memory = Bytes{static_cast<std::int64_t>(number("memory_peak"))},
                       .cpu = std::chrono::nanoseconds(number("cpu_ns"))};
  }
}

// True if the engine below has made two containers for the same attempt, one after the other.
bool is_of_other_container(const SupervisedAttempt& attempt, const Observation& container) {
  return !attempt.container.id.empty() && !container.id.empty() && attempt.container.id != container.id;
}

}  // namespace

Observation SupervisedAttempt::shown() const {
  Observation seen = container;
  seen.inputs = inputs;
  seen.is_unacknowledged = seen.is_unacknowledged && is_over();
  if (container.phase != Phase::running && !is_over()) return seen;
  if (refused) {
    fail_start(seen, *refused);
  } else if (ended) {
    if (!is_over()) seen.phase = Phase::ended;
    seen.status = "exited";
    seen.lost.clear();
    seen.is_unacknowledged = true;
    add_end(seen, *ended);
  } else if (is_over()) {
    add_report(seen);
  } else if (started) {
    seen.ran_at = instant_of(started->at);
    if (is_health_of_agent) seen.health = Health::starting;
  } else if (container.placement.awaits_delivery) {
    seen.phase = lacks_delivery() ? Phase::created : Phase::pending;
    seen.ran_at.reset();
    seen.health = Health::none;
    seen.placement.pending_reason =
        delivery ? "the container receives the files or secrets of the trial"
                 : "the container waits for files or secrets, which the process that drives the run sends";
  }
  return seen;
}

SupervisedAttempts::~SupervisedAttempts() {
  {
    const std::scoped_lock lock(mutex_);
    is_ending_ = true;
  }
  for (std::jthread& thread : threads_) thread.request_stop();
  threads_.clear();
  // The events of a connection lock the mutex, so it must be free when the connections are destroyed.
  std::vector<SupervisedPtr> all;
  std::vector<std::shared_ptr<AgentClient>> clients;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [key, attempt] : attempts_) all.push_back(attempt);
    for (const auto& [when, attempt] : queue_) all.push_back(attempt);
    for (const SupervisedPtr& attempt : all) clients.push_back(std::exchange(attempt->client, nullptr));
  }
  clients.clear();
}

void SupervisedAttempts::adopt(const RunId& run) {
  const std::scoped_lock lock(mutex_);
  if (!adopted_.insert(run).second) return;
  for (const auto& [key, attempt] : attempts_) {
    if (key.run != run) continue;
    attempt->is_adopted = true;
    if (attempt->lacks_delivery()) publish(*attempt);
  }
}

bool SupervisedAttempts::is_adopted(const RunId& run) {
  const std::scoped_lock lock(mutex_);
  return adopted_.contains(run);
}

void SupervisedAttempts::expect(const Key& key, std::optional<Delivery> delivery) {
  const std::scoped_lock lock(mutex_);
  adopted_.insert(key.run);
  const auto known = attempts_.find(key);
  if (known == attempts_.end()) {
    expected_.insert_or_assign(key, std::move(delivery));
  } else if (!known->second->has_begun()) {
    known->second->delivery = std::move(delivery);
    queue_if_needed(known->second);
  }
}

void SupervisedAttempts::give_up(const Key& key) {
  const std::scoped_lock lock(mutex_);
  expected_.erase(key);
}

// Returns the attempt of the container. The caller holds the mutex.
SupervisedPtr SupervisedAttempts::entry_of(const Observation& container) {
  const auto known = attempts_.find(container.key);
  if (known != attempts_.end() && is_of_other_container(*known->second, container)) drop(known->second);
  auto& entry = attempts_[container.key];
  if (!entry) {
    entry = std::make_shared<SupervisedAttempt>(container);
    entry->pause = limits_.pause_min;
    entry->is_adopted = adopted_.contains(container.key.run);
    if (auto expected = expected_.extract(container.key)) entry->delivery = std::move(expected.mapped());
  }
  // A listing that was asked for before the container ran may arrive after the change that reports that it
  // runs.
  if (has_run(container.phase) || !has_run(entry->container.phase)) entry->container = container;
  if (container.health != Health::unhealthy) entry->is_health_of_agent = false;
  return entry;
}

// Forgets the attempt. If its container has a successor, that needs the same delivery. The caller holds the
// mutex.
void SupervisedAttempts::drop(const SupervisedPtr& attempt) {
  if (attempt->delivery)
    expected_.insert_or_assign(attempt->key, std::exchange(attempt->delivery, std::nullopt));
  attempt->container.phase = Phase::gone;
  queue_if_needed(attempt);
  attempts_.erase(Key(attempt->key));
}

bool SupervisedAttempts::is_done(const SupervisedAttempt& attempt) const {
  return attempt.is_over() || attempt.refused || (engine_.copies_files() && attempt.started);
}

bool SupervisedAttempts::needs_client(const SupervisedAttempt& attempt) const {
  return attempt.container.phase == Phase::running && !is_done(attempt) &&
         (!attempt.client || attempt.is_broken);
}

bool SupervisedAttempts::needs_attention(const SupervisedAttempt& attempt) const {
  return needs_client(attempt) || (is_done(attempt) && attempt.client) || attempt.needs_delivery() ||
         (attempt.must_stop && !attempt.is_over());
}

Observation SupervisedAttempts::take(const Observation& container) {
  const std::scoped_lock lock(mutex_);
  const auto known = attempts_.find(container.key);
  if (known == attempts_.end()) {
    const bool is_own = expected_.contains(container.key) || adopted_.contains(container.key.run);
    if (!is_own || container.phase == Phase::gone) return container;
  } else if (is_of_other_container(*known->second, container) &&
             (container.phase == Phase::ended || container.phase == Phase::gone)) {
    return container;  // a late report about an earlier container
  }
  const SupervisedPtr attempt = entry_of(container);
  queue_if_needed(attempt);
  changed_.notify_all();
  Observation seen = attempt->shown();
  // Until the result is acknowledged, copy_out() has to say why the files are lost.
  if (container.phase == Phase::gone && (!attempt->ended || attempt->is_acknowledged)) drop(attempt);
  return seen;
}

SupervisedPtr SupervisedAttempts::connect_to(const Observation& container) {
  const std::scoped_lock lock(mutex_);
  SupervisedPtr attempt = entry_of(container);
  queue_if_needed(attempt);
  return attempt;
}

SupervisedPtr SupervisedAttempts::find(const Key& key) {
  const std::scoped_lock lock(mutex_);
  const auto found = attempts_.find(key);
  return found == attempts_.end() ? nullptr : found->second;
}

SupervisedPtr SupervisedAttempts::find_by_id(const std::string& id) {
  const std::scoped_lock lock(mutex_);
  const auto found =
      std::ranges::find_if(attempts_, [&](const auto& one) { return one.second->container.id == id; });
  return found == attempts_.end() ? nullptr : found->second;
}

std::shared_ptr<AgentClient> SupervisedAttempts::await_client(const SupervisedPtr& attempt,
                                                              const std::stop_token& stop) {
  Lock lock(mutex_);
  const auto is_settled = [&] { return attempt->is_over() || attempt->is_joined(); };
  if (stop.stop_requested() || !changed_.wait(lock, stop, is_settled))
    throw Error(ErrorKind::cancelled, attempt->key.trial, "cancelled");
  return attempt->is_over() ? nullptr : attempt->client;
}

bool SupervisedAttempts::has_begun(const SupervisedPtr& attempt) {
  const std::scoped_lock lock(mutex_);
  return attempt->has_begun();
}

bool SupervisedAttempts::await_begun(const SupervisedPtr& attempt, std::optional<Steady::time_point> until,
                                     const std::stop_token& stop) {
  Lock lock(mutex_);
  const auto is_settled = [&] { return attempt->has_begun() || attempt->refused || attempt->is_over(); };
  const bool is_in_time =
      until ? changed_.wait_until(lock, stop, *until, is_settled) : changed_.wait(lock, stop, is_settled);
  if (!is_in_time && stop.stop_requested())
    throw Error(ErrorKind::cancelled, attempt->key.trial, "cancelled");
  return attempt->has_begun();
}

void SupervisedAttempts::await_joined(const SupervisedPtr& attempt,
                                      std::chrono::steady_clock::time_point until,
                                      const std::stop_token& stop) {
  Lock lock(mutex_);
  const auto is_settled = [&] {
    return attempt->container.phase != Phase::running || is_done(*attempt) || attempt->is_acknowledged ||
           attempt->is_joined() || attempt->is_exec_refused;
  };
  changed_.wait_until(lock, stop, until, is_settled);
}

std::shared_ptr<AgentClient> SupervisedAttempts::client_of(const SupervisedPtr& attempt) {
  const std::scoped_lock lock(mutex_);
  return !attempt->is_over() && attempt->is_joined() ? attempt->client : nullptr;
}

Observation SupervisedAttempts::shown(const SupervisedPtr& attempt) {
  const std::scoped_lock lock(mutex_);
  return attempt->shown();
}

std::string SupervisedAttempts::fault_of(const SupervisedPtr& attempt) {
  const std::scoped_lock lock(mutex_);
  return attempt->broken_why;
}

Observation SupervisedAttempts::container_of(const SupervisedPtr& attempt) {
  const std::scoped_lock lock(mutex_);
  return attempt->container;
}

std::optional<agent::Ended> SupervisedAttempts::end_of(const SupervisedPtr& attempt) {
  const std::scoped_lock lock(mutex_);
  return attempt->ended;
}

bool SupervisedAttempts::runs(const SupervisedPtr& attempt) {
  const std::scoped_lock lock(mutex_);
  return attempt->started && !attempt->ended && !attempt->is_over();
}

std::vector<Key> SupervisedAttempts::acknowledge(const std::vector<Key>& keys) {
  std::vector<Key> others;
  const std::scoped_lock lock(mutex_);
  for (const Key& key : keys) {
    const auto found = attempts_.find(key);
    if (found == attempts_.end() || found->second->container.is_unacknowledged) others.push_back(key);
    if (found == attempts_.end()) continue;
    SupervisedAttempt& attempt = *found->second;
    attempt.is_acknowledged = true;
    if (attempt.client && !attempt.is_broken) attempt.client->forget({std::string(agent::k_supervised_id)});
    if (attempt.container.phase == Phase::gone) attempts_.erase(found);
  }
  return others;
}

void SupervisedAttempts::guard(const std::shared_ptr<AgentClient>& client) {
  const std::scoped_lock lock(mutex_);
  guarded_.push_back(client);
  begin_threads();
}

void SupervisedAttempts::subscribe(Subscription& subscription) {
  const std::scoped_lock lock(mutex_);
  subscriptions_.push_back(&subscription);
}

void SupervisedAttempts::unsubscribe(Subscription& subscription) {
  const std::scoped_lock lock(mutex_);
  std::erase(subscriptions_, &subscription);
}

// ---- The connections

// The caller holds the mutex.
void SupervisedAttempts::queue(const SupervisedPtr& attempt, Seconds pause) {
  if (is_ending_ || std::exchange(attempt->is_queued, true)) return;
  queue_.emplace(Steady::now() + std::chrono::duration_cast<Steady::duration>(pause), attempt);
  begin_threads();
  changed_.notify_all();
}

void SupervisedAttempts::queue_if_needed(const SupervisedPtr& attempt) {
  if (needs_attention(*attempt)) queue(attempt, Seconds(0));
}

void SupervisedAttempts::begin_threads() {
  if (!threads_.empty()) return;
  for (std::size_t i = 0; i < k_connects_at_once; ++i)
    threads_.emplace_back([this](const std::stop_token& quit) { work(quit); });
  threads_.emplace_back([this](const std::stop_token& quit) { ping_all(quit); });
}

void SupervisedAttempts::work(const std::stop_token& quit) {
  while (!quit.stop_requested()) {
    SupervisedPtr attempt;
    {
      Lock lock(mutex_);
      if (queue_.empty()) {
        changed_.wait(lock, quit, [this] { return !queue_.empty(); });
      } else if (const auto next = queue_.begin()->first; next > Steady::now()) {
        changed_.wait_until(lock, quit, next, [&] { return queue_.empty() || queue_.begin()->first < next; });
      } else {
        attempt = queue_.extract(queue_.begin()).mapped();
      }
    }
    if (attempt) attend(attempt, quit);
  }
}

void SupervisedAttempts::ping_all(const std::stop_token& quit) {
  while (!quit.stop_requested()) {
    std::vector<std::shared_ptr<AgentClient>> clients;
    {
      Lock lock(mutex_);
      for (const auto& [key, attempt] : attempts_)
        if (attempt->client && !attempt->is_broken) clients.push_back(attempt->client);
      for (const auto& guarded : guarded_)
        if (auto client = guarded.lock()) clients.push_back(std::move(client));
      std::erase_if(guarded_, [](const auto& guarded) { return guarded.expired(); });
    }
    for (const auto& client : clients) {
      if (client->silence() >= limits_.silence_max) client->close();
      client->ping();
    }
    clients.clear();
    Lock lock(mutex_);
    changed_.wait_for(lock, quit, limits_.silence_max, [] { return false; });
  }
}

// Does what the attempt needs: connects to its agent, drops a connection that is not needed any more, or
// stops its container.
void SupervisedAttempts::attend(const SupervisedPtr& attempt, const std::stop_token& quit) {
  std::shared_ptr<AgentClient> old;
  bool is_needed = false;
  {
    const std::scoped_lock lock(mutex_);
    is_needed = needs_client(*attempt);
    if (is_needed || is_done(*attempt)) old = std::exchange(attempt->client, nullptr);
    attempt->is_listed = attempt->is_listed && !is_needed;
  }
  old.reset();  // joins its threads, without the mutex
  std::optional<ErrorKind> failed;
  bool is_open = !is_needed;
  try {
    if (is_needed) open_client(attempt, quit);
    is_open = true;
    deliver_if_needed(attempt, quit);
    stop_if_needed(attempt, quit);
  } catch (const Error& error) {
    failed = error.kind();
    const std::scoped_lock lock(mutex_);
    attempt->broken_why = error.message();
    attempt->is_exec_refused = !is_open && failed == ErrorKind::refused;
    changed_.notify_all();
  }
  // The container may have ended.
  if (failed == ErrorKind::not_found || failed == ErrorKind::conflict) inspect(attempt, quit);
  {
    const std::scoped_lock lock(mutex_);
    attempt->is_queued = false;
    attempt->pause = failed ? std::min(attempt->pause * 2, limits_.pause_max) : limits_.pause_min;
    if (is_done(*attempt)) old = std::exchange(attempt->client, nullptr);
    if (needs_attention(*attempt)) queue(attempt, attempt->pause);
  }
}

// Asks the engine below for the state of the container.
void SupervisedAttempts::inspect(const SupervisedPtr& attempt, const std::stop_token& quit) {
  const Key& key = attempt->key;
  try {
    const std::vector<Observation> listed =
        engine_.list({.run = key.run, .trials = {key.trial}}, ListDetail::full, quit);
    const auto found = std::ranges::find(listed, key, &Observation::key);
    const std::scoped_lock lock(mutex_);
    if (found != listed.end() && !is_of_other_container(*attempt, *found))
      attempt->container = *found;
    else
      attempt->container.phase = Phase::gone;
    if (attempt->is_over()) publish(*attempt);
    changed_.notify_all();
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the next try to connect shows the state
  }
}

void SupervisedAttempts::open_client(const SupervisedPtr& attempt, const std::stop_token& quit) {
  const Key& key = attempt->key;
  const auto opened = std::make_shared<AgentClient>(
      engine_.exec(key, {std::string(k_program), "join", std::string(k_folder)}, quit), key.trial,
      events_of(attempt));
  // Messages to an agent that does not read must not delay the end of this object.
  const std::stop_callback on_quit(quit, [&] { opened->close(); });
  {
    const std::scoped_lock lock(mutex_);
    attempt->is_broken = false;
  }
  opened->begin();
  Lock lock(mutex_);
  attempt->client = opened;
  attempt->is_sent = attempt->is_exec_refused = false;
  changed_.notify_all();
  const auto is_settled = [&] { return attempt->is_listed || attempt->is_broken; };
  if (!changed_.wait_for(lock, quit, limits_.silence_max, is_settled)) {
    lock.unlock();
    opened->close();
    throw Error(ErrorKind::unavailable, key.trial, "the agent does not answer");
  }
  if (attempt->is_broken) throw Error(ErrorKind::unavailable, key.trial, attempt->broken_why);
  if (attempt->is_acknowledged) opened->forget({std::string(agent::k_supervised_id)});
}

void SupervisedAttempts::stop_if_needed(const SupervisedPtr& attempt, const std::stop_token& quit) {
  {
    const std::scoped_lock lock(mutex_);
    if (!attempt->must_stop || attempt->is_over()) return;
  }
  engine_.stop(attempt->key, std::nullopt, quit);
  const std::scoped_lock lock(mutex_);
  attempt->must_stop = false;
}

void SupervisedAttempts::deliver_if_needed(const SupervisedPtr& attempt, const std::stop_token& quit) {
  std::shared_ptr<AgentClient> client;
  std::optional<Delivery> delivery;
  {
    const std::scoped_lock lock(mutex_);
    if (!attempt->needs_delivery()) return;
    attempt->is_sent = true;
    client = attempt->client;
    delivery = attempt->delivery;
  }
  const std::stop_callback on_quit(quit, [&] { client->close(); });
  const auto set_digests = [&](std::vector<std::string>&& digests) {
    const std::scoped_lock lock(mutex_);
    attempt->inputs = std::move(digests);
  };
  try {
    send(*client, *delivery, set_digests, quit);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::unavailable || error.kind() == ErrorKind::cancelled) throw;
    // A file on this machine cannot be read.
    const std::scoped_lock lock(mutex_);
    attempt->refused = agent::Refused{.id = std::string(agent::k_supervised_id), .text = error.message()};
    attempt->must_stop = true;
    publish(*attempt);
    changed_.notify_all();
  }
}

AgentEvents SupervisedAttempts::events_of(const SupervisedPtr& attempt) {
  const auto locked = [this, weak = std::weak_ptr(attempt)](const auto& body) {
    const SupervisedPtr it = weak.lock();
    if (!it) return;
    const std::scoped_lock lock(mutex_);
    body(it);
    changed_.notify_all();
  };
  return {.on_welcome =
              [=](const agent::Welcome& welcome) {
                locked([&](const SupervisedPtr& it) {
                  it->is_restarted = welcome.note == agent::k_restarted_note;
                });
              },
          .on_started =
              [=, this](agent::Started&& started) {
                locked([&](const SupervisedPtr& it) {
                  if (it->started) return;
                  it->started = std::move(started);
                  it->is_health_of_agent = it->delivery && it->container.health == Health::unhealthy;
                  it->delivery.reset();
                  queue_if_needed(it);
                  Observation seen = it->shown();
                  if (!engine_.copies_files())  // else start() returns it
                    seen.start_took =
                        StartDuration{.started = std::chrono::nanoseconds(it->started->spawn_ns)};
                  for (Subscription* const subscription : subscriptions_) subscription->push(seen);
                });
              },
          .on_refused =
              [=, this](agent::Refused&& refused) {
                locked([&](const SupervisedPtr& it) {
                  it->refused = std::move(refused);
                  publish(*it);
                  queue_if_needed(it);
                });
              },
          .on_ended =
              [=, this](agent::Ended&& ended) {
                locked([&](const SupervisedPtr& it) {
                  if (it->ended || engine_.copies_files()) return;  // the engine below reports the end
                  it->ended = std::move(ended);
                  publish(*it);
                });
              },
          .on_listed =
              [=, this] {
                locked([&](const SupervisedPtr& it) {
                  it->is_listed = true;
                  if (it->lacks_delivery()) publish(*it);
                });
              },
          .on_broken =
              [=, this](const std::string& why) {
                locked([&](const SupervisedPtr& it) {
                  it->is_broken = true;
                  it->broken_why = why;
                  // After Forget, the agent ends, and the engine below reports the end of the container.
                  if (needs_client(*it)) queue(it, it->is_acknowledged ? limits_.pause_max : it->pause);
                });
              }};
}

// Passes the attempt to each call of watch(). The caller holds the mutex.
void SupervisedAttempts::publish(const SupervisedAttempt& attempt) {
  const Observation seen = attempt.shown();
  for (Subscription* const subscription : subscriptions_) subscription->push(seen);
}

}  // namespace combu::workers
