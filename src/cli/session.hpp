#pragma once
// Creates the objects that a command needs: progress, signal handling, engine and session.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "combu/progress.hpp"
#include "combu/session.hpp"

namespace combu {

[[nodiscard]] std::unique_ptr<Progress> open_progress(const Invocation& invocation);

// The progress of one command, and the sessions that the command opens.
class CommandSessions {
 public:
  explicit CommandSessions(std::unique_ptr<Progress> progress) : progress_(std::move(progress)) {}

  [[nodiscard]] Progress& progress() { return *progress_; }
  // Opens a session, as OpenSession does. The CommandSessions must outlive the session.
  [[nodiscard]] std::shared_ptr<Session> open(const Invocation& invocation);
  [[nodiscard]] OpenSession opener() {
    return [this](const Invocation& invocation) { return open(invocation); };
  }
  // Returns the exit code for `result`. All sessions of the command must have ended.
  [[nodiscard]] int exit_code(Result result) const;
  // Prints the error that ended the command, and returns the exit code.
  [[nodiscard]] int exit_code(const Error& error);

 private:
  struct Opened;

  std::unique_ptr<Progress> progress_;
  // For the last session: its engine and invocation, and the signal that the session received.
  EngineName engine_;
  Invocation invocation_;
  int signal_ = 0;
};

// Calls `body` with a session, prints the error that `body` throws, and returns the exit code.
[[nodiscard]] int in_session(const Invocation& invocation, const std::function<Result(Session&)>& body);

[[nodiscard]] NamedEngine named_engine(const std::string& given);
// Returns the engine's address given by --engine, in the form in which the record stores the addresses of
// runs. Returns an empty string if --engine is not given. Throws Error if the address is invalid.
[[nodiscard]] std::string address_given(const Invocation& invocation);

// Returns the line that reports an error which ends the program. `engine`: the session's engine, if known.
[[nodiscard]] std::string error_line(const Error& error, const EngineName& engine = {});

// Returns 0 to 3 as in cli.hpp or, if the command was interrupted, 128 plus the signal's number.
[[nodiscard]] int exit_code(Result result, int signal);
[[nodiscard]] int exit_code(ErrorKind kind);

}  // namespace combu
