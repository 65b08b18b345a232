#pragma once
// The agent as the first process of a container, which runs the program of the container.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "combu/agent.hpp"

namespace combu::agent {

// Exit codes of shells: a program that cannot be executed, and (plus its number) a signal that ended a
// program.
inline constexpr int k_not_started = 126;
inline constexpr int k_signalled = 128;

// An environment variable whose value is the content of a file.
struct Variable {
  std::string name;
  std::string path;
};

struct Supervision {
  // The program with its arguments, its stop signal and so on. A client that starts it may add variables.
  Start start;
  // The following times are in nanoseconds. A program with `await` starts when a client has sent Start and
  // the inputs; without a client, the agent ends after this time. 0: the program starts at once.
  std::int64_t await = 0;
  // After the end of the program, the agent waits without a client for Forget for this time.
  std::int64_t hold = 0;
  std::vector<Variable> variables;
  // The folder of the agent stays when the engine starts the container again, and the outputs of the program
  // are in volumes that stay, too.
  bool keeps = false;
  // The engine has started the container again after its death. The agent does not run the program again, but
  // its clients can collect the outputs. Without a client, the agent ends after `hold`.
  bool is_restarted = false;
  std::int64_t refused_at = 0;  // when the program could not be started, by steady_time(); 0: never
  std::optional<int> exit_code = std::nullopt;  // set when the program has ended or could not be started
};

// Adds the variable of an argument `variable=NAME=PATH`. Returns false if it is another argument.
bool add_variable(std::string_view argument, std::vector<Variable>& variables);

// Reads the arguments of `agent supervise` behind FOLDER. Returns false if they are wrong.
bool read_supervision(const std::vector<std::string_view>& arguments, Supervision& supervision);

// Adds each variable as "NAME=VALUE" to `environment`. Returns a description of the failure, or an empty
// text.
std::string read_variables(const std::vector<Variable>& variables, std::vector<std::string>& environment);

// Returns the exit code that a shell would use.
int exit_code_of(const Ended& ended);
int exit_code_of(const Refused& refused);

// Returns the termination message of the container, see docs/agent.md. The text of `refused` is not empty.
std::string report_of_end(const Ended& ended);
std::string report_of_refusal(const Refused& refused);

}  // namespace combu::agent
