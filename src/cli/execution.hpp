#pragma once
// What `run`, `run --resume` and `retry` share: trials are started, watched and put on record.

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/at_work.hpp"
#include "cli/load.hpp"
#include "cli/session.hpp"
#include "combu/record.hpp"

namespace combu {

// What holds of a run however often it is gone on with.
struct RunOptions {
  bool wait = false;
  std::size_t starts_in_flight = PlannerOptions{}.starts_in_flight_max;
  std::optional<std::size_t> parallel;  // in place of the file's, 0: no limit; nullopt: the file's
  std::string reserve;                  // as --reserve takes it
  bool cache = true;                    // false: trials with `cache` are run, too
  // On record only: somebody has to stay while its trials run, for --wait, retries, timeouts or a deadline.
  bool watched = false;
  bool operator==(const RunOptions&) const = default;
};
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

// Where a run stands that is gone on with.
struct Standing {
  std::vector<Past> past;
  Instant working_since{};
};

// What was found out, and how long it took, before the first start.
struct Prepared {
  Seconds took{0};
  Digests digests;
  Digests references;
};

// What the engine and the caller's folders would refuse of it, all of it; then images, networks and folders
// are made ready, and what of these cannot be had is returned.
[[nodiscard]] std::vector<Error> make_ready(Session& session, const Loaded& loaded, const RunOptions& options,
                                            Prepared& prepared);

// The run as it gets on the record. Takes the texts out of `loaded`: they are as long as the experiment is
// large.
[[nodiscard]] RunEntry entry_of(Session& session, Loaded& loaded, const RunOptions& options,
                                const Prepared& prepared);

enum class Earlier { refuse, replace };
// All that can be refused comes before anything changes on the record or on the engine, and that before the
// first start. `loaded` gets its host paths. `earlier`: whether what lives of earlier runs is removed.
// `enter` is called in between: it puts on record that the run begins, or goes on from where it stands. Gives
// the exit code. `work` has begun.
[[nodiscard]] int execute(Session& session, Record& record, Loaded& loaded, const RunOptions& options,
                          Earlier earlier, AtWork& work,
                          const std::function<std::optional<Standing>(const Prepared&)>& enter);

}  // namespace combu
