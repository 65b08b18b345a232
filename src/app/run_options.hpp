#pragma once
// The options of a run that are on record.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "combu/record.hpp"
#include "combu/schedule.hpp"
#include "combu/spec.hpp"

namespace combu {

// Options of a run. They apply until the run ends, also if another process becomes its owner.
struct RunOptions {
  bool wait = false;
  std::size_t starts_in_flight = PlannerOptions{}.starts_in_flight_max;
  std::optional<std::size_t> parallel;  // overrides the file's `parallel`; 0: no limit; nullopt: no override
  std::string reserve;                  // the value of --reserve
  bool cache = true;                    // false: run trials with `cache` even if the cache has a result
  // True if the owner must stay while the trials run, because of --wait, outputs, retries, timeouts or a
  // deadline. The owner records this value; no option of the command line sets the value.
  bool monitored = false;
  bool operator==(const RunOptions&) const = default;
};
// Returns the condition for the end of the process that drives the run: all trials have ended (--wait), or
// all trials have started.
[[nodiscard]] Until until_of(const RunOptions& options);
// These functions convert the options to the text of a JSON object, and back.
[[nodiscard]] std::string to_json(const RunOptions& options);
[[nodiscard]] RunOptions run_options_of(const std::string& json);

// A function that changes recorded options as a command line requests. An empty function changes nothing.
using AdjustOptions = std::function<void(RunOptions&)>;
[[nodiscard]] RunOptions adjusted_options(const RunEntry& entry, const AdjustOptions& adjust);
// Changes the options on record, so that a process that resumes the run uses them.
void change_options(Record& record, const RunId& run, const AdjustOptions& change);
void record_parallel(Record& record, const RunId& run, std::optional<std::size_t> parallel);

// Overrides fields of the experiment with the run's options.
void override_fields(Experiment& experiment, const RunOptions& options);

}  // namespace combu
