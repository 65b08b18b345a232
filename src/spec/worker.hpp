#pragma once
// The field `worker`, and the checks of trials whose attempts run in workers.

#include <map>
#include <string>
#include <unordered_set>

#include "combu/spec.hpp"
#include "spec/json.hpp"
#include "spec/report.hpp"

namespace combu::spec {

// Accepts true, false, or {count, concurrency, trials_max, age_max, idle}.
[[nodiscard]] WorkerSettings read_worker(const Json& value, const Place& place, Report& report);

// Reports fields of a trial that are not possible with `worker`, or only possible with it. `place`: the
// trial.
void check_worker(const Trial& trial, const Place& place, Report& report);

// The checks of trials in workers that concern several trials. Calls take() for each trial in the order of
// the file, then finish().
class WorkerChecks {
 public:
  void take(const Trial& trial, const Place& place, Report& report);
  // Reports trials that expect to reach a trial in a worker by its name.
  void finish(const Experiment& experiment, const Place& trials, Report& report) const;

 private:
  struct Writer {
    std::string shape;
    std::string path;
    auto operator<=>(const Writer&) const = default;
  };
  void take_path(const Trial& trial, const std::string& shape, const std::string& path, const Place& place,
                 Report& report);

  std::string first_;                      // the name of the first trial with `worker`
  std::string docker_;                     // the `docker` section of that trial
  std::string kubernetes_;                 // the `kubernetes` section of that trial
  std::map<Writer, std::string> writers_;  // the first trial that writes an absolute path
  std::unordered_set<std::string> names_;  // of the trials with `worker`
};

}  // namespace combu::spec
