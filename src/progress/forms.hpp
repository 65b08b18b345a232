#pragma once
// The forms of Progress, and what they need of the world around them, so that a test can give them another
// one.

#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "combu/progress.hpp"
#include "progress/block.hpp"

namespace combu {

enum class Colours { none, ansi };

struct Surroundings {
  std::FILE* stream = nullptr;
  Colours colours = Colours::none;
  std::function<ScreenSize()> size;  // asked before each painting: a person may resize the window
  std::function<Seconds()> time;     // since some moment
};

// The size of the terminal that `stream` is; 80 by 24 if the size is not known.
[[nodiscard]] ScreenSize screen_size(std::FILE* stream);

[[nodiscard]] std::unique_ptr<Progress> make_tty_progress(Surroundings surroundings);
[[nodiscard]] std::unique_ptr<Progress> make_plain_progress(Surroundings surroundings);
[[nodiscard]] std::unique_ptr<Progress> make_json_progress(const Surroundings& surroundings);
[[nodiscard]] std::unique_ptr<Progress> make_quiet_progress(Surroundings surroundings);

// "  solver-a-1 | no space left on device", line by line.
[[nodiscard]] std::string tail_lines(const Run& run, TrialIndex trial, const std::vector<std::string>& lines);
// "run 0a1b2c3d4e5f: 103 trials"
[[nodiscard]] std::string begin_line(const Run& run);
// What a person is told when starting has been paused, or goes on.
[[nodiscard]] std::string_view pause_line(const Snapshot& snapshot);
// What `combu set` in another process changed, by the snapshots.
class SettingsWatch {
 public:
  // "`combu set` changed the run: parallel 4, starts in flight 8"; empty: nothing has changed since the last
  // call.
  [[nodiscard]] std::string changed(const Settings& settings);

 private:
  std::optional<Settings> last_;
};
// What a person is told after the first interrupt.
[[nodiscard]] std::string interrupt_line(const Snapshot& snapshot);

}  // namespace combu
