#include "workers/secret_delivery.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "combu/agent.hpp"
#include "combu/inputs.hpp"
#include "workers/agent_client.hpp"
#include "workers/attempt.hpp"
#include "workers/container.hpp"

namespace combu::workers {
namespace {

constexpr std::chrono::seconds k_answer_limit{15};
constexpr std::chrono::seconds k_tries_limit{30};  // a slow engine starts the agent late
constexpr Seconds k_try_pause{0.1};

// Holds what the agent has reported on one connection.
struct Conversation {
  std::mutex mutex;
  std::condition_variable_any changed;
  bool is_listed = false;
  bool has_begun = false;  // the program runs or has run
  std::optional<agent::Refused> refused;
  std::optional<std::string> broken;

  template <class Change>
  auto on(Change change) {
    return [this, change](auto&&... of) {
      const std::scoped_lock lock(mutex);
      change(*this, std::forward<decltype(of)>(of)...);
      changed.notify_all();
    };
  }
  AgentEvents events() {
    return {
        .on_welcome = [](agent::Welcome&&) {},
        .on_started = on([](Conversation& it, agent::Started&&) { it.has_begun = true; }),
        .on_refused = on([](Conversation& it, agent::Refused&& refused) { it.refused = std::move(refused); }),
        .on_ended = on([](Conversation& it, agent::Ended&&) { it.has_begun = true; }),
        .on_listed = on([](Conversation& it) { it.is_listed = true; }),
        .on_broken = on([](Conversation& it, const std::string& why) { it.broken = why; })};
  }
};

agent::Start start_with(const RevealedSecrets& secrets) {
  agent::Start start{.id = std::string(agent::k_supervised_id),
                     .awaits_inputs = secrets.files.empty() ? std::uint8_t{0} : std::uint8_t{1}};
  for (const auto& [name, value] : secrets.variables) start.env.push_back(fmt::format("{}={}", name, value));
  return start;
}

void send(AgentClient& client, const Trial& trial, const RevealedSecrets& secrets) {
  const std::string id(agent::k_supervised_id);
  client.send(start_with(secrets));
  if (secrets.files.empty()) return;
  std::map<std::string, std::string> files;
  for (const auto& [target, content] : secrets.files) files.emplace(target, content);
  const auto put = [&](std::string_view bytes) {
    for (std::size_t at = 0; at < bytes.size(); at += agent::k_part_max)
      client.send(agent::Put{.id = id, .bytes = std::string(bytes.substr(at, agent::k_part_max))});
    return true;
  };
  (void)pack_inputs({}, input_owner(trial), put, files);
  client.send(agent::Put{.id = id, .bytes = {}, .is_last = 1});
}

// Returns false if the program has not begun, and sets `why` if the connection has ended.
bool try_to_deliver(Engine& engine, const Key& key, const Trial& trial, const RevealedSecrets& secrets,
                    const OnRefused& on_refused, std::string& why, const std::stop_token& stop) {
  Conversation told;
  AgentClient client(engine.exec(key, {std::string(k_program), "join", std::string(k_folder)}, stop),
                     key.trial, told.events());
  client.begin();
  std::unique_lock lock(told.mutex);
  const auto await = [&](const auto& is_settled) {
    const bool is_in_time = told.changed.wait_for(lock, stop, k_answer_limit, is_settled);
    if (stop.stop_requested()) throw Error(ErrorKind::cancelled, key.trial, "cancelled");
    return is_in_time;
  };
  if (!await([&] { return told.is_listed || told.broken; })) return false;
  if (!told.has_begun && !told.broken) {
    lock.unlock();
    send(client, trial, secrets);
    lock.lock();
    if (!await([&] { return told.has_begun || told.refused || told.broken; })) return false;
  }
  if (told.refused) {
    const std::string reason = reason_of(*told.refused, {told.refused->text});
    on_refused(reason);
    throw Error(ErrorKind::refused, key.trial, reason);
  }
  if (told.broken) why = *told.broken;
  return told.has_begun;
}

}  // namespace

void check_size(const Trial& trial, const RevealedSecrets& secrets) {
  check_size(start_with(secrets), trial.name);
}

void deliver_secrets(Engine& engine, const Key& key, const Trial& trial, const RevealedSecrets& secrets,
                     const OnRefused& on_refused, const std::stop_token& stop) {
  const auto give_up_at = std::chrono::steady_clock::now() + k_tries_limit;
  std::string why = "the agent does not answer";
  while (std::chrono::steady_clock::now() < give_up_at) {
    try {
      if (try_to_deliver(engine, key, trial, secrets, on_refused, why, stop)) return;
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::refused || error.kind() == ErrorKind::cancelled) throw;
      // The container has ended; the engine reports how.
      if (error.kind() == ErrorKind::not_found || error.kind() == ErrorKind::conflict) return;
      why = error.message();
    }
    real_clock().wait(k_try_pause, stop);
    throw_if_cancelled(key, stop);
  }
  throw Error(ErrorKind::unavailable, key.trial, fmt::format("the secrets cannot be delivered: {}", why));
}

}  // namespace combu::workers
