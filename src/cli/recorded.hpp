#pragma once
// The runs on record, for commands that are about one of them.

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/invocation.hpp"
#include "cli/session.hpp"
#include "combu/record.hpp"

namespace combu {

// Who calls, also where no file is named.
[[nodiscard]] Caller caller_for(const Invocation& invocation);

// The invocation's record. Throws Error.
[[nodiscard]] Record open_record(const Invocation& invocation);

// The run of this id, or, when it is empty, the last one of the invocation's file. Throws Error(not_found).
[[nodiscard]] RunEntry find_run(Record& record, const Invocation& invocation, const std::string& id);

// The address that --engine names, as runs have it; empty when it names none. Throws Error.
[[nodiscard]] std::string address_given(const Invocation& invocation);

// The same on the engine that the run was begun on, unless --engine names one.
[[nodiscard]] Invocation on_its_engine(Invocation invocation, const RunEntry& entry);

// Throws Error(conflict) when the session's engine is another one: what runs elsewhere would seem to be gone.
void expect_its_engine(const Session& session, const RunEntry& entry);

// What a person types to go on with the run. `engine`: as for command_line().
[[nodiscard]] std::string resume_line(const RunId& run, std::string_view engine);

// "3 waiting, 12 succeeded"
[[nodiscard]] std::string counts_of(const std::vector<Past>& past);

// --run ID.
void add_run_option(CLI::App& command, std::string& run);

}  // namespace combu
