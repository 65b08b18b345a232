#pragma once
// What a use case works with: the progress that it shows, the engine, and the token that stops it.

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "app/invocation.hpp"
#include "app/result.hpp"
#include "combu/engine.hpp"
#include "combu/progress.hpp"

namespace combu {

// The names of an engine's address.
struct EngineName {
  std::string address;     // canonical, as runs have it on record
  std::string given = {};  // what --engine said; empty if it was not given
  std::string source =
      {};  // who named the address: "--engine", "DOCKER_HOST"; empty for the simulated engine
};

class Session {
 public:
  // `progress` and `engine` outlive it. `stop`: set by a signal.
  Session(Progress& progress, Engine& engine, EngineName name, std::stop_token stop)
      : progress_(progress), engine_(engine), name_(std::move(name)), stop_(std::move(stop)) {}

  [[nodiscard]] Progress& progress() { return progress_; }
  [[nodiscard]] Engine& engine() { return engine_; }
  [[nodiscard]] std::stop_token stop() const { return stop_; }
  [[nodiscard]] const std::string& engine_source() const { return name_.source; }
  [[nodiscard]] const std::string& given_engine() const { return name_.given; }
  [[nodiscard]] const std::string& engine_address() const { return name_.address; }
  // The engine, patient: for what has already talked to it. Its repeats are told, though not each.
  [[nodiscard]] std::unique_ptr<Engine> patient_engine();

 private:
  Progress& progress_;
  Engine& engine_;
  EngineName name_;
  std::stop_token stop_;
};

// Opens the invocation's engine and calls `body` with a session. An error of either is shown, not thrown, and
// returned as its Result. `cli` passes it to the use cases: it knows the engines.
using OpenSession =
    std::function<Result(const Invocation& invocation, const std::function<Result(Session&)>& body)>;

}  // namespace combu
