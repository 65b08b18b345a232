#pragma once
// Fixture for logs and metrics of a run: an engine with one log, and the telemetry database that ingests it.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "combu/telemetry.hpp"
#include "passing_engine.hpp"
#include "record_folder.hpp"
#include "soft_limit.hpp"

namespace combu::test {

inline const Instant k_begin = *parse_timestamp("2026-01-31T12:00:00Z");

// Simulates a full disk: until the object is destroyed, no file may grow.
inline std::shared_ptr<SoftLimit> full_disk() {
  std::signal(SIGXFSZ, SIG_IGN);
  return std::make_shared<SoftLimit>(RLIMIT_FSIZE, 0);
}

// An engine with one log. Tests may add pieces between two readings.
class LogEngine : public PassingEngine {
 public:
  LogEngine() : PassingEngine(static_cast<Engine&>(*this)) {}

  struct Piece {
    std::string text;
    Instant at;
    LogStream stream = LogStream::out;
  };

  void say(const std::string& text, Instant::duration after, LogStream stream = LogStream::out) {
    pieces.push_back({.text = text, .at = k_begin + after, .stream = stream});
    ++said;
  }

  // Removes all pieces before the piece number `first`.
  void rotate(std::size_t first) {
    pieces.erase(pieces.begin(),
                 pieces.begin() + static_cast<std::ptrdiff_t>(first - (said - pieces.size())));
  }

  void logs(const Key& /*key*/, const LogOptions& options, const OnLogPiece& on_piece,
            std::stop_token /*stop*/) override {
    EXPECT_TRUE(options.timed);
    ++calls;
    if (refuses) throw Error(ErrorKind::refused, "", "configured logging driver does not support reading");
    for (const Piece& piece : pieces) {
      if (options.since && piece.at < *options.since) continue;
      if (static_cast<std::size_t>(reported) == breaks_at) throw Error(ErrorKind::unavailable, "", "cut off");
      ++reported;
      try {
        on_piece({.stream = piece.stream, .text = piece.text, .at = piece.at});
      } catch (const Error&) {
        if (on_refusal) on_refusal();
        throw;
      }
    }
    if (lost_end) on_piece({.is_after_gap = true});
  }

  bool copy_out(const Key& /*key*/, const std::string& path,
                const std::function<void(std::string_view)>& on_bytes, std::stop_token /*stop*/) override {
    copied = 0;
    if (is_unreadable) throw Error(ErrorKind::invalid, path, "cannot be read: it is a loop");
    if (!files.contains(path)) return false;
    const auto done = before_copy ? before_copy() : nullptr;
    const std::string archive = dated(tar_of({{path.substr(path.rfind('/') + 1), files.at(path)}}));
    const std::size_t end = std::min(cut_at, archive.size());
    for (; copied < end; copied += std::min(piece_size, end - copied))
      on_bytes(std::string_view(archive).substr(copied, std::min(piece_size, end - copied)));
    if (end < archive.size()) throw Error(ErrorKind::unavailable, "", "cut off");
    return true;
  }

  std::vector<Piece> pieces;
  std::size_t said = 0;
  std::int64_t modified = 0;  // time of every file, in seconds since 1970
  std::map<std::string, std::string> files;
  int calls = 0;
  int reported = 0;
  std::size_t breaks_at = std::string::npos;  // number of pieces after which the connection breaks
  bool refuses = false;
  bool lost_end = false;                               // the engine has lost the end of the log
  bool is_unreadable = false;                          // for all paths
  std::size_t piece_size = 1000;                       // size of the pieces of an archive
  std::size_t cut_at = std::string::npos;              // where the archive is cut off
  std::size_t copied = 0;                              // bytes of the last archive that were sent
  std::function<std::shared_ptr<void>()> before_copy;  // its result is kept until the end of the copy
  std::function<void()> on_refusal;                    // called when `tell` throws

 private:
  // Sets the time of the first entry in base-256. GNU tar does this if a time does not fit in octal digits
  // (GNU tar manual, "Basic Tar Format").
  [[nodiscard]] std::string dated(std::string tar) const {
    constexpr std::size_t k_time = 136;
    constexpr std::size_t k_sum = 148;
    constexpr std::size_t k_header = 512;
    tar.replace(k_time, 4, modified < 0 ? std::string(4, '\xff') : std::string("\x80\0\0\0", 4));
    for (std::size_t i = 0; i < sizeof(modified); ++i)
      tar[k_time + 11 - i] = static_cast<char>(static_cast<std::uint64_t>(modified) >> (8 * i));
    tar.replace(k_sum, 8, 8, ' ');
    unsigned sum = 0;
    for (const char byte : tar.substr(0, k_header)) sum += static_cast<unsigned char>(byte);
    return tar.replace(k_sum, 7, fmt::format("{:06o}", sum) + '\0');
  }
};

class TelemetryTest : public testing::Test {
 protected:
  std::vector<std::string> take(LogEnd end = LogEnd::open) {
    return ingest_logs(engine, {.run = RunId("run1"), .trial = trial.name, .attempt = 1}, trial, end,
                       telemetry, {});
  }

  std::optional<ErrorKind> kind_of_fault(LogEnd end) {
    try {
      take(end);
    } catch (const Error& error) {
      return error.kind();
    }
    return std::nullopt;
  }

  std::string kept(std::optional<std::size_t> tail = std::nullopt, int attempt = 1) {
    std::string text;
    telemetry.read_log("a", attempt, tail, [&](const LogPiece& piece) {
      if (piece.stream == LogStream::err) text += "!";
      text += piece.text;
      return true;
    });
    return text;
  }

  std::vector<std::string> metrics() {
    std::vector<std::string> all;
    telemetry.metrics([&](const MetricSummary& one) {
      all.push_back(fmt::format("{}.{} {}: {} points, last {}, {} to {}", one.trial, one.attempt, one.metric,
                                one.points, one.last, one.least, one.greatest));
    });
    return all;
  }

  std::vector<std::string> points(const std::string& metric) {
    std::vector<std::string> all;
    telemetry.points("a", metric, [&](const MetricPoint& point) {
      all.push_back(fmt::format("{}:{}", point.step, point.value));
    });
    return all;
  }

  Folder folder{"telemetry"};
  LogEngine engine;
  Trial trial{.name = "a"};
  Telemetry telemetry{folder.path(), RunId("run1")};
};

}  // namespace combu::test
