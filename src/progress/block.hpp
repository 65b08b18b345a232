#pragma once
// The block of lines that a terminal shows while a command works. Pure.

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
// The trials of snapshot.running, with the ages that they had when it was made.
[[nodiscard]] std::vector<NamedAge> named_ages(const Snapshot& snapshot, const Run& run);
// "running forest-s3 (4m10s), forest-s7 (12 s)", clean.
[[nodiscard]] std::string running_text(const std::vector<NamedAge>& running);

struct BlockContent {
  std::string phase;
  std::map<std::string, Preparation> pulls;  // by image, those not finished
  std::string counted;                       // "removed 12 of 200"
  std::optional<Snapshot> snapshot;
  std::vector<std::string> starting;  // the names of snapshot->starting
  std::vector<std::string> failures;  // FailureFeed::counted()
  std::vector<NamedAge> running;      // those of snapshot->running, as old as they are now
  Seconds elapsed{0};
  double starts_per_second = 0;

  [[nodiscard]] bool empty() const { return phase.empty() && pulls.empty() && counted.empty() && !snapshot; }
};

// At most size.rows - 1 lines of at most size.columns - 1 columns: the most telling first, clean.
[[nodiscard]] std::vector<std::string> block_lines(const BlockContent& content, ScreenSize size);

// "8 starting, 30 running, 2 failed": each state that has trials, in the order of their lives.
[[nodiscard]] std::string counts_text(const Snapshot& snapshot);
// ", about 4m10s left", or nothing.
[[nodiscard]] std::string left_text(const Snapshot& snapshot);

// ", 2.5/s", or nothing while nothing is started.
[[nodiscard]] std::string rate_text(double starts_per_second);
// "6 of 8 CPUs, 4 GiB of 16 GiB; other runs: 2 CPUs": what is held of the slots, which are bounded.
[[nodiscard]] std::string slots_text(const Snapshot& snapshot);

// How many starts a second there were lately.
class StartRate {
 public:
  void add(const Snapshot& snapshot);
  [[nodiscard]] double per_second() const;

 private:
  std::deque<std::pair<Seconds, std::size_t>> seen_;  // elapsed, started; of the last seconds
};

}  // namespace combu
