#pragma once
// The options of a run that are on its record.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "combu/record.hpp"
#include "combu/schedule.hpp"
#include "combu/spec.hpp"

namespace combu {

// What holds of a run however often it is gone on with.
struct RunOptions {
  bool wait = false;
  std::size_t starts_in_flight = PlannerOptions{}.starts_in_flight_max;
  std::optional<std::size_t> parallel;  // in place of the file's, 0: no limit; nullopt: the file's
  std::string reserve;                  // as --reserve takes it
  bool cache = true;                    // false: trials with `cache` are run, too
  // On record only: somebody has to stay while its trials run, for --wait, retries, timeouts or a deadline.
  bool monitored = false;
  bool operator==(const RunOptions&) const = default;
};
// Whether the process stays until all trials have ended.
[[nodiscard]] Until until_of(const RunOptions& options);
// As a JSON object's text, and back.
[[nodiscard]] std::string to_json(const RunOptions& options);
[[nodiscard]] RunOptions run_options_of(const std::string& json);

// Changes options by a command line; empty: it changes none.
using AdjustOptions = std::function<void(RunOptions&)>;
[[nodiscard]] RunOptions adjusted_options(const RunEntry& entry, const AdjustOptions& adjust);
// Changes the options that the run has on record, for whoever goes on with it.
void change_options(Record& record, const RunId& run, const AdjustOptions& change);
void keep_parallel(Record& record, const RunId& run, std::optional<std::size_t> parallel);

// The experiment's fields that the run's options take the place of.
void override_fields(Experiment& experiment, const RunOptions& options);

}  // namespace combu
