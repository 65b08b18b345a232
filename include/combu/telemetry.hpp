#pragma once
// Telemetry: the logs of trials, and the metrics in them. Each run has its own database beside the record.
// Several processes may write to it.

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

// One value of a metric that a trial wrote. May be NaN or infinite.
struct MetricPoint {
  double step = 0;  // as given in the line; NaN: the number of the metric's earlier points
  Instant at{};
  double value = 0;
};

// Summary of the values of a metric. `least` and `greatest` ignore NaN values; they are NaN if there is no
// other value.
struct PointSummary {
  std::size_t points = 0;
  double last = std::numeric_limits<double>::quiet_NaN();
  double least = std::numeric_limits<double>::quiet_NaN();
  double greatest = std::numeric_limits<double>::quiet_NaN();

  void add(double value) { add({.points = 1, .last = value, .least = value, .greatest = value}); }
  // Adds the values of `later`, which must have followed the values of this summary.
  void add(const PointSummary& later);
};

// Summary of all values of a metric in one attempt, including the points beyond k_kept_points_max. `least`
// and `greatest` ignore NaN values; they are NaN if there is no other value.
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
struct KeptLog {
  bool complete = false;        // the attempt has ended, and its whole log was ingested
  Bytes size;                   // of everything ingested, including what was dropped
  Bytes dropped;                // of the log's beginning, which is not kept
  Instant until{};              // time of the latest piece; the epoch if there is none
  std::size_t at_until = 0;     // number of pieces with exactly this time
  std::size_t passed_over = 0;  // ignored points, of metrics beyond k_metrics_max
  // How often a part of the log was missing between two readings, because the engine had rotated it away. A
  // loss before the first reading is not counted, because combu cannot detect it.
  std::size_t gaps = 0;
  bool operator==(const KeptLog&) const = default;
};

// Maximum number of different metrics of an attempt. Further metrics are ignored.
inline constexpr std::size_t k_metrics_max = 1000;

// Maximum number of points that are kept of all metrics of an attempt, counted from the first point. Later
// points count only in the summaries.
inline constexpr std::size_t k_kept_points_max = 1'000'000;

// If the two streams of an attempt write within this time, the engine may store their pieces in reverse
// order.
inline constexpr std::chrono::milliseconds k_log_disorder_max{100};

// Logs and metrics reused from a cached trial are stored as a pseudo-attempt with this number, which counts
// as the newest attempt. Running the trial deletes it.
inline constexpr int k_adopted = std::numeric_limits<int>::max();

struct Adoption {
  std::string trial;
  std::string from;  // name and attempt of the equal trial in the database to copy from
  int attempt = k_adopted;
};

// Maximum size in bytes of packed(), compressed and uncompressed.
inline constexpr std::size_t k_packed_max = std::size_t{256} << 20U;

// The data that Telemetry::take() stores in one transaction.
struct LogBatch {
  struct Metric {
    std::string name;
    std::vector<MetricPoint> points;  // points to keep
    PointSummary more = {};           // of later points, which are not kept
  };
  std::span<const LogPiece> pieces;  // pieces that follow the stored ones
  std::span<const Metric> metrics;
  std::size_t passed_over = 0;  // as in KeptLog
  bool is_after_gap = false;    // a part of the log before these pieces is missing
  bool complete = false;
};

// The telemetry database of a run. Thread-safe. All functions throw Error as Record does. A call that throws
// changes nothing.
class Telemetry {
 public:
  [[nodiscard]] static bool exists(const std::string& folder, const RunId& run);
  // Removes the telemetry of the run. Throws Error(refused) if a file cannot be removed.
  static void remove(const std::string& folder, const RunId& run);

  // `reading` creates no file. If this process cannot write to the file, the file is read without changes.
  enum class Use { all, reading };

  // Opens FOLDER/telemetry/RUN.sqlite. If the file is missing, Use::all creates it, and Use::reading throws
  // Error(not_found).
  Telemetry(const std::string& folder, const RunId& run, Use use = Use::all);
  ~Telemetry();
  Telemetry(const Telemetry&) = delete;
  Telemetry& operator=(const Telemetry&) = delete;

  // Returns the state of the attempt's log, or nullopt if nothing has been ingested.
  [[nodiscard]] std::optional<KeptLog> log(const std::string& trial, int attempt);
  // Remembers that this process has read the attempt's log up to the time `until`. Returns the `until` of the
  // previous call if that call was at least k_log_disorder_max ago. All pieces up to the returned time have
  // arrived by now. Otherwise returns the epoch.
  [[nodiscard]] Instant read_up_to(const std::string& trial, int attempt, Instant until);
  // Returns the number of complete logs, without those reused from cached trials.
  [[nodiscard]] std::size_t complete();
  // Calls `tell` for each kept piece of the log, in the log's order, until `tell` returns false. If `tail` is
  // given, reads only the last `tail` lines.
  void read_log(const std::string& trial, int attempt, std::optional<std::size_t> tail,
                const std::function<bool(const LogPiece&)>& tell);

  // Stores a batch in one transaction. Keeps at most `size_max` of the log, counted from its end. Returns the
  // new state of the log. Returns nullopt and changes nothing if the log's state is not `before`, because
  // another process has stored a part of the log.
  [[nodiscard]] std::optional<KeptLog> take(const std::string& trial, int attempt,
                                            const std::optional<KeptLog>& before, const LogBatch& batch,
                                            Bytes size_max);

  // Copies the attempts `wanted` from `other`, which may be this object, in one transaction. Returns the
  // trials whose equal trial had an attempt with a complete log; the others are not copied.
  std::set<std::string> adopt(const Telemetry& other, std::span<const Adoption> wanted);
  // Returns the telemetry of an attempt in compressed form: some hundreds of bytes, plus the compressed log
  // and metrics. Returns an empty string if the log is not complete or is too large to be shared. Also
  // returns an empty string if the telemetry exceeds k_packed_max.
  [[nodiscard]] std::string packed(const std::string& trial, int attempt);
  // Stores the packed() telemetry of another combu as that of `trial`. The argument may be hostile. Hence
  // everything in it is checked first; its size bounds the time and the memory of the check. Throws
  // Error(corrupt) with the reason if packed() cannot have made it. Throws Error(cancelled) once `stop` is
  // set.
  void adopt(std::string_view packed, const std::string& trial, const std::stop_token& stop = {});

  // Returns why the last call of take() failed, or an empty string if it succeeded.
  [[nodiscard]] std::string fault();
  // Returns the metrics of the attempt, and the number of points of each, kept or not.
  [[nodiscard]] std::map<std::string, std::size_t> metric_points(const std::string& trial, int attempt);
  // Returns the trials whose newest attempt has a complete log but no metrics.
  [[nodiscard]] std::vector<std::string> silent();
  // Calls `tell` for each metric of the newest attempt of each trial, ordered by trial and metric.
  void metrics(const std::function<void(const MetricSummary&)>& tell);
  // Calls `tell` for each kept point of a metric of the trial's newest attempt, in the order in which they
  // were written.
  void points(const std::string& trial, const std::string& metric,
              const std::function<void(const MetricPoint&)>& tell);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Ingests what an attempt has written since the last call, and the metrics in it. With LogEnd::complete, the
// attempt must have ended. Then ingests the whole rest of the log, and the file of metrics.
//
// Repeatable: nothing is stored twice. If the engine keeps no log, the stored log is empty. Returns notes for
// the user. Throws the errors of `engine` and of Telemetry.
enum class LogEnd { open, complete };
[[nodiscard]] std::vector<std::string> ingest_logs(Engine& engine, const Key& key, const Trial& trial,
                                                   LogEnd end, Telemetry& telemetry,
                                                   const std::stop_token& stop);

// Returns a text for the user about the gaps of a log.
[[nodiscard]] std::string gaps_text(const KeptLog& log);

// Returns a text for the user that says where combu searched for metrics without finding any.
[[nodiscard]] std::string words_of_none(const Metrics& metrics);

}  // namespace combu
