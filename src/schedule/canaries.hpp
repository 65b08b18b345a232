#pragma once
// One trial of each shape goes first, and the others wait until it has succeeded (Experiment::canary).

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "combu/plan.hpp"
#include "combu/spec.hpp"

namespace combu::schedule {

class Canaries {
 public:
  // `ends`: whether the end of a trial is waited for. Of one whose end is not, no success could be.
  Canaries(const Experiment& experiment, const std::function<bool(TrialIndex)>& ends);

  // Whether a trial that is ready may start: as long as none of its shape has, and when one has succeeded.
  // Others are kept until passed() or failed() gives them back.
  [[nodiscard]] bool admit(TrialIndex trial);
  // The first trial of its shape that is started becomes its canary. Returns the trials that were admitted
  // before, the canary among them; the others are kept from here on.
  [[nodiscard]] std::vector<TrialIndex> started(TrialIndex trial);
  // The canary whose success the trial waits for.
  [[nodiscard]] std::optional<TrialIndex> awaited_by(TrialIndex trial) const;
  // The failed canary of the trial's shape.
  [[nodiscard]] std::optional<TrialIndex> failed_of(TrialIndex trial) const;

  // A trial has succeeded that need not have been its shape's canary: there need be none any more. Gives
  // those that waited for it.
  std::vector<TrialIndex> pass(TrialIndex trial);

  // A trial has succeeded, or failed for good. Gives those that waited for it when it was a canary.
  [[nodiscard]] std::vector<TrialIndex> passed(TrialIndex trial);
  [[nodiscard]] std::vector<TrialIndex> failed(TrialIndex trial);
  // A trial is over by what says nothing of its shape: another is to be the canary.
  [[nodiscard]] std::vector<TrialIndex> withdrawn(TrialIndex trial);

 private:
  enum class Stand : std::uint8_t { unknown, tried, passed, failed };
  struct Shape {
    Stand stand = Stand::unknown;
    TrialIndex canary = 0;
    std::vector<TrialIndex> kept;  // of an unknown one: those that were admitted
  };
  // Nothing, unless the trial is the canary of its shape.
  [[nodiscard]] std::vector<TrialIndex> settle(TrialIndex trial, Stand stand);

  std::vector<Shape> shapes_;
  std::vector<std::uint32_t> shape_of_;  // by trial; empty: there are no canaries
};

}  // namespace combu::schedule
