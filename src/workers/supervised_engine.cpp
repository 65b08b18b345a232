// The engine that runs some trials under the agent, which is the first process of their containers: maps each
// function of Engine to the agents and to the engine below.

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "combu/workers.hpp"
#include "workers/agent_files.hpp"
#include "workers/attempt.hpp"
#include "workers/container.hpp"
#include "workers/delivery.hpp"
#include "workers/images.hpp"
#include "workers/supervised_attempts.hpp"
#include "workers/supervised_container.hpp"

namespace combu {
namespace workers {
namespace {

constexpr int k_resumptions_max = 20;  // of an archive, without a byte between

// Returns what the agent has to do in the trial's container on this engine; nullopt: it is not needed.
std::optional<Supervision> use_of_agent(const Trial& trial, bool copies_files, bool gives_secrets) {
  if (!trial.has_own_container() || is_worker_name(trial.name)) return std::nullopt;
  // The engine's host may keep the environment of a container on its disk.
  if (!copies_files && (trial.moves_files() || trial.has_secret_variables())) return Supervision::files;
  const auto is_given_by_combu = [](const Secret& secret) { return !secret.is_in_cluster; };
  if (!gives_secrets && std::ranges::any_of(*trial.container.secrets, is_given_by_combu))
    return Supervision::secrets;
  return std::nullopt;
}

Run with_supervised_containers(const Run& run, Images& images, bool copies_files, bool gives_secrets) {
  Run changed = run;
  for (Trial& trial : changed.experiment.trials)
    if (const auto use = use_of_agent(trial, copies_files, gives_secrets))
      trial = supervised_container(trial, *use, images.program_of(trial).value_or(ImageProgram{}),
                                   images.agent_for(trial), run.experiment);
  return changed;
}

class SupervisedEngine final : public Engine {
 public:
  SupervisedEngine(Engine& engine, AgentPrograms programs, const SupervisionLimits& limits)
      : engine_(engine), limits_(limits), images_(std::move(programs)), attempts_(engine, limits) {}

  Facts facts(std::stop_token stop) override { return engine_.facts(stop); }
  std::vector<Finding> diagnose(std::stop_token stop) override { return engine_.diagnose(stop); }
  std::vector<Gpu> gpus(std::stop_token stop) override { return engine_.gpus(stop); }
  std::vector<Error> check(const Run& run, std::stop_token stop) override;
  // A worker is not supervised: the engine below starts it.
  bool copies_files() const override { return engine_.copies_files(); }
  std::vector<StartLimit> limits(const Run& run, const Slots& capacity) override {
    return engine_.limits(run, capacity);
  }
  std::vector<Error> prepare(const Run& run, const std::function<void(const Preparation&)>& on_progress,
                             std::stop_token stop) override;
  StartResult start(const Run& run, const Trial& trial, int attempt, std::stop_token stop) override;
  void stop(const Key& key, std::optional<Seconds> grace, std::stop_token stop) override;
  std::vector<Observation> list(const Selector& selector, ListDetail detail, std::stop_token stop) override;
  void watch(const Selector& selector, const std::function<void(const Change&)>& on_change,
             std::stop_token stop) override;
  std::optional<Usage> usage(const std::string& id, std::stop_token stop) override;
  void logs(const Key& key, const LogOptions& options, const OnLogPiece& on_piece,
            std::stop_token stop) override;
  bool copy_out(const Key& key, const std::string& path,
                const std::function<void(std::string_view)>& on_bytes, std::stop_token stop) override;
  std::unique_ptr<ByteStream> exec(const Key& key, const std::vector<std::string>& argv,
                                   std::stop_token stop) override {
    return engine_.exec(key, argv, stop);
  }
  void acknowledge(const std::vector<Key>& keys) override {
    engine_.acknowledge(serves_by_agents() ? attempts_.acknowledge(keys) : keys);
  }
  Released release(const Selector& selector, const ReleaseCallbacks& callbacks,
                   std::stop_token stop) override {
    return engine_.release(selector, callbacks, stop);
  }

 private:
  std::optional<Supervision> use_of_agent(const Trial& trial) const {
    return workers::use_of_agent(trial, engine_.copies_files(), engine_.gives_secrets());
  }
  // True if the agents serve logs, usage and files. Else the agents only give secrets to programs.
  [[nodiscard]] bool serves_by_agents() const { return !engine_.copies_files(); }
  void await_begun(const SupervisedPtr& attempt, const std::stop_token& stop);
  SupervisedPtr find(const Key& key, const std::stop_token& stop);
  std::shared_ptr<AgentClient> join_restarted(const Key& key, const std::stop_token& stop);
  [[noreturn]] static void throw_lost(const Observation& container);

  [[nodiscard]] static std::chrono::steady_clock::time_point after(Seconds duration) {
    return std::chrono::steady_clock::now() +
           std::chrono::duration_cast<std::chrono::steady_clock::duration>(duration);
  }
  [[nodiscard]] std::chrono::steady_clock::time_point listing_limit() const {
    return after(limits_.listing_max);
  }

  bool must_ask(const Observation& container, ListDetail detail);
  // Returns the report of the engine below as that about the program.
  Observation of_program(const Observation& container) {
    return is_supervised(container) ? attempts_.take(container) : container;
  }

  Engine& engine_;
  const SupervisionLimits limits_;
  Images images_;
  SupervisedAttempts attempts_;
};

std::vector<Error> SupervisedEngine::check(const Run& run, std::stop_token stop) {
  attempts_.adopt(run.id);
  return engine_.check(
      with_supervised_containers(run, images_, engine_.copies_files(), engine_.gives_secrets()), stop);
}

std::vector<Error> SupervisedEngine::prepare(const Run& run,
                                             const std::function<void(const Preparation&)>& on_progress,
                                             std::stop_token stop) {
  attempts_.adopt(run.id);
  std::set<std::pair<std::string, std::string>> agent_images;
  for (const Trial& trial : run.experiment.trials)
    if (use_of_agent(trial)) agent_images.emplace(trial.image, trial.platform);
  std::vector<Error> lacking;
  std::mutex mutex;
  const auto take = [&](const Preparation& preparation) {
    if (preparation.kind == Preparation::Kind::found) {
      images_.set_program(preparation.name, preparation.platform, preparation.program);
      const std::string& platform = preparation.program.platform;
      if (agent_images.contains({preparation.name, preparation.platform}) && !platform.empty() &&
          !images_.has_agent_for(platform)) {
        const std::scoped_lock lock(mutex);
        lacking.emplace_back(
            ErrorKind::refused, preparation.name,
            fmt::format("the image is for {}, for which this combu has no agent, which trials "
                        "with files or secrets need here; use a released combu",
                        platform));
      }
    }
    if (on_progress) on_progress(preparation);
  };
  std::vector<Error> errors = engine_.prepare(run, take, stop);
  std::ranges::move(lacking, std::back_inserter(errors));
  return errors;
}

StartResult SupervisedEngine::start(const Run& run, const Trial& trial, int attempt, std::stop_token stop) {
  const auto use = use_of_agent(trial);
  if (!use) return engine_.start(run, trial, attempt, stop);
  const Key key{.run = run.id, .trial = trial.name, .attempt = attempt};
  std::optional<Delivery> delivery;
  if (*use == Supervision::secrets) {
    delivery = secrets_of(run, trial);
  } else if (awaits_files(trial)) {
    check_inputs(trial);
    delivery = files_of(trial);
  }
  if (!trial.process.entrypoint && !images_.program_of(trial)) prepare_image(*this, run, trial, stop);
  const Trial container =
      supervised_container(trial, *use, images_.program_of(trial).value_or(ImageProgram{}),
                           images_.agent_for(trial), run.experiment);
  expect_program(*container.process.cmd, trial.name);
  attempts_.expect(key, std::move(delivery));
  try {
    StartResult result = engine_.start(run, container, attempt, stop);
    if (auto* running = std::get_if<Running>(&result)) {
      running->observation.placement.supervisor_report.emplace();
      running->observation.placement.awaits_delivery = container.container.awaits_delivery;
      if (!serves_by_agents()) {
        running->observation.health = attempts_.take(running->observation).health;
        await_begun(attempts_.find(key), stop);
        return result;
      }
      running->observation = attempts_.take(running->observation);
      if (running->observation.phase == Phase::pending) return Accepted{};
    } else if (!std::holds_alternative<Accepted>(result)) {
      attempts_.give_up(key);
    }
    return result;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unavailable && error.kind() != ErrorKind::timeout) attempts_.give_up(key);
    throw;
  }
}

// Throws Error(refused) if the program has not begun. Its container does not run then.
void SupervisedEngine::await_begun(const SupervisedPtr& attempt, const std::stop_token& stop) {
  if (!attempt || attempts_.await_begun(attempt, after(limits_.begin_max), stop)) return;
  const Observation seen = attempts_.shown(attempt);
  const Key& key = seen.key;
  if (!seen.placement.start_error.empty())
    throw Error(ErrorKind::refused, key.trial, seen.placement.start_error);
  if (has_run(seen.phase)) return;  // the container has ended; the engine reports how
  engine_.stop(key, Seconds(0), stop);
  const std::string fault = attempts_.fault_of(attempt);
  throw Error(ErrorKind::refused, key.trial,
              fmt::format("the secrets could not be sent within {:g} s: {}", limits_.begin_max.count(),
                          fault.empty() ? "combu's agent in the container does not answer" : fault));
}

// Returns the attempt if it is supervised. Connects to its agent if this process has not.
SupervisedPtr SupervisedEngine::find(const Key& key, const std::stop_token& stop) {
  if (!serves_by_agents()) return nullptr;
  if (SupervisedPtr known = attempts_.find(key)) return known;
  // Of its own runs, this process knows all attempts.
  if (attempts_.is_adopted(key.run)) return nullptr;
  for (const Observation& seen :
       engine_.list({.run = key.run, .trials = {key.trial}}, ListDetail::full, stop))
    if (seen.key == key && is_supervised(seen)) return attempts_.connect_to(seen);
  return nullptr;
}

void SupervisedEngine::stop(const Key& key, std::optional<Seconds> grace, std::stop_token stop) {
  throw_if_cancelled(key, stop);
  const SupervisedPtr attempt = find(key, stop);
  if (attempt && !attempts_.end_of(attempt)) attempts_.await_joined(attempt, listing_limit(), stop);
  // If the agent does not answer, or waits for files, the container is stopped.
  const auto client = attempt && attempts_.runs(attempt) ? attempts_.client_of(attempt) : nullptr;
  if (client) {
    try {
      client->send(agent::Stop{.id = std::string(agent::k_supervised_id),
                               .grace_ms = grace ? static_cast<std::int64_t>(grace->count() * 1000) : -1});
      client->sync(stop);
      return;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unavailable) throw;
    }
  }
  if (attempt && attempts_.end_of(attempt)) return;
  engine_.stop(key, grace, stop);
}

std::vector<Observation> SupervisedEngine::list(const Selector& selector, ListDetail detail,
                                                std::stop_token stop) {
  std::vector<Observation> seen = engine_.list(selector, detail, stop);
  std::vector<SupervisedPtr> attempts(seen.size());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (must_ask(seen[i], detail)) attempts[i] = attempts_.connect_to(seen[i]);
    seen[i] = of_program(seen[i]);
  }
  // The programs of running containers may have ended.
  const auto until = listing_limit();
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (!attempts[i]) continue;
    throw_if_cancelled(seen[i].key, stop);
    if (!attempts_.end_of(attempts[i])) attempts_.await_joined(attempts[i], until, stop);
    seen[i] = attempts_.shown(attempts[i]);
  }
  return seen;
}

// True if the listing has to contain what the agent in the container knows: whether the program has begun,
// or, on an engine that does not copy files, ended.
bool SupervisedEngine::must_ask(const Observation& container, ListDetail detail) {
  if (!is_supervised(container) || container.phase != Phase::running || detail == ListDetail::basic)
    return false;
  // With thousands of containers, it takes seconds to ask all agents.
  return serves_by_agents() || detail == ListDetail::full || attempts_.is_adopted(container.key.run);
}

void SupervisedEngine::watch(const Selector& selector, const std::function<void(const Change&)>& on_change,
                             std::stop_token stop) {
  Subscription attempts(selector);
  attempts_.subscribe(attempts);
  const auto watch_below = [&](const std::function<void(const Change&)>& pass_on,
                               const std::stop_token& until) {
    const auto take = [&](const Change& change) {
      const auto* seen = std::get_if<Observation>(&change);
      pass_on(seen != nullptr ? Change(of_program(*seen)) : change);
    };
    engine_.watch(selector, take, until);
  };
  watch_with(attempts, on_change, stop, watch_below, [&] { attempts_.unsubscribe(attempts); });
}

std::optional<Usage> SupervisedEngine::usage(const std::string& id, std::stop_token stop) {
  const SupervisedPtr attempt = serves_by_agents() ? attempts_.find_by_id(id) : nullptr;
  if (!attempt) return engine_.usage(id, stop);
  if (!attempts_.runs(attempt)) return std::nullopt;
  const auto client = attempts_.client_of(attempt);
  return client ? client->usage(std::string(agent::k_supervised_id), stop) : std::nullopt;
}

// The agent has the two streams apart, and all of the log. The engine below has the rest of the log if the
// container has ended.
void SupervisedEngine::logs(const Key& key, const LogOptions& options, const OnLogPiece& on_piece,
                            std::stop_token stop) {
  throw_if_cancelled(key, stop);
  const SupervisedPtr attempt = find(key, stop);
  if (attempt) attempts_.await_joined(attempt, listing_limit(), stop);
  const auto read_below = [&] {
    LogOptions below = options;
    below.before_restart = attempt && attempts_.container_of(attempt).placement.is_restarted;
    engine_.logs(key, below, on_piece, stop);
  };
  if (!attempt || !attempts_.client_of(attempt)) return read_below();
  if (!attempts_.has_begun(attempt) &&
      !(options.follow && attempts_.await_begun(attempt, std::nullopt, stop)))
    return;
  const auto client = attempts_.await_client(attempt, stop);
  if (!client) return read_below();
  read_tail_first(options, on_piece, [&](const LogOptions& part, const OnLogPiece& sink) {
    const bool is_whole = client->read_log(std::string(agent::k_supervised_id), part,
                                           split_chunks_since(part.since, sink), stop);
    if (!is_whole) sink({.is_after_gap = true});
  });
}

bool SupervisedEngine::copy_out(const Key& key, const std::string& path,
                                const std::function<void(std::string_view)>& on_bytes, std::stop_token stop) {
  const SupervisedPtr attempt = find(key, stop);
  if (!attempt && serves_by_agents() && attempts_.is_adopted(key.run))
    throw Error(ErrorKind::not_found, key.trial, "the container does not exist any more");
  if (!attempt) return engine_.copy_out(key, path, on_bytes, stop);
  bool is_callers = false;  // an exception comes from `on_bytes`
  const auto pass_on = [&](std::string_view bytes) {
    is_callers = true;
    on_bytes(bytes);
    is_callers = false;
  };
  AgentClient::Position position;
  for (int failures = 0;;) {
    auto client = attempts_.await_client(attempt, stop);
    if (!client && !attempts_.container_of(attempt).placement.keeps_files)
      throw_lost(attempts_.container_of(attempt));
    const std::uint64_t before = position.bytes;
    try {
      if (!client) client = join_restarted(key, stop);
      return client->collect(std::string(agent::k_supervised_id), path, position, pass_on, stop);
    } catch (const Error& error) {
      // A container that is being started again does not run yet.
      const bool may_pass = error.kind() == ErrorKind::unavailable || error.kind() == ErrorKind::conflict;
      if (is_callers || !may_pass) throw;
      failures = position.bytes > before ? 0 : failures + 1;
      if (failures > k_resumptions_max) throw;
    }
    real_clock().wait(limits_.pause_min * (failures + 1), stop);
  }
}

// Connects to the agent in a container that the engine has started again after the end of the attempt.
std::shared_ptr<AgentClient> SupervisedEngine::join_restarted(const Key& key, const std::stop_token& stop) {
  auto client = std::make_shared<AgentClient>(
      engine_.exec(key, {std::string(k_program), "join", std::string(k_folder)}, stop), key.trial,
      AgentEvents{.on_welcome = [](agent::Welcome&&) {},
                  .on_started = [](agent::Started&&) {},
                  .on_refused = [](agent::Refused&&) {},
                  .on_ended = [](agent::Ended&&) {},
                  .on_listed = [] {},
                  .on_broken = [](const std::string&) {}});
  client->begin();
  attempts_.guard(client);
  return client;
}

void SupervisedEngine::throw_lost(const Observation& container) {
  if (!container.lost.empty()) throw Error(ErrorKind::lost, container.key.trial, container.lost);
  throw Error(ErrorKind::not_found, container.key.trial,
              "the container has ended before their collection; see `hold` and `keep: \"volume\"`");
}

}  // namespace
}  // namespace workers

Run with_supervised_containers(const Run& run, AgentPrograms programs) {
  workers::Images images(std::move(programs));
  return workers::with_supervised_containers(run, images, /*copies_files=*/false, /*gives_secrets=*/true);
}

std::unique_ptr<Engine> with_supervision(Engine& engine, AgentPrograms programs, SupervisionLimits limits) {
  return std::make_unique<workers::SupervisedEngine>(engine, std::move(programs), limits);
}

}  // namespace combu
