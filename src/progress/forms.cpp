#include "progress/forms.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "combu/progress.hpp"
#include "combu/text.hpp"

namespace combu {
namespace {

constexpr std::array<std::pair<std::string_view, ProgressForm>, 5> k_forms{{
    {"auto", ProgressForm::automatic},
    {"tty", ProgressForm::tty},
    {"plain", ProgressForm::plain},
    {"json", ProgressForm::json},
    {"quiet", ProgressForm::quiet},
}};

// Returns the value of an environment variable. environment() must be called only while the program has one
// thread.
std::string_view environment(const char* name) {
  const char* value =
      std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing here changes the environment
  return value == nullptr ? std::string_view{} : value;
}

bool can_paint(std::FILE* stream) {
  const std::string_view term = environment("TERM");
  return isatty(fileno(stream)) != 0 && !term.empty() && term != "dumb";
}

Seconds steady_time() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

}  // namespace

ScreenSize screen_size(std::FILE* stream) {
  winsize size{};
  if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {.columns = size.ws_col, .rows = size.ws_row};
}

ProgressForm parse_progress_form(std::string_view text) {
  for (const auto& [name, form] : k_forms)
    if (name == text) return form;
  throw Error(ErrorKind::invalid, "--progress",
              fmt::format("'{}' must be auto, tty, plain, json or quiet", text));
}

std::unique_ptr<Progress> make_progress(ProgressForm form, std::FILE* stream) {
  if (form == ProgressForm::automatic) form = can_paint(stream) ? ProgressForm::tty : ProgressForm::plain;
  Surroundings surroundings{.stream = stream,
                            .colours = Colours::none,
                            .size = [stream] { return screen_size(stream); },
                            .time = steady_time};
  // Any non-empty value of NO_COLOR disables colours (https://no-color.org).
  if (form == ProgressForm::tty && environment("NO_COLOR").empty()) surroundings.colours = Colours::ansi;
  switch (form) {
    case ProgressForm::tty:
      return make_tty_progress(std::move(surroundings));
    case ProgressForm::json:
      return make_json_progress(surroundings);
    case ProgressForm::quiet:
      return make_quiet_progress(std::move(surroundings));
    default:
      return make_plain_progress(std::move(surroundings));
  }
}

std::string tail_lines(const Run& run, TrialIndex trial, const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    if (!text.empty()) text += '\n';
    text += fmt::format("  {} | {}", run.experiment.trials[trial].name, clean_line(line));
  }
  return text;
}

std::string begin_line(const Run& run) {
  return fmt::format("run {}: {}", run.id.text(), number_of(run.experiment.trials.size(), "trial"));
}

std::string_view pause_line(const Snapshot& snapshot) {
  return snapshot.settings.paused ? "paused: nothing starts until `combu unpause`" : "unpaused";
}

std::string SettingsWatch::changed(const Settings& settings) {
  const std::optional<Settings> before = std::exchange(last_, settings);
  if (!before || (before->parallel_max == settings.parallel_max &&
                  before->starts_in_flight_max == settings.starts_in_flight_max))
    return "";
  return fmt::format("`combu set` changed the run: parallel {}, starts in flight {}",
                     settings.parallel_max == 0 ? "without a limit" : std::to_string(settings.parallel_max),
                     settings.starts_in_flight_max);
}

std::string interrupt_line(const Snapshot& snapshot) {
  const std::size_t starts = snapshot.starts_in_flight;
  const std::string wait =
      starts == 0 ? "" : fmt::format("; combu waits for {} under way", number_of(starts, "start"));
  if (snapshot.interrupter.empty()) return fmt::format("no new starts{}; Ctrl-C again exits at once", wait);
  return fmt::format("interrupted by `{}`: no new starts{}", snapshot.interrupter, wait);
}

}  // namespace combu
