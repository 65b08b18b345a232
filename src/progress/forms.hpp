#pragma once
// Implementations of Progress, and their surroundings (stream, terminal size and clock), which tests can
// replace.

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
  std::function<ScreenSize()> size;  // returns the size of the terminal; called before each repaint, because
                                     // the user may resize the window
  std::function<Seconds()> time;     // returns the seconds since an arbitrary moment; must never decrease
};

// Returns the size of the terminal; 80 by 24 if the size is unknown.
[[nodiscard]] ScreenSize screen_size(std::FILE* stream);

[[nodiscard]] std::unique_ptr<Progress> make_tty_progress(Surroundings surroundings);
[[nodiscard]] std::unique_ptr<Progress> make_plain_progress(Surroundings surroundings);
[[nodiscard]] std::unique_ptr<Progress> make_json_progress(const Surroundings& surroundings);
[[nodiscard]] std::unique_ptr<Progress> make_quiet_progress(Surroundings surroundings);

// Returns the last lines of a trial's log, each with the trial's name: "  solver-a-1 | no space left on
// device".
[[nodiscard]] std::string tail_lines(const Run& run, TrialIndex trial, const std::vector<std::string>& lines);
// Returns a line such as "run 0a1b2c3d4e5f: 103 trials".
[[nodiscard]] std::string begin_line(const Run& run);
// Returns the line that reports if the run is paused or unpaused.
[[nodiscard]] std::string_view pause_line(const Snapshot& snapshot);
// Detects changes of settings by `combu set` in another process, by comparing snapshots.
class SettingsWatch {
 public:
  // Returns a line such as "`combu set` changed the run: parallel 4, starts in flight 8", or "" if nothing
  // changed since the last call.
  [[nodiscard]] std::string changed(const Settings& settings);

 private:
  std::optional<Settings> last_;
};
// Returns the line that combu prints after the first interrupt.
[[nodiscard]] std::string interrupt_line(const Snapshot& snapshot);

}  // namespace combu
