#include "progress/block.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "combu/text.hpp"

namespace combu {
namespace {

constexpr std::size_t k_rows_max = 12;
constexpr Seconds k_rate_window{3};

std::string headline(const BlockContent& content) {
  if (!content.snapshot) return content.counted.empty() ? content.phase + "…" : content.counted;
  const Snapshot& snapshot = *content.snapshot;
  std::string text = fmt::format("{} of {} started", snapshot.started, snapshot.trials);
  text += rate_text(content.starts_per_second) + ", " + to_string(content.elapsed) + left_text(snapshot);
  if (snapshot.settings.paused) text += ", paused";
  if (snapshot.interrupted) text += ", ending";
  return text;
}

std::string pull_line(const Preparation& pull) {
  const std::string& name = pull.name;
  if (pull.total.count > 0)
    return fmt::format("pulling {}: {} of {}", name, to_string(pull.done), to_string(pull.total));
  if (pull.done.count > 0) return fmt::format("pulling {}: {}", name, to_string(pull.done));
  return fmt::format("pulling {}", name);
}

}  // namespace

std::string counts_text(const Snapshot& snapshot) {
  std::string text;
  for (std::size_t i = 0; i < k_trial_state_count; ++i) {
    if (snapshot.counts[i] == 0) continue;
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {}", snapshot.counts[i], to_string(static_cast<TrialState>(i)));
  }
  return text;
}

std::vector<NamedAge> named_ages(const Snapshot& snapshot, const Run& run) {
  std::vector<NamedAge> named;
  named.reserve(snapshot.running.size());
  for (const RunningTrial& one : snapshot.running)
    named.push_back({.name = run.experiment.trials[one.trial].name, .age = one.age});
  return named;
}

std::string running_text(const std::vector<NamedAge>& running) {
  std::string text;
  for (const NamedAge& one : running) {
    const Seconds whole(std::floor(one.age.count()));
    const std::string age = whole < Seconds(60) ? fmt::format("{:.0f} s", whole.count()) : to_string(whole);
    text += fmt::format("{} {} ({})", text.empty() ? "running" : ",", one.name, age);
  }
  return text;
}

std::vector<std::string> pending_lines(const Snapshot& snapshot, const Run& run) {
  std::vector<std::string> lines;
  lines.reserve(snapshot.pending.size());
  for (const auto& [reason, first, count] : snapshot.pending)
    lines.push_back(fmt::format("starting: {}{}: {}", run.experiment.trials[first].name,
                                count > 1 ? fmt::format(" and {} more", count - 1) : "", reason));
  return lines;
}

std::string left_text(const Snapshot& snapshot) {
  // The remaining duration of the run is rounded to seconds, because that duration is an estimate.
  if (!snapshot.left || *snapshot.left < Seconds(1)) return "";
  return fmt::format(", about {} left", to_string(Seconds(std::round(snapshot.left->count()))));
}

std::string rate_text(double starts_per_second) {
  return starts_per_second > 0 ? fmt::format(", {:.1f}/s", starts_per_second) : "";
}

std::string slots_text(const Snapshot& snapshot) {
  const Slots& capacity = *snapshot.capacity;
  std::string text =
      fmt::format("{} of {} CPUs, {} of {}", to_string(snapshot.held.cpus), to_string(capacity.cpus),
                  to_string(snapshot.held.memory), to_string(capacity.memory));
  if (!capacity.gpus.empty())
    text += fmt::format(", {} of {} GPUs", snapshot.held.gpus.size(), capacity.gpus.size());
  if (!snapshot.held_by_others.empty())
    text += fmt::format("; other runs: {}", to_string(snapshot.held_by_others));
  return text;
}

std::vector<std::string> block_lines(const BlockContent& content, ScreenSize size) {
  const std::size_t rows_max = std::min(k_rows_max, size.rows > 1 ? size.rows - 1 : 1);
  const std::size_t columns_max = size.columns > 1 ? size.columns - 1 : 1;
  if (content.empty()) return {};

  std::vector<std::string> lines{headline(content)};
  if (content.snapshot) lines.push_back("  " + counts_text(*content.snapshot));
  if (!content.running.empty()) lines.push_back("  " + running_text(content.running));
  if (content.snapshot && content.snapshot->capacity) lines.push_back("  " + slots_text(*content.snapshot));
  if (!content.starting.empty()) {
    std::string names;
    for (const std::string& name : content.starting) names += " " + name;
    lines.push_back("  starting" + names);
  }
  for (const std::string& line : content.pending) lines.push_back("  " + line);
  for (const std::string& line : content.failures) lines.push_back("  " + line);
  for (const auto& [name, pull] : content.pulls) lines.push_back("  " + pull_line(pull));

  if (lines.size() > rows_max) lines.resize(rows_max);
  for (std::string& line : lines) line = fit_line(line, columns_max);
  return lines;
}

void StartRate::add(const Snapshot& snapshot) {
  seen_.emplace_back(snapshot.elapsed, snapshot.started);
  while (seen_.size() > 2 && seen_[1].first < snapshot.elapsed - k_rate_window) seen_.pop_front();
}

double StartRate::per_second() const {
  if (seen_.size() < 2) return 0;
  const Seconds time = seen_.back().first - seen_.front().first;
  const auto starts = static_cast<double>(seen_.back().second - seen_.front().second);
  return time > Seconds{0} ? starts / time.count() : 0;
}

}  // namespace combu
