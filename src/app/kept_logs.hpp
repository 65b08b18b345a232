#pragma once
// Logs and metrics in the telemetry database. They outlive their containers.

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

// Opens the telemetry database of a run for writing. `folder`: the result of state_folder(). If the database
// cannot be opened, shows an error and returns nullptr.
[[nodiscard]] std::unique_ptr<Telemetry> open_telemetry(Session& session, const std::string& folder,
                                                        const RunId& run);

// Returns the attempt that has the log and the metrics of a trial. For a skipped trial, this is the
// pseudo-attempt k_adopted with the data of the equal trial.
[[nodiscard]] int told_attempt(const TrialEntry& entry);

// Opens the telemetry database of a run for reading. `folder`: the result of state_folder(). Returns nullptr
// if there is no database, or if it cannot be read.
[[nodiscard]] std::unique_ptr<Telemetry> kept_logs_of(const RunId& run, const std::string& folder);

// Returns a function that reads the last line of an attempt's log from `telemetry`, which must outlive the
// function. If `telemetry` is nullptr, returns an empty function. The function answers only the first 20,000
// calls, which take a second.
[[nodiscard]] LastLine last_lines_in(Telemetry* telemetry);

// Prints one note if trials with `metrics` have reported no metric and have not failed.
void tell_silent(Session& session, const Experiment& experiment, const Outcome& outcome,
                 Telemetry& telemetry);

// Ingests the missing logs and metrics of these attempts of a recorded run. Returns the attempts whose logs
// could not be ingested. Throws Error: cancelled; also if the run cannot be read, or if no log of the run can
// be kept.
// `containers`:
// - stay: the logs of running attempts stay open; a later call continues them
// - about_to_go: all logs are completed, since nothing can be read later
enum class Containers { stay, about_to_go };
[[nodiscard]] Uncollected keep_logs(Session& session, Record& record, const std::string& folder,
                                    const RunId& run, const std::vector<Observation>& attempts,
                                    Containers containers);
// Prints one line about attempts whose logs could not be kept and whose containers stay. Prints nothing if
// there are none.
void note_unkept_logs(Session& session, const Uncollected& unkept);

}  // namespace combu
