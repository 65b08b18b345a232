#pragma once
// Implements Experiment::canary. Two trials have the same shape if canary_shape() returns equal texts for
// them, that is, if their images, programs and option names are equal. The first trial of each shape starts
// alone, as the canary. The other trials of the shape wait until the canary has succeeded.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "combu/plan.hpp"
#include "combu/spec.hpp"

namespace combu::schedule {

class Canaries {
 public:
  // `ends` returns true if the run waits for the trial's end. Trials whose end the run does not wait for need
  // no canary, because their success is never observed.
  Canaries(const Experiment& experiment, const std::function<bool(TrialIndex)>& ends);

  // True if the ready trial may start: no trial of its shape has been started, or a trial of its shape has
  // succeeded. While the canary runs, admit() holds back the other trials of its shape until passed(),
  // failed() or withdrawn() returns them.
  [[nodiscard]] bool admit(TrialIndex trial);
  // Call this when a trial is started. The first started trial of a shape becomes the canary, and the
  // other trials of the shape wait for its end. If `trial` becomes the canary, returns all trials of its
  // shape that admit() has admitted, including the canary. Otherwise returns no trials.
  [[nodiscard]] std::vector<TrialIndex> started(TrialIndex trial);
  // Returns the canary whose success the trial waits for; nullopt if the trial does not wait.
  [[nodiscard]] std::optional<TrialIndex> awaited_by(TrialIndex trial) const;
  // Returns the failed canary of the trial's shape; nullopt if there is none.
  [[nodiscard]] std::optional<TrialIndex> failed_of(TrialIndex trial) const;

  // Call this when a trial has succeeded, even if it is not the canary. Other trials of its shape then need
  // no canary. Returns the trials that waited for the canary.
  std::vector<TrialIndex> pass(TrialIndex trial);

  // Call passed() when a trial has succeeded, and failed() when a trial has failed and is not retried. If the
  // trial was a canary, returns the trials that waited for this canary.
  [[nodiscard]] std::vector<TrialIndex> passed(TrialIndex trial);
  [[nodiscard]] std::vector<TrialIndex> failed(TrialIndex trial);
  // Call this when a trial has ended for a reason unrelated to its shape. If the trial was a canary, returns
  // the trials that waited for this canary. After this call, the next started trial of the shape becomes the
  // canary.
  [[nodiscard]] std::vector<TrialIndex> withdrawn(TrialIndex trial);

 private:
  enum class Verdict : std::uint8_t { unknown, tried, passed, failed };
  struct Shape {
    Verdict verdict = Verdict::unknown;
    TrialIndex canary = 0;
    // Trials that wait for the canary. While `verdict` is unknown: trials that admit() has admitted.
    std::vector<TrialIndex> kept;
  };
  // Sets `verdict` of the trial's shape and returns its Shape::kept. Does nothing if the trial is not the
  // canary of its shape.
  [[nodiscard]] std::vector<TrialIndex> settle(TrialIndex trial, Verdict verdict);

  std::vector<Shape> shapes_;
  // By trial: index of the trial's shape in shapes_. Empty if the run has no canaries.
  std::vector<std::uint32_t> shape_of_;
};

}  // namespace combu::schedule
