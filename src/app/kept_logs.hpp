#pragma once
// The logs that outlive their containers.

#include <memory>
#include <string>
#include <vector>

#include "app/uncollected.hpp"
#include "combu/progress.hpp"
#include "combu/record.hpp"
#include "combu/run.hpp"
#include "combu/session.hpp"
#include "combu/telemetry.hpp"

namespace combu {

// `folder`: state_folder(), like the next one. Where the logs of a run are kept; nullptr, which is told,
// where that cannot be used.
[[nodiscard]] std::unique_ptr<Telemetry> open_telemetry(Session& session, const std::string& folder,
                                                        const RunId& run);

// Whose log and numbers are the trial's: of one that was skipped those of the equal one.
[[nodiscard]] int told_attempt(const TrialEntry& entry);

// The logs that are kept of a run; nullptr: none are, or they cannot be read.
[[nodiscard]] std::unique_ptr<Telemetry> kept_logs_of(const RunId& run, const std::string& folder);

// The last lines of logs that are kept in `telemetry`, which outlives this; nullptr: of none. Of the first
// 20,000 that are asked for, which takes a second.
[[nodiscard]] LastLine last_lines_in(Telemetry* telemetry);

// Says once that trials which have not failed have told none of the metrics that they were to tell.
void tell_silent(Session& session, const Experiment& experiment, const Outcome& outcome,
                 Telemetry& telemetry);

// Takes in what is missing of the logs of these attempts of a run that is on record, and their metrics.
// `containers`: about_to_go: nothing more can be had later; stay: of those that run it goes on. Returns the
// attempts that failed. Throws Error: cancelled; the run cannot be read, or none of its logs can be kept.
enum class Containers { stay, about_to_go };
[[nodiscard]] Uncollected keep_logs(Session& session, Record& record, const std::string& folder,
                                    const RunId& run, const std::vector<Observation>& attempts,
                                    Containers containers);
// Reports attempts whose logs could not be kept and whose containers stay, on one line; nothing if there are
// none.
void note_unkept_logs(Session& session, const Uncollected& unkept);

}  // namespace combu
