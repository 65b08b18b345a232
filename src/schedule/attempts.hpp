#pragma once
// The current attempt of each trial: the starting or running attempt, or else the next attempt. Attempts
// holds the engine's observations, the stop cause, and the starts and stops that the engine has not answered.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "combu/engine.hpp"
#include "combu/plan.hpp"
#include "combu/schedule.hpp"

namespace combu::schedule {

struct Attempt {
  std::string id;                 // the engine's id of the attempt; empty until the attempt runs
  std::optional<Instant> ran_at;  // when the attempt began to run, by the engine's clock
  std::uint64_t listings = 0;     // number of listings begun before the attempt was first seen running
  // Set while the engine has not answered an InspectCommand about the attempt's end. The value says if the
  // engine was unreachable when the attempt ended.
  std::optional<Break> inspected;
  bool is_start_in_flight = false;  // the engine has not answered a start of this or an earlier attempt
  bool is_accepted = false;         // the engine has accepted the start, and places the attempt later
  // An earlier process has begun the start, and the engine still lists the attempt as pending.
  bool is_restored_pending = false;
  bool was_pending = false;      // the engine has reported that the attempt waits for a place
  bool awaits_delivery = false;  // Placement::awaits_delivery, while the attempt is pending
  // Why combu stops the attempt. `none` if combu does not stop it, or if is_service_stop is true.
  Cause stop_cause = Cause::none;
  bool is_service_stop = false;  // combu is stopping a service whose work is done
  bool is_due = false;           // the pause before this attempt has passed
  Instant queued_at{};           // when the trial last became ready; stays if the engine had no room for it
  // The value of Fact::ready_at for the attempt's start; nullopt: the value is `queued_at`.
  std::optional<Instant> ready_since = {};
};

class Attempts {
 public:
  explicit Attempts(std::size_t trials) : attempts_(trials) {}

  [[nodiscard]] Attempt& operator[](TrialIndex trial) { return attempts_[trial]; }
  [[nodiscard]] const Attempt& operator[](TrialIndex trial) const { return attempts_[trial]; }
  // Begins the trial's next attempt. If the engine has not answered the start of the earlier attempt, this
  // start stays in flight.
  void renew(TrialIndex trial);

  // Call this before each listing of the engine. An attempt that is first seen after the call may be missing
  // from that listing.
  void begin_listing() { ++listings_; }
  void first_seen(TrialIndex trial) { attempts_[trial].listings = listings_; }
  // True if the latest listing must contain the trial's running attempt, because the attempt was seen before
  // the listing began.
  [[nodiscard]] bool must_be_listed(TrialIndex trial) const { return attempts_[trial].listings < listings_; }

  void start_sent(TrialIndex trial);
  void start_answered(TrialIndex trial);
  [[nodiscard]] std::size_t starts_in_flight() const { return starts_in_flight_; }

  void stop_sent() { ++stops_in_flight_; }
  void stop_answered() { --stops_in_flight_; }
  [[nodiscard]] std::size_t stops_in_flight() const { return stops_in_flight_; }

  [[nodiscard]] bool is_stopping(TrialIndex trial) const {
    return attempts_[trial].stop_cause != Cause::none;
  }
  void set_stop_cause(TrialIndex trial, Cause cause);
  void clear_stop_cause(TrialIndex trial);
  // Returns the number of attempts with a stop cause.
  [[nodiscard]] std::size_t stopping() const { return stopping_; }

 private:
  std::vector<Attempt> attempts_;
  std::uint64_t listings_ = 0;
  std::size_t starts_in_flight_ = 0;
  std::size_t stops_in_flight_ = 0;
  std::size_t stopping_ = 0;
};

}  // namespace combu::schedule
