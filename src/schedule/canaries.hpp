#pragma once
// Canaries (Experiment::canary): the first trial of each shape starts alone; the others wait until it has
// succeeded.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "combu/plan.hpp"
#include "combu/spec.hpp"

namespace combu::schedule {

class Canaries {
 public:
  // `ends` returns true if the run waits for the trial's end. Other trials need no canary, because their
  // success is never observed.
  Canaries(const Experiment& experiment, const std::function<bool(TrialIndex)>& ends);

  // True if the ready trial may start: no trial of its shape has been started, or one has succeeded. While
  // the canary is under way, other trials are kept until passed(), failed() or withdrawn() returns them.
  [[nodiscard]] bool admit(TrialIndex trial);
  // A trial is started. If it is the first one of its shape, it becomes the canary, and the other trials of
  // the shape are kept. Returns the trials admitted so far, including the canary; empty for later trials.
  [[nodiscard]] std::vector<TrialIndex> started(TrialIndex trial);
  // Returns the canary whose success the trial waits for; nullopt if the trial does not wait.
  [[nodiscard]] std::optional<TrialIndex> awaited_by(TrialIndex trial) const;
  // Returns the failed canary of the trial's shape; nullopt if there is none.
  [[nodiscard]] std::optional<TrialIndex> failed_of(TrialIndex trial) const;

  // A trial succeeded, which need not be the canary. Its shape needs no canary; returns the trials that
  // waited.
  std::vector<TrialIndex> pass(TrialIndex trial);

  // A trial succeeded, or failed for good. If it was a canary, returns the trials that waited for it.
  [[nodiscard]] std::vector<TrialIndex> passed(TrialIndex trial);
  [[nodiscard]] std::vector<TrialIndex> failed(TrialIndex trial);
  // A trial ended for a reason unrelated to its shape. If it was a canary, returns the trials that waited.
  // After this call, the next trial that starts becomes the canary.
  [[nodiscard]] std::vector<TrialIndex> withdrawn(TrialIndex trial);

 private:
  enum class Stand : std::uint8_t { unknown, tried, passed, failed };
  struct Shape {
    Stand stand = Stand::unknown;
    TrialIndex canary = 0;
    std::vector<TrialIndex> kept;  // trials that wait; if `unknown`: the admitted trials
  };
  // Sets the state of the trial's shape and returns the kept trials. Does nothing if the trial is not the
  // canary.
  [[nodiscard]] std::vector<TrialIndex> settle(TrialIndex trial, Stand stand);

  std::vector<Shape> shapes_;
  std::vector<std::uint32_t> shape_of_;  // by trial; empty: there are no canaries
};

}  // namespace combu::schedule
