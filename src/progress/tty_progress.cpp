#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "combu/progress.hpp"
#include "combu/text.hpp"
#include "progress/failures.hpp"
#include "progress/forms.hpp"

namespace combu {
namespace {

constexpr Seconds k_repaint{0.1};
// Interval of repaints while nothing else changes, because the block shows the elapsed time in seconds.
constexpr Seconds k_tick{1};
constexpr std::chrono::milliseconds k_leave_wait{200};
constexpr std::string_view k_red = "\x1b[31m";
constexpr std::string_view k_bold = "\x1b[1m";
constexpr std::string_view k_normal = "\x1b[0m";

// Shows progress as a block of lines in a terminal. Between repaints the cursor is visible and below the
// block, so that the terminal stays usable if combu ends at any moment.
class TtyProgress final : public Progress {
 public:
  explicit TtyProgress(Surroundings surroundings) : around_(std::move(surroundings)) {}
  ~TtyProgress() override {
    ticker_.request_stop();
    if (ticker_.joinable()) ticker_.join();
    TtyProgress::end();
  }
  TtyProgress(const TtyProgress&) = delete;
  TtyProgress& operator=(const TtyProgress&) = delete;

  void phase(std::string_view text) override {
    std::scoped_lock lock(mutex_);
    content_.phase = text;
    content_.counted.clear();
    content_.pulls.clear();
    repaint();
  }

  void preparation(const Preparation& preparation) override {
    std::scoped_lock lock(mutex_);
    if (preparation.kind == Preparation::Kind::network) {
      keep(fmt::format("network {} created", preparation.name), {});
    } else if (preparation.finished) {
      content_.pulls.erase(preparation.name);
      keep(fmt::format("pulled {}", preparation.name), {});
    } else {
      content_.pulls[preparation.name] = preparation;
    }
    repaint();
  }

  void counted(std::string_view verb, std::size_t count, std::size_t total) override {
    std::scoped_lock lock(mutex_);
    content_.counted = fmt::format("{} {} of {}", verb, count, total);
    repaint();
  }

  void note(std::string_view line) override {
    std::scoped_lock lock(mutex_);
    keep(line, {});
    repaint();
  }

  void error(std::string_view line) override {
    std::scoped_lock lock(mutex_);
    keep(line, k_red);
    repaint();
  }

  void begin(const Run& run) override {
    std::scoped_lock lock(mutex_);
    run_ = &run;
    // begin() may be called again when the run continues with a changed experiment file.
    settings_ = {};
    failures_ = {};
    content_.failures.clear();
    content_.phase.clear();
    keep(begin_line(run), {});
    repaint();
    // The ticker thread starts only here, because the evaluation of the file, which forks, needs a process
    // with one thread.
    if (!ticker_.joinable()) ticker_ = std::jthread([this](const std::stop_token& stop) { tick(stop); });
  }

  void fact(const Fact& /*fact*/) override {}

  void failure(const Fact& fact, const std::vector<std::string>& tail) override {
    std::scoped_lock lock(mutex_);
    const FailureFeed::Shown shown = failures_.add(*run_, fact, tail);
    if (!shown.line.empty()) keep(shown.line, fact.state == TrialState::failed ? k_red : std::string_view{});
    if (!shown.tail.empty()) keep(shown.tail, {});
    content_.failures = failures_.counted();
    repaint();
  }

  void snapshot(const Snapshot& snapshot) override {
    std::scoped_lock lock(mutex_);
    if (snapshot.interrupted && !interrupted_) keep(interrupt_line(snapshot), {});
    interrupted_ = snapshot.interrupted;
    if (snapshot.settings.paused != paused_) keep(pause_line(snapshot), {});
    paused_ = snapshot.settings.paused;
    if (const std::string line = settings_.changed(snapshot.settings); !line.empty()) keep(line, {});
    rate_.add(snapshot);
    content_.snapshot = snapshot;
    content_.starting.clear();
    for (const TrialIndex trial : snapshot.starting)
      content_.starting.push_back(run_->experiment.trials[trial].name);
    content_.running = named_ages(snapshot, *run_);
    content_.pending = pending_lines(snapshot, *run_);
    snapshot_at_ = around_.time();
    repaint();
  }

  void end() override {
    // Another thread may hold the mutex while its write to the terminal blocks. The thread that handles
    // signals must not wait until the write ends, so end() gives up after k_leave_wait. The deadline uses the
    // system clock because GCC 12's thread sanitizer does not support locking with a steady clock.
    std::unique_lock lock(mutex_, std::chrono::system_clock::now() + k_leave_wait);
    if (!lock.owns_lock()) return;
    content_ = {};
    paint();
  }

 private:
  void keep(std::string_view text, std::string_view colour) {
    const bool coloured = around_.colours == Colours::ansi && !colour.empty();
    kept_ += coloured ? fmt::format("{}{}{}", colour, clean_lines(text), k_normal) : clean_lines(text);
  }

  // Repaints the block, or leaves the repaint to the ticker thread if the last repaint was less than
  // k_repaint ago. Without a ticker thread, repaint() always repaints.
  void repaint() {
    if (!ticker_.joinable() || around_.time() - painted_at_ >= k_repaint) {
      paint();
    } else {
      late_ = true;
    }
  }

  void tick(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      ticked_.wait_for(lock, stop, k_repaint, [] { return false; });
      const Seconds age = around_.time() - painted_at_;
      if (!content_.empty() && (late_ || age >= k_tick)) paint();
    }
  }

  void paint() {
    const ScreenSize size = around_.size();
    if (content_.snapshot) {
      const Seconds later = around_.time() - snapshot_at_;
      content_.elapsed = content_.snapshot->elapsed + later;
      for (std::size_t i = 0; i < content_.running.size(); ++i)
        content_.running[i].age = content_.snapshot->running[i].age + later;
      content_.starts_per_second = rate_.per_second();
    }
    const std::vector<std::string> lines = block_lines(content_, size);
    std::string text = erase(size) + kept_;
    for (const std::string& line : lines) {
      const bool bold = around_.colours == Colours::ansi && &line == &lines.front();
      text += bold ? fmt::format("{}{}{}\n", k_bold, line, k_normal) : line + "\n";
    }
    (void)std::fwrite(text.data(), 1, text.size(), around_.stream);
    (void)std::fflush(around_.stream);
    painted_.clear();
    for (const std::string& line : lines) painted_.push_back(columns_of(line));
    kept_.clear();
    late_ = false;
    painted_at_ = around_.time();
  }

  // Returns the escape sequence that erases the block. If the user has narrowed the window, the terminal has
  // wrapped the lines of the block, so the block occupies more rows.
  [[nodiscard]] std::string erase(ScreenSize size) const {
    std::size_t rows = 0;
    for (const std::size_t columns : painted_)
      rows += std::max<std::size_t>(1, (columns + size.columns - 1) / size.columns);
    rows = std::min(rows, size.rows > 1 ? size.rows - 1 : 1);
    return rows == 0 ? "" : fmt::format("\x1b[{}A\r\x1b[J", rows);
  }

  Surroundings around_;
  std::timed_mutex mutex_;  // guards all members declared after it
  std::condition_variable_any ticked_;
  const Run* run_ = nullptr;
  FailureFeed failures_;
  BlockContent content_;
  StartRate rate_;
  std::string kept_;                  // complete lines to print above the block
  std::vector<std::size_t> painted_;  // width in columns of each line of the block on the screen
  Seconds painted_at_{0};
  Seconds snapshot_at_{0};
  bool late_ = false;
  bool interrupted_ = false;
  bool paused_ = false;
  SettingsWatch settings_;
  std::jthread ticker_;
};

}  // namespace

std::unique_ptr<Progress> make_tty_progress(Surroundings surroundings) {
  return std::make_unique<TtyProgress>(std::move(surroundings));
}

}  // namespace combu
