// The workers of the simulated engine: containers that run a simulated agent, and the connections to agents.

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>

#include "agent.hpp"
#include "combu/simulated.hpp"
#include "script.hpp"

namespace combu {
namespace {

// True if the container runs the program of combu's agent: [PATH, "worker", FOLDER, IDLE, NOTE, VARIABLE...].
bool runs_agent(const Trial& trial) {
  const auto& entrypoint = trial.process.entrypoint;
  return trial.container.provided && entrypoint && entrypoint->size() >= 5 &&
         entrypoint->at(0) == trial.container.provided->path && entrypoint->at(1) == "worker";
}

}  // namespace

bool World::run_agent(const Container& container, const Trial& trial, const Script& script, Instant now) {
  if (!runs_agent(trial)) return false;
  const std::vector<std::string>& entrypoint = *trial.process.entrypoint;
  const std::string name = trial.name;
  std::map<std::string, std::string>& files = belongings_[name].files;
  files = script.files;
  AgentSurroundings around{.options = options_,
                           .random = [this] { return random_(); },
                           .schedule =
                               [this, name](Instant at, AgentDue what, std::uint64_t attempt) {
                                 const Container& owner = containers_.at(name);
                                 dues_.push({.at = at,
                                             .order = ++counter_,
                                             .name = name,
                                             .id = owner.seen.id,
                                             .what = Due::What::agent,
                                             .agent = what,
                                             .attempt = attempt});
                               },
                           .files = files,
                           .executions = executions_,
                           .memory = trial.slots.memory,
                           .worker = container.seen.key};
  agents_.insert_or_assign(
      name, std::make_shared<SimulatedAgent>(std::move(around), entrypoint[2],
                                             Seconds(parse_number<double>(entrypoint[3]).value_or(0)),
                                             entrypoint[4], now));
  return true;
}

SimulatedAgent* World::agent_of(const Key& key) {
  const auto found = agents_.find(key.trial);
  return found == agents_.end() || find(key) == nullptr ? nullptr : found->second.get();
}

std::shared_ptr<AgentConnection> World::exec(const Key& key, const std::vector<std::string>& argv,
                                             Instant now) {
  enter(now);
  const Container* found = find(key);
  if (found == nullptr) throw Error(ErrorKind::not_found, key.trial, "no such trial on the engine");
  if (found->seen.phase != Phase::running)
    throw Error(ErrorKind::conflict, key.trial, "the container does not run");
  SimulatedAgent* agent = agent_of(key);
  if (agent == nullptr || argv.size() != 3 || argv[1] != "join" || argv[2] != agent->folder())
    throw Error(ErrorKind::refused, key.trial,
                fmt::format("the simulated engine cannot execute \"{}\"", argv.empty() ? "" : argv.front()));
  std::shared_ptr<AgentConnection> connection = agent->join();
  try {
    leave(now);
  } catch (const Error&) {
    close(*connection, key, now);
    throw;
  }
  return connection;
}

void World::write(AgentConnection& connection, const Key& key, std::string_view bytes, Instant now) {
  advance(now);
  SimulatedAgent* agent = agent_of(key);
  if (connection.is_over || agent == nullptr)
    throw Error(ErrorKind::unavailable, key.trial, "the connection to the agent has ended");
  agent->receive(connection, bytes, now);
}

void World::close(AgentConnection& connection, const Key& key, Instant now) {
  if (SimulatedAgent* agent = agent_of(key); agent != nullptr && !connection.is_over)
    agent->close(connection, now);
  connection.is_over = true;
}

}  // namespace combu
