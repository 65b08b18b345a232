#pragma once
// The runs on record, for commands that are about one of them.

#include <cstdint>
#include <string>
#include <vector>

#include "app/invocation.hpp"
#include "app/session.hpp"
#include "combu/record.hpp"

namespace combu {

// Who calls, also where no file is named.
[[nodiscard]] Caller caller_for(const Invocation& invocation);

// The invocation's record. Throws Error.
[[nodiscard]] Record open_record(const Invocation& invocation, Record::Use use = Record::Use::all);

// The run of this id, or, when it is empty, the last one of the invocation's file or the default one. Throws
// Error(not_found).
[[nodiscard]] RunEntry find_run(Record& record, const Invocation& invocation, const std::string& id);

// The same, but when the id is empty the newest one of the file that somebody is at work on, else its last
// one.
[[nodiscard]] RunEntry find_owned_run(Record& record, const Invocation& given, const std::string& id);

// not_found: nobody is at work on it. `engine`: as for command_line().
[[nodiscard]] Error no_owner(const RunEntry& entry, std::string_view engine);

// What to do if all runs that would be meant are on the simulated engine.
inline constexpr std::string_view k_only_simulated =
    "only runs on the simulated engine are on record; `--engine simulated:` chooses the last one";

// True if --engine names the simulated engine. Only then "the last run" is one on it.
[[nodiscard]] bool means_simulated(const Invocation& invocation);

// The same on the engine that the run was begun on, unless --engine names one.
[[nodiscard]] Invocation on_its_engine(Invocation invocation, const RunEntry& entry);

// Throws Error(conflict) when the session's engine is another one: what runs elsewhere would seem to be gone.
void expect_its_engine(const Session& session, const RunEntry& entry);

// True if the run fails by one of its trials: then `run --wait` ends with 1.
[[nodiscard]] bool any_unsuccessful(const Experiment& experiment, const std::vector<Past>& past);

// Whether trials are left that only a process at work on the run goes on with; those that run are not.
[[nodiscard]] bool any_left(const TrialCounts& counts);

// "3 waiting, 12 succeeded"
[[nodiscard]] std::string counts_of(const std::vector<Past>& past);

// The trial of this name. Throws Error(not_found).
[[nodiscard]] TrialIndex find_trial(const Experiment& experiment, const std::string& name);

}  // namespace combu
