#pragma once
// An attempt that has a place in a worker: its start, its stop and its log.

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "combu/agent.hpp"
#include "combu/engine.hpp"
#include "workers/attempt.hpp"
#include "workers/registry.hpp"

namespace combu::workers {

// Thread-safe. No function may be called with the mutex of the registry locked.
struct AssignedAttempt {
  WorkerPtr worker;
  std::shared_ptr<Attempt> attempt;

  // False if the attempt has ended.
  [[nodiscard]] bool is_alive() const;
  // Starts the attempt of a trial of `of_run`, which has a place in the worker. `image`: the program of the
  // trial's image. Blocks until the attempt runs or has ended. Returns nullopt if the worker could not be
  // created, so that the caller must find another place. Throws the errors of Engine::start().
  [[nodiscard]] std::optional<Observation> start(const Run& of_run, const Trial& trial,
                                                 const std::optional<ImageProgram>& image,
                                                 const std::stop_token& stop) const;
  // Like Engine::stop().
  void end(std::optional<Seconds> grace, const std::stop_token& stop) const;
  // Returns the attempt's log if this process has all of it.
  [[nodiscard]] std::optional<std::vector<agent::LogChunk>> whole_log() const;
  // Passes the log that the agent has left in the container of its worker, which has ended, to `sink`. If the
  // log is lost of an attempt whose end is known, lacks_log() is true from now on; else throws
  // Error(not_found).
  void read_left_log(const std::function<void(const agent::LogChunk&)>& sink,
                     const std::stop_token& stop) const;
  // True if a part of the log is lost with the worker, or because the agent could not store it.
  [[nodiscard]] bool lacks_log() const;

 private:
  bool run(const agent::Start& message, const Trial& trial, std::vector<std::string>& digests,
           const std::stop_token& stop) const;
  void give_up() const;
  void give_up_locked() const;
};

}  // namespace combu::workers
