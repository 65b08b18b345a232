#pragma once
// Telemetry: the logs of trials, and the metrics in them. Each run has its own telemetry database beside the
// record. Several processes may write to the same telemetry database.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "combu/base.hpp"
#include "combu/engine.hpp"
#include "combu/spec.hpp"

namespace combu {

// One value of a metric that a trial wrote. The value may be NaN or infinite.
struct MetricPoint {
  double step = 0;  // the step that the trial wrote beside the value; if NaN, combu uses the number of the
                    // metric's earlier points as the step
  Instant at{};
  double value = 0;
};

// Summary of the values of a metric. `least` and `greatest` ignore NaN values; both are NaN if all values are
// NaN.
struct PointSummary {
  std::size_t points = 0;
  double last = std::numeric_limits<double>::quiet_NaN();
  double least = std::numeric_limits<double>::quiet_NaN();
  double greatest = std::numeric_limits<double>::quiet_NaN();

  void add(double value) { add({.points = 1, .last = value, .least = value, .greatest = value}); }
  // Adds the values of `later`, which the trial must have written after the values of this summary.
  void add(const PointSummary& later);
};

// Summary of all values of a metric in one attempt, including the points beyond k_kept_points_max. `least`
// and `greatest` ignore NaN values; both are NaN if all values are NaN.
struct MetricSummary {
  std::string trial;
  int attempt = 1;
  std::string metric;
  std::size_t points = 0;
  double last = 0;
  double least = 0;
  double greatest = 0;
};

// The state of an attempt's stored log.
struct StoredLog {
  bool complete = false;        // the attempt has ended, and its whole log was ingested
  Bytes size;                   // size of all ingested pieces of the log, including removed pieces
  Bytes dropped;                // size of the beginning of the log that append() has removed
  Instant until{};              // timestamp of the latest ingested piece; the epoch if there is none
  std::size_t at_until = 0;     // number of ingested pieces with exactly the timestamp `until`
  std::size_t passed_over = 0;  // number of points of the metrics that k_metrics_max excludes
  // Number of times that the engine's log rotation removed a part of the log between two readings, or that
  // the engine reported a lost part (LogPiece::is_after_gap). A loss by log rotation before the first reading
  // is not counted, because combu cannot detect such a loss.
  std::size_t gaps = 0;
  bool operator==(const StoredLog&) const = default;
};

// Maximum number of different metrics of an attempt. Metrics beyond this maximum are ignored.
inline constexpr std::size_t k_metrics_max = 1000;

// Maximum number of points that combu stores for all metrics of an attempt together: the first points of the
// attempt. Points beyond k_kept_points_max only contribute to the summaries.
inline constexpr std::size_t k_kept_points_max = 1'000'000;

// If an attempt writes to standard output and to standard error within this duration, the engine may store
// the two pieces in reverse order.
inline constexpr std::chrono::milliseconds k_log_disorder_max{100};

// Number of the pseudo-attempt that holds logs and metrics reused from a cached trial. A pseudo-attempt
// counts as the newest attempt of its trial. Running the trial deletes the pseudo-attempt.
inline constexpr int k_adopted = std::numeric_limits<int>::max();

struct Adoption {
  std::string trial;
  std::string from;  // name of the equal trial in the database to copy from; `attempt` is the attempt of the
                     // equal trial
  int attempt = k_adopted;
};

// Maximum size in bytes of the result of packed(), both compressed and uncompressed.
inline constexpr std::size_t k_packed_max = std::size_t{256} << 20U;

// The data that Telemetry::append() stores in one transaction.
struct LogBatch {
  struct Metric {
    std::string name;
    std::vector<MetricPoint> points;  // points to store
    PointSummary more = {};           // summary of the later points, which are not stored
  };
  std::span<const LogPiece> pieces;  // pieces of the log that follow the stored pieces
  std::span<const Metric> metrics;
  std::size_t passed_over = 0;  // as in StoredLog
  bool is_after_gap = false;    // true if a part of the log before `pieces` is missing
  bool complete = false;
};

// The telemetry database of a run. Thread-safe. The functions of Telemetry throw the same Errors as those of
// Record. A call that throws changes nothing.
class Telemetry {
 public:
  [[nodiscard]] static bool exists(const std::string& folder, const RunId& run);
  // Removes the telemetry of the run. Throws Error(refused) if a file cannot be removed.
  static void remove(const std::string& folder, const RunId& run);

  // Use::reading creates no file. It upgrades the tables of a file that an older version of combu made. If
  // this process cannot write to the file, the tables must already have the newest form.
  enum class Use { all, reading };

  // Opens FOLDER/telemetry/RUN.sqlite. If the file is missing, Use::all creates it, and Use::reading throws
  // Error(not_found).
  Telemetry(const std::string& folder, const RunId& run, Use use = Use::all);
  ~Telemetry();
  Telemetry(const Telemetry&) = delete;
  Telemetry& operator=(const Telemetry&) = delete;

  // Returns the state of the attempt's stored log, or nullopt if combu has ingested nothing of the attempt.
  [[nodiscard]] std::optional<StoredLog> log(const std::string& trial, int attempt);
  // Remembers that this process has read the attempt's log up to the moment `until`. Returns the `until` of
  // the previous call if that call was at least k_log_disorder_max ago, else the epoch. No piece of the log
  // from before the returned moment can still arrive late.
  [[nodiscard]] Instant read_up_to(const std::string& trial, int attempt, Instant until);
  // Returns the number of complete logs; logs reused from cached trials are not counted.
  [[nodiscard]] std::size_t complete();
  // Calls `sink` for each stored piece of the log, in the log's order, until `sink` returns false. If `tail`
  // is given, reads only the last `tail` lines.
  void read_log(const std::string& trial, int attempt, std::optional<std::size_t> tail,
                const std::function<bool(const LogPiece&)>& sink);

  // Stores a batch in one transaction. If the stored log is then larger than `size_max` bytes, removes its
  // beginning. Returns the new state of the log. If the log's state is not `before`, another process has
  // stored a part of the log: returns nullopt and changes nothing.
  [[nodiscard]] std::optional<StoredLog> append(const std::string& trial, int attempt,
                                                const std::optional<StoredLog>& before, const LogBatch& batch,
                                                Bytes size_max);

  // Copies the attempts `wanted` from `other`, which may be this object, in one transaction. Copies only
  // attempts with a complete log. Returns the names of the trials for which an attempt was copied.
  std::set<std::string> adopt(const Telemetry& other, std::span<const Adoption> wanted);
  // Returns the telemetry of an attempt in compressed form: some hundreds of bytes, plus the compressed log
  // and metrics. Returns an empty string if the log is incomplete, or if the log or one of its lines is too
  // large to share. Also returns an empty string if the telemetry is larger than k_packed_max.
  [[nodiscard]] std::string packed(const std::string& trial, int attempt);
  // Stores the telemetry `packed`, which another combu process has made with packed(), as the telemetry of
  // `trial`. `packed` may come from an untrusted user, so adopt() checks all of its content first. The time
  // and memory of this check are in proportion to the size of `packed`. Throws Error(corrupt) with the reason
  // if `packed` cannot be a result of packed(). Throws Error(cancelled) once `stop` requests a stop.
  void adopt(std::string_view packed, const std::string& trial, const std::stop_token& stop = {});

  // Returns why the last call of append() failed, or an empty string if append() succeeded.
  [[nodiscard]] std::string fault();
  // Returns the metrics of the attempt. Maps each metric to the number of its points, including points that
  // are not stored.
  [[nodiscard]] std::map<std::string, std::size_t> metric_points(const std::string& trial, int attempt);
  // Returns the trials whose newest attempt has a complete log but no metrics.
  [[nodiscard]] std::vector<std::string> silent();
  // Calls `sink` for each metric of the newest attempt of each trial, ordered by trial and metric.
  void metrics(const std::function<void(const MetricSummary&)>& sink);
  // Calls `sink` for each stored point of a metric of the trial's newest attempt, in the order in which the
  // trial wrote the points.
  void points(const std::string& trial, const std::string& metric,
              const std::function<void(const MetricPoint&)>& sink);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Ingests the part of an attempt's log that was written since the last call, and the metrics in this part.
// With LogEnd::complete, the attempt must have ended, and ingest_logs() ingests the whole rest of the log and
// the file of metrics.
//
// Calls can be repeated: no part of a log is stored twice. If the engine keeps no log, the stored log is
// empty. Without Trial::has_telemetry(), ingest_logs() stores nothing. Returns notes for the user. Throws the
// errors of the engine and of Telemetry.
enum class LogEnd { open, complete };
[[nodiscard]] std::vector<std::string> ingest_logs(Engine& engine, const Key& key, const Trial& trial,
                                                   LogEnd end, Telemetry& telemetry,
                                                   const std::stop_token& stop);

// Returns a text that tells the user how many parts of a log are missing.
[[nodiscard]] std::string gaps_text(const StoredLog& log);

// Returns a text that tells the user where combu has searched for metrics and found none.
[[nodiscard]] std::string words_of_none(const Metrics& metrics);

}  // namespace combu
