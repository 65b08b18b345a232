#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "combu/telemetry.hpp"
#include "telemetry/metric_file.hpp"
#include "telemetry/metrics.hpp"

namespace combu {
namespace {

using telemetry::Lines;
using telemetry::MetricLimits;
using telemetry::MetricLines;

constexpr std::size_t k_batch_size = 4U << 20U;
// Maximum total size in bytes of pieces that are read but not yet stored. Above k_held_max, LogIngester
// stores pieces even if older pieces may follow. The limit is necessary because the pieces of a line all have
// the same timestamp, and a line may have any size.
constexpr std::size_t k_held_max = 2 * k_batch_size;
// Size in bytes that counts for each piece in addition to its text, because a log may consist of many pieces
// of one byte.
constexpr std::size_t k_piece_overhead = 64;
// Exception: another process has stored a part of the log since this process read the state of the log. In
// this case ingest_logs() begins again, so that no piece is stored twice.
struct Overtaken {};

class LogIngester {
 public:
  LogIngester(const Key& key, const Trial& trial, Telemetry& telemetry)
      : key_(key), trial_(trial), telemetry_(telemetry), before_(telemetry.log(key.trial, key.attempt)) {
    if (before_) {
      repeated_at_until_ = before_->at_until;
      had_dropped_ = before_->dropped.count > 0;
      had_passed_over_ = before_->passed_over > 0;
      had_gaps_ = before_->gaps > 0;
      expects_known_ = since().has_value();
    }
    if (!trial.metrics) return;
    if (before_) limits_ = MetricLimits(telemetry.metric_points(key.trial, key.attempt));
    had_all_points_ = !limits_.exceeds_points();
    if (trial.metrics->json) metrics_.emplace_back(MetricLines::Form::json, limits_, *trial.metrics);
    if (!trial.metrics->pattern.empty())
      metrics_.emplace_back(MetricLines::Form::pattern, limits_, *trial.metrics);
  }

  [[nodiscard]] bool has_begun_to_drop() const {
    return !had_dropped_ && before_ && before_->dropped.count > 0;
  }
  [[nodiscard]] bool has_begun_to_pass_over() const {
    return !had_passed_over_ && before_ && before_->passed_over > 0;
  }
  [[nodiscard]] bool has_begun_to_drop_points() const { return had_all_points_ && limits_.exceeds_points(); }
  [[nodiscard]] bool has_begun_to_miss() const { return !had_gaps_ && before_ && before_->gaps > 0; }
  // True if the engine has reported a gap.
  [[nodiscard]] bool was_lost() const { return was_lost_; }
  [[nodiscard]] MetricLimits& limits() { return limits_; }
  [[nodiscard]] bool is_complete() const { return before_ && before_->complete; }
  [[nodiscard]] std::optional<Instant> since() const {
    return before_ && before_->size.count > 0 ? std::optional(before_->until) : std::nullopt;
  }

  void add(const LogPiece& piece) {
    if (piece.is_after_gap) {
      was_lost_ = true;
      return;
    }
    if (before_ && piece.at == before_->until && repeated_at_until_ > 0) {
      --repeated_at_until_;
      expects_known_ = false;
      return;
    }
    latest_ = std::max(latest_, piece.at);
    pieces_.push_back({.stream = piece.stream, .at = piece.at, .begin = texts_.size()});
    texts_ += piece.text;
    if (size_behind(0) >= next_batch_) give(ready());
  }

  // For an attempt that still runs: stores the part of the log that has been read so far.
  void pause() {
    settled_until_ = telemetry_.read_up_to(key_.trial, key_.attempt, latest_);
    give(ready());
  }

  // Stores the rest of the log of an attempt that has ended, and the metrics `more`.
  void end(std::vector<LogBatch::Metric> more) {
    more_ = std::move(more);
    is_last_ = true;
    give(pieces_.size());
  }

 private:
  struct Piece {
    LogStream stream;
    Instant at;
    std::size_t begin;
  };

  // Returns where the text of piece `index` begins in texts_. If `index` is behind the last piece, returns
  // the end of texts_.
  [[nodiscard]] std::size_t begin_of(std::size_t index) const {
    return index < pieces_.size() ? pieces_[index].begin : texts_.size();
  }
  [[nodiscard]] std::string_view text(std::size_t index) const {
    return std::string_view(texts_).substr(begin_of(index), begin_of(index + 1) - begin_of(index));
  }
  // Returns the size in bytes of the pieces from `index` on, including k_piece_overhead for each piece.
  [[nodiscard]] std::size_t size_behind(std::size_t index) const {
    return texts_.size() - begin_of(index) + k_piece_overhead * (pieces_.size() - index);
  }

  // Returns the number of leading pieces whose order is final: no later piece is older, and no older piece
  // can still arrive. The order of stored pieces matters, because the next reading begins at the timestamp of
  // the last stored piece.
  [[nodiscard]] std::size_t settled() const {
    Instant least = std::max<Instant>(latest_ - k_log_disorder_max, settled_until_);
    std::vector<Instant> behind(pieces_.size());
    for (std::size_t i = pieces_.size(); i > 0; --i) {
      behind[i - 1] = least;
      least = std::min(least, pieces_[i - 1].at);
    }
    std::size_t count = 0;
    Instant greatest{};
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      greatest = std::max(greatest, pieces_[i].at);
      if (greatest <= behind[i]) count = i + 1;
    }
    return count;
  }

  // Sizes in bytes of the unfinished line of standard output. `line` counts from the last newline or carriage
  // return, both of which end a line for metrics; `newline` counts from the last newline.
  struct Open {
    std::size_t line = 0;
    std::size_t newline = 0;
  };

  // Returns the largest number of leading pieces, at most `count`, after which no line of standard output is
  // unfinished. Stored pieces must end at a line end, because another process may continue the reading and
  // would see only the rest of a line. A line that is too long to be searched for metrics may be split.
  [[nodiscard]] std::size_t whole_lines(std::size_t count) const {
    Open open = open_;
    std::size_t whole = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (pieces_[i].stream == LogStream::out) open = open_after(open, text(i));
      if (open.line == 0 || open.newline > telemetry::k_line_max) whole = i + 1;
    }
    return whole;
  }

  // Returns whole_lines(), or `count` if more than k_batch_size bytes would have to wait for a line end.
  // Otherwise a line without an end would delay the other stream for ever.
  [[nodiscard]] std::size_t complete_enough(std::size_t count) const {
    const std::size_t whole = whole_lines(count);
    return size_behind(whole) > k_batch_size ? count : whole;
  }

  // Returns how many leading pieces to store, so that at most k_held_max bytes remain.
  [[nodiscard]] std::size_t ready() const {
    std::size_t count = complete_enough(settled());
    if (size_behind(count) <= k_held_max) return count;
    while (size_behind(count) > k_batch_size) ++count;
    return complete_enough(count);
  }

  static std::size_t open_after(std::size_t open, std::string_view text, char end) {
    // Uses memrchr(), because std::string_view::find_last_of() would take most of the time of reading a long
    // line.
    const auto* const last = static_cast<const char*>(::memrchr(text.data(), end, text.size()));
    return last == nullptr ? open + text.size() : static_cast<std::size_t>(text.end() - last) - 1;
  }
  static Open open_after(const Open& open, std::string_view text) {
    const std::size_t newline = open_after(open.newline, text, '\n');
    return {.line = std::min(newline, open_after(open.line, text, '\r')), .newline = newline};
  }

  void give(std::size_t count) {
    next_batch_ = size_behind(count) + k_batch_size;
    if (count == 0 && !is_last_) return;
    std::vector<LogPiece> pieces;
    pieces.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      pieces.push_back({.stream = pieces_[i].stream, .text = text(i), .at = pieces_[i].at});
      if (pieces_[i].stream != LogStream::out) continue;
      open_ = open_after(open_, pieces.back().text);
      lines_.feed(pieces.back().text, pieces_[i].at);
    }
    if (is_last_) lines_.end(latest_);
    std::vector<LogBatch::Metric> metrics = std::exchange(more_, {});
    for (MetricLines& one : metrics_) std::ranges::move(one.take_points(), std::back_inserter(metrics));
    const LogBatch batch{.pieces = pieces,
                         .metrics = metrics,
                         .passed_over = limits_.passed_over() - passed_over_,
                         .is_after_gap = (expects_known_ && !pieces.empty()) || (is_last_ && was_lost_),
                         .complete = is_last_};
    auto after = telemetry_.append(key_.trial, key_.attempt, before_, batch, trial_.log_size_max);
    // NOLINTNEXTLINE(bugprone-std-exception-baseclass): no handler of std::exception may catch it
    if (!after) throw Overtaken{};
    before_ = after;
    if (batch.is_after_gap) expects_known_ = false;
    passed_over_ = limits_.passed_over();
    repeated_at_until_ = 0;
    const std::size_t begin = begin_of(count);
    texts_.erase(0, begin);
    pieces_.erase(pieces_.begin(), pieces_.begin() + static_cast<std::ptrdiff_t>(count));
    for (Piece& piece : pieces_) piece.begin -= begin;
  }

  const Key& key_;
  const Trial& trial_;
  Telemetry& telemetry_;
  std::optional<StoredLog> before_;
  bool had_dropped_ = false;
  bool had_passed_over_ = false;
  bool had_gaps_ = false;
  bool had_all_points_ = true;
  // True until LogIngester has read the last stored piece again. The engine sends the last stored piece
  // first, unless log rotation has removed this piece.
  bool expects_known_ = false;
  bool was_lost_ = false;
  std::size_t repeated_at_until_ = 0;  // number of already stored pieces that the engine sends again
  std::vector<Piece> pieces_;          // pieces that are not stored yet
  std::string texts_;                  // texts of pieces_, one after the other
  std::size_t next_batch_ = k_batch_size;
  Instant latest_{};
  Instant settled_until_{};
  Open open_;
  bool is_last_ = false;
  MetricLimits limits_;
  std::size_t passed_over_ = 0;  // the part of limits_.passed_over() that is already stored in the database
  std::vector<MetricLines> metrics_;
  std::vector<LogBatch::Metric> more_;
  Lines lines_{[this](std::string_view line, Instant at) {
    for (MetricLines& one : metrics_) one.add(line, at);
  }};
};

std::vector<std::string> ingest_once(Engine& engine, const Key& key, const Trial& trial, LogEnd end,
                                     Telemetry& telemetry, const std::stop_token& stop) {
  if (!trial.has_telemetry()) return {};
  LogIngester ingester(key, trial, telemetry);
  if (ingester.is_complete()) return {};
  std::vector<std::string> notes;
  bool is_kept = true;
  const auto add = [&](const LogPiece& piece) {
    is_kept = false;
    ingester.add(piece);
    is_kept = true;
  };
  try {
    if (trial.log_size_max.count > 0 || trial.metrics->are_in_output())
      engine.logs(key, {.since = ingester.since(), .timed = true}, add, stop);
  } catch (const Error& error) {
    // If the engine keeps no log, the empty log counts as complete. Errors of storing a piece, and all other
    // errors, are rethrown.
    if (error.kind() != ErrorKind::refused || !is_kept) throw;
    notes.push_back(fmt::format("reading the log failed: {}", error.message()));
  }
  if (end == LogEnd::open) {
    ingester.pause();
  } else {
    telemetry::FileMetrics file;
    if (trial.metrics && !trial.metrics->file.empty())
      file = telemetry::read_metric_file(engine, key, *trial.metrics, ingester.limits(), stop);
    if (!file.fault.empty()) notes.push_back(std::move(file.fault));
    ingester.end(std::move(file.metrics));
  }
  if (ingester.has_begun_to_drop() && trial.log_size_max.count > 0)
    notes.push_back(fmt::format("the log exceeds logs.max_size: combu keeps only the last {}",
                                to_string(trial.log_size_max)));
  if (ingester.was_lost() && end == LogEnd::complete)
    notes.emplace_back(
        "a part of the log is missing, with the metrics in it: the agent could not store it; free space on "
        "the disk of the engine's host");
  else if (ingester.has_begun_to_miss())
    notes.emplace_back(
        "a part of the log is missing, with the metrics in it: the engine removed it by log rotation before "
        "combu read "
        "it; increase max-size or max-file of the engine's log driver");
  if (ingester.has_begun_to_pass_over())
    notes.push_back(
        fmt::format("the trial has more than {} metrics: combu keeps only the first ones", k_metrics_max));
  if (ingester.has_begun_to_drop_points())
    notes.push_back(
        fmt::format("the metrics have more than {} points: combu keeps only the first ones; the last, least "
                    "and greatest values include all points",
                    k_kept_points_max));
  return notes;
}

}  // namespace

std::vector<std::string> ingest_logs(Engine& engine, const Key& key, const Trial& trial, LogEnd end,
                                     Telemetry& telemetry, const std::stop_token& stop) {
  for (;;) {
    try {
      return ingest_once(engine, key, trial, end, telemetry, stop);
    } catch (const Overtaken&) {
      if (stop.stop_requested()) throw Error(ErrorKind::cancelled, key.trial, "stopped");
    }
  }
}

}  // namespace combu
