#pragma once
// The attempt of each trial that lives or comes next: what the engine reported of it, why it is being
// stopped, and which starts and stops the engine has not answered.

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
  std::string id;                 // the engine's, once it runs
  std::optional<Instant> ran_at;  // by the engine's clock
  std::uint64_t listings = 0;     // that had begun when it was first seen to run
  // The times of its end are being asked for; the value: what is known of the engine at that end.
  std::optional<Break> inspected;
  bool is_start_in_flight = false;          // of this attempt or an earlier one
  Cause stop_cause = Cause::none;           // why it is being stopped; none: it is not, or its work is done
  bool is_service_stop = false;             // a service whose work is done is being stopped
  bool is_due = false;                      // the pause before it is over
  Instant queued_at{};                      // when the trial last became ready
  std::optional<Instant> ready_since = {};  // Fact::ready_at of its start; nullopt: queued_at
};

class Attempts {
 public:
  explicit Attempts(std::size_t trials) : attempts_(trials) {}

  [[nodiscard]] Attempt& operator[](TrialIndex trial) { return attempts_[trial]; }
  [[nodiscard]] const Attempt& operator[](TrialIndex trial) const { return attempts_[trial]; }
  // Begins the trial's next attempt. An unanswered start of the earlier one stays in flight.
  void renew(TrialIndex trial);

  // A listing of the engine begins. It need not contain attempts that are first seen from here on.
  void begin_listing() { ++listings_; }
  void first_seen(TrialIndex trial) { attempts_[trial].listings = listings_; }
  // True if the listing that began last must contain the running attempt.
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
  // Attempts with a stop cause.
  [[nodiscard]] std::size_t stopping() const { return stopping_; }

 private:
  std::vector<Attempt> attempts_;
  std::uint64_t listings_ = 0;
  std::size_t starts_in_flight_ = 0;
  std::size_t stops_in_flight_ = 0;
  std::size_t stopping_ = 0;
};

}  // namespace combu::schedule
