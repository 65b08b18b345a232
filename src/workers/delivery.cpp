#include "workers/delivery.hpp"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "combu/agent.hpp"
#include "workers/agent_files.hpp"
#include "workers/attempt.hpp"

namespace combu::workers {
namespace {

agent::Start start_with(const Delivery& delivery) {
  const bool has_files =
      !delivery.inputs.empty() || !delivery.files.empty() || !delivery.secrets.files.empty();
  agent::Start start{.id = std::string(agent::k_supervised_id),
                     .awaits_inputs = has_files ? std::uint8_t{1} : std::uint8_t{0}};
  for (const auto& [name, value] : delivery.secrets.variables)
    start.env.push_back(fmt::format("{}={}", name, value));
  return start;
}

}  // namespace

Delivery files_of(const Trial& trial) {
  return {.inputs = trial.inputs,
          .owner = input_owner(trial),
          .files = provided_files(trial),
          .secrets = {},
          .values = nullptr};
}

Delivery secrets_of(const Run& run, const Trial& trial) {
  Delivery delivery{.inputs = {},
                    .owner = input_owner(trial),
                    .files = {},
                    .secrets = reveal_secrets(run, trial),
                    .values = run.secrets};
  check_size(start_with(delivery), trial.name);
  return delivery;
}

void send(AgentClient& client, const Delivery& delivery,
          const std::function<void(std::vector<std::string>&&)>& on_digests, const std::stop_token& quit) {
  const std::string id(agent::k_supervised_id);
  agent::Start start = start_with(delivery);
  const bool has_files = start.awaits_inputs != 0;
  client.send(std::move(start));
  if (!has_files) return;
  std::map<std::string, std::string> files = delivery.files;
  for (const auto& [target, content] : delivery.secrets.files) files.emplace(target, content);
  const auto put = [&](std::string_view bytes) {
    for (std::size_t at = 0; at < bytes.size(); at += agent::k_part_max)
      client.send(agent::Put{.id = id, .bytes = std::string(bytes.substr(at, agent::k_part_max))});
    return !quit.stop_requested();
  };
  auto digests = pack_inputs(delivery.inputs, delivery.owner, put, files);
  if (!digests) return;
  on_digests(*std::move(digests));
  client.send(agent::Put{.id = id, .bytes = {}, .is_last = 1});
}

}  // namespace combu::workers
