#pragma once
// Each command makes itself known to the parser, and leaves what is to be done in `action` when it was
// chosen.

#include <CLI/CLI.hpp>
#include <functional>

#include "cli/invocation.hpp"

namespace combu {

using Action = std::function<int()>;

void add_validate(CLI::App& app, const Invocation& invocation, Action& action);
void add_plan(CLI::App& app, const Invocation& invocation, Action& action);
void add_run(CLI::App& app, const Invocation& invocation, Action& action);
void add_retry(CLI::App& app, const Invocation& invocation, Action& action);
void add_apply(CLI::App& app, const Invocation& invocation, Action& action);
void add_attach(CLI::App& app, const Invocation& invocation, Action& action);
void add_set(CLI::App& app, const Invocation& invocation, Action& action);
void add_pause(CLI::App& app, const Invocation& invocation, Action& action);
void add_resume(CLI::App& app, const Invocation& invocation, Action& action);
void add_kill(CLI::App& app, const Invocation& invocation, Action& action);
void add_ps(CLI::App& app, const Invocation& invocation, Action& action);
void add_logs(CLI::App& app, const Invocation& invocation, Action& action);
void add_why(CLI::App& app, const Invocation& invocation, Action& action);
void add_show(CLI::App& app, const Invocation& invocation, Action& action);
void add_events(CLI::App& app, const Invocation& invocation, Action& action);
void add_times(CLI::App& app, const Invocation& invocation, Action& action);
void add_results(CLI::App& app, const Invocation& invocation, Action& action);
void add_compare(CLI::App& app, const Invocation& invocation, Action& action);
void add_plot(CLI::App& app, const Invocation& invocation, Action& action);
void add_export(CLI::App& app, const Invocation& invocation, Action& action);
void add_rm(CLI::App& app, const Invocation& invocation, Action& action);
void add_prune(CLI::App& app, const Invocation& invocation, Action& action);
void add_wait(CLI::App& app, const Invocation& invocation, Action& action);
void add_stop(CLI::App& app, const Invocation& invocation, Action& action);
void add_init(CLI::App& app, Action& action);
void add_schema(CLI::App& app, Action& action);
void add_completion(CLI::App& app, const Invocation& invocation, Action& action);
void add_version(CLI::App& app, Action& action);

// "combu 0.1.0"
[[nodiscard]] std::string version_text();

}  // namespace combu
