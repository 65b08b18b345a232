#pragma once
// Finds trials on record, and all that is known of them. Of running ones it reconciles: what has ended is put
// on record first (app/reconcile.hpp).

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/invocation.hpp"
#include "app/outputs.hpp"
#include "app/session.hpp"
#include "combu/record.hpp"
#include "combu/telemetry.hpp"

namespace combu {

// All that is known of a trial of a run.
struct ShownTrial {
  const RunEntry& run;
  std::optional<RunEntry> ran_in;  // by itself, or as an equal one; nullopt: in one that is not on record
  const Trial& trial;
  TrialEntry entry;
  std::vector<AttemptEntry> attempts;
  std::optional<KnownEntry> known;
  std::vector<std::string> inputs;  // their digests, where they are known
  std::vector<MetricSummary> metrics;
  std::optional<KeptLog> log;
  OutputsAt outputs;

  [[nodiscard]] bool is_equal() const { return known && !known->equal_trial.empty(); }
  // Points of its metrics beyond k_kept_points_max.
  [[nodiscard]] std::size_t points_not_kept() const {
    std::size_t points = 0;
    for (const MetricSummary& metric : metrics) points += metric.points;
    return points - std::min(points, k_kept_points_max);
  }
  [[nodiscard]] std::string digest_of(std::size_t input) const {
    return input < inputs.size() ? inputs[input] : "";
  }
};

enum class ShowWhat {
  trials,        // all that is known of each
  source,        // the run's file as it was
  diff,          // how the file's working tree differed from its commit
  evaluated,     // the run's experiment as it was evaluated, as evaluated_again() has it
  reproduction,  // as reproduction() has it
};

struct ShowOptions {
  std::string run;                  // its id; empty: the last one of the file
  std::vector<std::string> trials;  // names and patterns of names
  ShowWhat what = ShowWhat::trials;
  // The address of the engine that is used if --engine names none. Throws Error.
  std::function<std::string()> default_engine;
  // Called for each trial, in the experiment's order. The trial is valid during the call.
  std::function<void(const ShownTrial&)> tell_trial;
  // Called with the bytes of a file that combu has not made.
  std::function<void(const std::string&)> tell_file;
  // Called with what combu has made.
  std::function<void(const std::string&)> tell_text;
};

// If a trial is alive, its new logs are ingested first, in a session. Throws Error: not_found for
// a run or a trial that is not on record, after the others have been told.
void show(const Invocation& invocation, const ShowOptions& options, const OpenSession& open_session);

}  // namespace combu
