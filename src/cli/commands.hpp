#pragma once
// Each function adds a command to the parser. If the user gives the command, the parser sets `action` to the
// function that executes the command and returns the exit code.

#include <functional>
#include <string_view>

#include "cli/command_line.hpp"
#include "combu/session.hpp"

namespace combu {

using Action = std::function<int()>;

void add_validate(CommandLine& line, const Invocation& invocation, Action& action);
void add_plan(CommandLine& line, const Invocation& invocation, Action& action);
void add_run(CommandLine& line, const Invocation& invocation, Action& action);
void add_retry(CommandLine& line, const Invocation& invocation, Action& action);
void add_apply(CommandLine& line, const Invocation& invocation, Action& action);
void add_attach(CommandLine& line, const Invocation& invocation, Action& action);
void add_set(CommandLine& line, const Invocation& invocation, Action& action);
void add_pause(CommandLine& line, const Invocation& invocation, Action& action);
void add_unpause(CommandLine& line, const Invocation& invocation, Action& action);
void add_kill(CommandLine& line, const Invocation& invocation, Action& action);
void add_ps(CommandLine& line, const Invocation& invocation, Action& action);
void add_logs(CommandLine& line, const Invocation& invocation, Action& action);
void add_why(CommandLine& line, const Invocation& invocation, Action& action);
void add_show(CommandLine& line, const Invocation& invocation, Action& action);
void add_events(CommandLine& line, const Invocation& invocation, Action& action);
void add_times(CommandLine& line, const Invocation& invocation, Action& action);
void add_results(CommandLine& line, const Invocation& invocation, Action& action);
void add_compare(CommandLine& line, const Invocation& invocation, Action& action);
void add_plot(CommandLine& line, const Invocation& invocation, Action& action);
void add_export(CommandLine& line, const Invocation& invocation, Action& action);
void add_rm(CommandLine& line, const Invocation& invocation, Action& action);
void add_prune(CommandLine& line, const Invocation& invocation, Action& action);
void add_wait(CommandLine& line, const Invocation& invocation, Action& action);
void add_stop(CommandLine& line, const Invocation& invocation, Action& action);
void add_doctor(CommandLine& line, const Invocation& invocation, Action& action);
void add_init(CommandLine& line, Action& action);
void add_schema(CommandLine& line, Action& action);
void add_completion(CommandLine& line, const Invocation& invocation, Action& action);
void add_version(CommandLine& line, Action& action);

// Returns "combu 0.1.0"
[[nodiscard]] std::string_view version_text();

}  // namespace combu
