#pragma once
// Stores logs and metrics in the telemetry database, where they outlive their containers.

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

// Returns the number of the attempt that has the trial's log and metrics. For a skipped trial, returns the
// pseudo-attempt k_adopted, which has the log and metrics of the equal trial.
[[nodiscard]] int telemetry_attempt(const TrialEntry& entry);

// Opens the telemetry database of a run for reading. `folder`: the result of state_folder(). Returns nullptr
// if there is no database, or if it cannot be read.
[[nodiscard]] std::unique_ptr<Telemetry> open_telemetry_to_read(const RunId& run, const std::string& folder);

// Returns a function that reads the last line of an attempt's log from `telemetry`, which must outlive the
// function. If `telemetry` is nullptr, returns an empty function. After 20,000 calls, which take about a
// second, the returned function returns only empty texts.
[[nodiscard]] LastLine last_lines_in(Telemetry* telemetry);

// Prints one note if trials with `metrics` have reported no metric and have not failed.
void note_silent_trials(Session& session, const Experiment& experiment, const Outcome& outcome,
                        Telemetry& telemetry);

// Ingests the logs and metrics of `attempts` that the telemetry database of the recorded run lacks. Returns
// the attempts whose logs could not be ingested. Throws Error(cancelled) if the session's stop token requests
// a stop. Also throws Error if the run cannot be read from the record, or if no log of the run can be stored.
// With Containers::stay, the logs of running attempts stay open, so that a later call continues them. With
// Containers::about_to_go, every log is marked complete, since the containers are about to be removed.
enum class Containers { stay, about_to_go };
[[nodiscard]] Uncollected save_logs(Session& session, Record& record, const std::string& folder,
                                    const RunId& run, const std::vector<Observation>& attempts,
                                    Containers containers);
// Prints one line about the attempts in `unkept`: their logs could not be stored, and their containers stay.
// If `unkept` is empty, prints nothing.
void note_unsaved_logs(Session& session, const Uncollected& unkept);

}  // namespace combu
