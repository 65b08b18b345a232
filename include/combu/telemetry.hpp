#pragma once
// What trials say while they run: their logs, and the numbers in these. Each run has a database of its own,
// beside the record, that several processes may write.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "combu/base.hpp"
#include "combu/engine.hpp"
#include "combu/spec.hpp"

namespace combu {

// One number that a trial has told. `step` is the line's own "step", else how many it has told of this metric
// before. Not a number, and infinite, it may be.
struct MetricPoint {
  double step = 0;
  Instant at{};
  double value = 0;
};

// All that an attempt has told of one metric, in short; of values that are no numbers only `last`.
struct MetricSummary {
  std::string trial;
  int attempt = 1;
  std::string metric;
  std::size_t points = 0;
  double last = 0;
  double least = 0;
  double greatest = 0;
};

// A piece of a log as it is kept.
struct KeptPiece {
  LogStream stream = LogStream::out;
  Instant at{};
  std::string_view text;  // a line with its end, or a part of one
};

// What is kept of an attempt's log.
struct KeptLog {
  bool complete = false;  // the attempt has ended, and all of it was taken
  Bytes size;             // of all that it has written, as far as it was taken
  Bytes dropped;          // of its beginning, which is not kept
  Instant until{};        // the last piece's time; the epoch when there is none
  std::size_t at_until = 0;  // how many pieces have this very time
};

// What is taken in at once.
struct Intake {
  std::span<const KeptPiece> pieces;
  struct Metric {
    std::string name;
    std::vector<MetricPoint> points;
  };
  std::span<const Metric> metrics;
  bool complete = false;
};

// Belongs to one thread at a time. Everything throws Error, as Record does.
class Telemetry {
 public:
  [[nodiscard]] static bool exists(const std::string& folder, const RunId& run);
  // What is there of runs, and nothing else.
  static void remove(const std::string& folder, const RunId& run);

  // FOLDER/telemetry/RUN.sqlite, made when it is missing.
  Telemetry(const std::string& folder, const RunId& run);
  ~Telemetry();
  Telemetry(const Telemetry&) = delete;
  Telemetry& operator=(const Telemetry&) = delete;

  // What is kept of this attempt's log; nullopt: nothing has been taken yet.
  [[nodiscard]] std::optional<KeptLog> log(const std::string& trial, int attempt);
  // The newest attempt of this trial of which something was taken.
  [[nodiscard]] std::optional<int> newest_attempt(const std::string& trial);
  // All that is kept of it, in its order. `tell` returns false to hear no more.
  void read_log(const std::string& trial, int attempt, const std::function<bool(const KeptPiece&)>& tell);

  // One transaction. Nothing is taken, and false returned, when the log is not as `before` says: another
  // process has taken of it.
  bool take(const std::string& trial, int attempt, const std::optional<KeptLog>& before, const Intake& intake,
            Bytes size_max);

  // Of the newest attempt of each trial, by trial and metric.
  void metrics(const std::function<void(const MetricSummary&)>& tell);
  // Of one metric of that attempt, in the order in which they were told.
  void points(const std::string& trial, const std::string& metric,
              const std::function<void(const MetricPoint&)>& tell);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace combu
