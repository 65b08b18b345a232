#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>

#include "combu/progress.hpp"
#include "combu/text.hpp"
#include "progress/block.hpp"
#include "progress/failures.hpp"
#include "progress/forms.hpp"

namespace combu {
namespace {

constexpr Seconds k_count_pause{5};

class PlainProgress : public Progress {
 public:
  explicit PlainProgress(Surroundings surroundings) : around_(std::move(surroundings)) {}

  void phase(std::string_view text) override { say(fmt::format("{}…", text)); }

  void preparation(const Preparation& preparation) override {
    if (preparation.kind == Preparation::Kind::network) {
      say(fmt::format("network {} created", preparation.name));
    } else if (preparation.finished) {
      say(fmt::format("pulled {}", preparation.name));
    } else if (is_first(preparation.name)) {
      say(fmt::format("pulling {}", preparation.name));
    }
  }

  void counted(std::string_view verb, std::size_t count, std::size_t total) override {
    if (is_time()) say(fmt::format("{} {} of {}", verb, count, total));
  }

  void note(std::string_view line) override { say(line); }
  void error(std::string_view line) override { say(line); }

  void begin(const Run& run) override {
    run_ = &run;
    // begin() may be called again when the run continues with a changed experiment file.
    settings_ = {};
    failures_ = {};
    counted_.clear();
    pending_.clear();
    say(begin_line(run));
  }

  void fact(const Fact& /*fact*/) override {}

  void failure(const Fact& fact, const std::vector<std::string>& tail) override {
    const FailureFeed::Shown shown = failures_.add(*run_, fact, tail);
    if (!shown.line.empty()) say(shown.line);
    if (!shown.tail.empty()) say(shown.tail);
  }

  void snapshot(const Snapshot& snapshot) override {
    if (snapshot.interrupted && !interrupted_) say(interrupt_line(snapshot));
    interrupted_ = snapshot.interrupted;
    if (snapshot.settings.paused != paused_) say(pause_line(snapshot));
    paused_ = snapshot.settings.paused;
    if (const std::string line = settings_.changed(snapshot.settings); !line.empty()) say(line);
    rate_.add(snapshot);
    if (!is_time()) return;
    say(fmt::format("{} after {}{}{}{}{}{}", counts_text(snapshot), to_string(snapshot.elapsed),
                    rate_text(rate_.per_second()), left_text(snapshot), paused_ ? ", paused" : "",
                    snapshot.capacity ? "; " + slots_text(snapshot) : "",
                    snapshot.running.empty() ? "" : "; " + running_text(named_ages(snapshot, *run_))));
    say_new(pending_lines(snapshot, *run_), pending_);
    say_new(failures_.counted(), counted_);
  }

  void end() override {}

 private:
  bool is_first(const std::string& image) {
    std::scoped_lock lock(mutex_);
    return pulling_.insert(image).second;
  }

  // Returns true if k_count_pause has passed since counts were last printed. The first counts are printed
  // only after such a pause, because most commands end sooner.
  bool is_time() {
    std::scoped_lock lock(mutex_);
    const Seconds now = around_.time();
    if (now - counted_at_ < k_count_pause) return false;
    counted_at_ = now;
    return true;
  }

  // Prints the lines that are not in `printed`, and stores all lines there.
  void say_new(std::vector<std::string> lines, std::vector<std::string>& printed) {
    for (const std::string& line : lines)
      if (std::ranges::find(printed, line) == printed.end()) say("  " + line);
    printed = std::move(lines);
  }

  void say(std::string_view line) {
    const std::string text = clean_lines(line);
    std::scoped_lock lock(mutex_);
    (void)std::fwrite(text.data(), 1, text.size(), around_.stream);
    (void)std::fflush(around_.stream);
  }

  Surroundings around_;
  std::mutex mutex_;
  std::set<std::string> pulling_;
  Seconds counted_at_ = around_.time();
  const Run* run_ = nullptr;
  FailureFeed failures_;
  std::vector<std::string> counted_;  // result of FailureFeed::counted() when counts were last printed
  std::vector<std::string> pending_;  // result of pending_lines() when counts were last printed
  bool interrupted_ = false;
  bool paused_ = false;
  SettingsWatch settings_;
  StartRate rate_;
};

// Prints only errors. QuietProgress prints no failures during the run, because print_outcome() prints each
// failure at the end.
class QuietProgress final : public PlainProgress {
 public:
  using PlainProgress::PlainProgress;
  void phase(std::string_view /*text*/) override {}
  void preparation(const Preparation& /*preparation*/) override {}
  void counted(std::string_view /*verb*/, std::size_t /*count*/, std::size_t /*total*/) override {}
  void note(std::string_view /*line*/) override {}
  void begin(const Run& /*run*/) override {}
  void fact(const Fact& /*fact*/) override {}
  void failure(const Fact& /*fact*/, const std::vector<std::string>& /*tail*/) override {}
  void snapshot(const Snapshot& /*snapshot*/) override {}
};

}  // namespace

std::unique_ptr<Progress> make_plain_progress(Surroundings surroundings) {
  return std::make_unique<PlainProgress>(std::move(surroundings));
}

std::unique_ptr<Progress> make_quiet_progress(Surroundings surroundings) {
  return std::make_unique<QuietProgress>(std::move(surroundings));
}

}  // namespace combu
