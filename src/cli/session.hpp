#pragma once
// The session of one command: its progress, its signals, its engine.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "combu/progress.hpp"
#include "combu/session.hpp"

namespace combu {

[[nodiscard]] std::unique_ptr<Progress> open_progress(const Invocation& invocation);

// One command: its progress, and the sessions that its use cases open.
class CommandSessions {
 public:
  explicit CommandSessions(std::unique_ptr<Progress> progress) : progress_(std::move(progress)) {}

  [[nodiscard]] Progress& progress() { return *progress_; }
  // As OpenSession. This object outlives the session.
  [[nodiscard]] std::shared_ptr<Session> open(const Invocation& invocation);
  [[nodiscard]] OpenSession opener() {
    return [this](const Invocation& invocation) { return open(invocation); };
  }
  // Of a use case whose sessions have ended.
  [[nodiscard]] int exit_code(Result result) const;
  // Shows the error that ended a use case.
  [[nodiscard]] int exit_code(const Error& error);

 private:
  struct Opened;

  std::unique_ptr<Progress> progress_;
  // Of the last session:
  std::string engine_source_;
  int signal_ = 0;
};

// The exit code of a command that opens one session at once.
[[nodiscard]] int in_session(const Invocation& invocation, const std::function<Result(Session&)>& body);

[[nodiscard]] NamedEngine named_engine(const std::string& given);
// The address that --engine names, as runs have it; empty if it names none. Throws Error.
[[nodiscard]] std::string address_given(const Invocation& invocation);

// What is printed of an error that ends the program. `engine_source`: who named the engine's address, if
// that is known.
[[nodiscard]] std::string error_line(const Error& error, std::string_view engine_source = {});

// 0 to 3 as in cli.hpp; of an interrupted use case 128 and the signal's number.
[[nodiscard]] int exit_code(Result result, int signal);
[[nodiscard]] int exit_code(ErrorKind kind);

}  // namespace combu
