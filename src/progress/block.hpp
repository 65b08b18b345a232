#pragma once
// The block of lines that a terminal shows while a command works. All functions of block.hpp are pure: they
// read no clock and write nothing.

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "combu/base.hpp"
#include "combu/engine.hpp"
#include "combu/run.hpp"

namespace combu {

struct ScreenSize {
  std::size_t columns = 80;
  std::size_t rows = 24;
};

struct NamedAge {
  std::string name;
  Seconds age{0};
};
// Returns the names of the trials in snapshot.running, and how long each trial had run at the moment of the
// snapshot.
[[nodiscard]] std::vector<NamedAge> named_ages(const Snapshot& snapshot, const Run& run);
// Returns a text such as "running forest-s3 (4m10s), forest-s7 (12 s)".
[[nodiscard]] std::string running_text(const std::vector<NamedAge>& running);

// Returns a line for each element of snapshot.pending, such as "starting: train-1 and 7 more: 0/3 nodes are
// available: 3 Insufficient cpu".
[[nodiscard]] std::vector<std::string> pending_lines(const Snapshot& snapshot, const Run& run);

struct BlockContent {
  std::string phase;
  std::map<std::string, Preparation> pulls;  // unfinished pulls of images, by image
  // progress of a counted action, such as "removed 12 of 200"
  std::string counted;
  std::optional<Snapshot> snapshot;
  std::vector<std::string> starting;  // names of snapshot->starting
  std::vector<std::string> pending;   // pending_lines()
  std::vector<std::string> failures;  // FailureFeed::counted()
  std::vector<NamedAge> running;      // trials of snapshot->running, and how long each has run by now
  Seconds elapsed{0};
  double starts_per_second = 0;

  [[nodiscard]] bool empty() const { return phase.empty() && pulls.empty() && counted.empty() && !snapshot; }
};

// Returns at most size.rows - 1 lines of at most size.columns - 1 columns, cleaned for a terminal. The most
// important lines come first; block_lines() drops the last lines if not all fit.
[[nodiscard]] std::vector<std::string> block_lines(const BlockContent& content, ScreenSize size);

// Returns a text such as "8 starting, 30 running, 2 failed": the states that have trials, in the order of
// TrialState.
[[nodiscard]] std::string counts_text(const Snapshot& snapshot);
// Returns the estimated time left, such as ", about 4m10s left"; "" if there is no estimate, or if it is
// below a second.
[[nodiscard]] std::string left_text(const Snapshot& snapshot);

// Returns the rate of starts, such as ", 2.5/s"; "" if no trial was started recently.
[[nodiscard]] std::string rate_text(double starts_per_second);
// Returns the reserved slots, such as "6 of 8 CPUs, 4 GiB of 16 GiB; other runs: 2 CPUs". `snapshot.capacity`
// must be set.
[[nodiscard]] std::string slots_text(const Snapshot& snapshot);

// Computes the number of starts per second over the last few seconds.
class StartRate {
 public:
  void add(const Snapshot& snapshot);
  [[nodiscard]] double per_second() const;

 private:
  // Snapshot::elapsed and Snapshot::started of each snapshot of the last seconds.
  std::deque<std::pair<Seconds, std::size_t>> seen_;
};

}  // namespace combu
