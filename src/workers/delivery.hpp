#pragma once
// An agent receives a Delivery before the program of its container begins.

#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "combu/engine.hpp"
#include "combu/inputs.hpp"
#include "workers/agent_client.hpp"

namespace combu::workers {

struct Delivery {
  std::vector<Input> inputs;
  InputOwner owner;
  std::map<std::string, std::string> files;  // further files, from absolute paths to contents
  RevealedSecrets secrets;
  std::shared_ptr<const SecretValues> values;  // those to which `secrets` refers
};

// Returns the inputs and the file of params of a trial.
[[nodiscard]] Delivery files_of(const Trial& trial);
// Returns the secrets of a trial. Throws Error(refused) if a value is unknown, or the variables are too large
// for the agent.
[[nodiscard]] Delivery secrets_of(const Run& run, const Trial& trial);

// Starts the program: sends Start and the files. Before the program can begin, `on_digests` gets the
// content_digest() of each input. Does not start the program if `quit` requests a stop. Throws Error: refused
// if an input cannot be read, unavailable if the connection breaks.
void send(AgentClient& client, const Delivery& delivery,
          const std::function<void(std::vector<std::string>&&)>& on_digests, const std::stop_token& quit);

}  // namespace combu::workers
