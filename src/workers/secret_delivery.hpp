#pragma once
// Secrets for the program of a container whose first process is the agent.

#include <functional>
#include <stop_token>
#include <string>

#include "combu/engine.hpp"

namespace combu::workers {

// `on_refused` gets the reason if the program cannot be started, before the container ends.
using OnRefused = std::function<void(const std::string& reason)>;

// Throws Error(refused) if the variables are too large for the agent.
void check_size(const Trial& trial, const RevealedSecrets& secrets);

// Connects to the agent in a running container, which waits for the secrets, sends them, and blocks until the
// program has begun or the container has ended. Repeatable: a program that has begun gets nothing. Throws
// Error: refused if the program cannot be started, unavailable if the agent does not answer.
void deliver_secrets(Engine& engine, const Key& key, const Trial& trial, const RevealedSecrets& secrets,
                     const OnRefused& on_refused, const std::stop_token& stop);

}  // namespace combu::workers
