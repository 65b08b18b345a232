#pragma once
// A command that talks to an engine: its progress, its signals, its engine.

#include <fstream>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "cli/invocation.hpp"
#include "combu/engine.hpp"
#include "combu/run.hpp"

namespace combu {

class Session {
 public:
  // Starts threads. Connects to nothing.
  Session(const Invocation& invocation, std::unique_ptr<Progress> progress);

  [[nodiscard]] Progress& progress() { return *progress_; }
  [[nodiscard]] Engine& engine() { return traced_ ? *traced_ : *engine_; }
  [[nodiscard]] std::stop_token stop() const { return interrupts_.token(); }
  // 130 or 143 after the first signal, 0 while there was none.
  [[nodiscard]] int signal_code() const { return interrupts_.signal() == 0 ? 0 : 128 + interrupts_.signal(); }
  // Who named the engine's address: "--engine", "DOCKER_HOST"; empty for the simulated one.
  [[nodiscard]] const std::string& engine_source() const { return engine_source_; }
  // The address that --engine gave; empty for none.
  [[nodiscard]] const std::string& given_engine() const { return given_engine_; }
  [[nodiscard]] const std::string& engine_address() const { return engine_address_; }
  // The engine, patient: for what has already talked to it. Its repeats are told, though not each.
  [[nodiscard]] std::unique_ptr<Engine> patient_engine();

 private:
  void leave(bool as_json);

  std::unique_ptr<Progress> progress_;
  Interrupts interrupts_;
  std::ofstream trace_;
  std::string given_engine_;
  std::string engine_source_;
  std::string engine_address_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Engine> traced_;
};

// Makes a session, and gives the exit code of `body`, or the one of the signal that cancelled it.
[[nodiscard]] int in_session(const Invocation& invocation, std::unique_ptr<Progress> progress,
                             const std::function<int(Session&)>& body);
[[nodiscard]] int in_session(const Invocation& invocation, const std::function<int(Session&)>& body);

}  // namespace combu
