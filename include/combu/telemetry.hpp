#pragma once
// What trials say while they run: their logs, and the numbers in these. Each run has a database of its own,
// beside the record, that several processes may write.

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

// One number that a trial has told. Not a number, and infinite, it may be.
struct MetricPoint {
  double step = 0;  // the line's own; not a number: how many there were of this metric before
  Instant at{};
  double value = 0;
};

// Values of a metric, in short. The least and the greatest are of those that are numbers; NaN if there is
// none.
struct PointSummary {
  std::size_t points = 0;
  double last = std::numeric_limits<double>::quiet_NaN();
  double least = std::numeric_limits<double>::quiet_NaN();
  double greatest = std::numeric_limits<double>::quiet_NaN();

  void add(double value) { add({.points = 1, .last = value, .least = value, .greatest = value}); }
  // Those of `later`, which followed.
  void add(const PointSummary& later);
};

// All that an attempt has told of one metric, in short: of kept points and of those beyond k_kept_points_max.
// The least and the greatest are of those values that are numbers; not a number where there is none.
struct MetricSummary {
  std::string trial;
  int attempt = 1;
  std::string metric;
  std::size_t points = 0;
  double last = 0;
  double least = 0;
  double greatest = 0;
};

// What is kept of an attempt's log.
struct KeptLog {
  bool complete = false;        // the attempt has ended, and all of it was taken
  Bytes size;                   // of all that it has written, as far as it was taken
  Bytes dropped;                // of its beginning, which is not kept
  Instant until{};              // the latest piece's time; the epoch when there is none
  std::size_t at_until = 0;     // how many pieces have this very time
  std::size_t passed_over = 0;  // points of metrics beyond k_metrics_max
  // How often something between two readings was not there any more: the engine had rotated it away. What it
  // did before the first reading is not known.
  std::size_t gaps = 0;
  bool operator==(const KeptLog&) const = default;
};

// Different metrics of an attempt; further ones are passed over.
inline constexpr std::size_t k_metrics_max = 1000;

// Points of an attempt's metrics that are kept: the first ones. Later ones count in the summaries only.
inline constexpr std::size_t k_kept_points_max = 1'000'000;

// An engine may write what came at almost the same moment by two streams in the other order.
inline constexpr std::chrono::milliseconds k_log_disorder_max{100};

// What an equal trial has told stands in the place of an attempt of the trial's own. It counts as the newest
// one, and goes when the trial is run itself.
inline constexpr int k_adopted = std::numeric_limits<int>::max();

struct Adoption {
  std::string trial;
  std::string from;  // the equal trial's name where that is kept, and the attempt that has succeeded
  int attempt = k_adopted;
};

// Of what packed() gives, and of what that is packed from.
inline constexpr std::size_t k_packed_max = std::size_t{256} << 20U;

// What is taken in at once.
struct LogBatch {
  struct Metric {
    std::string name;
    std::vector<MetricPoint> points;  // to be kept
    PointSummary more = {};           // of those that followed and are not kept
  };
  std::span<const LogPiece> pieces;  // what follows on what is kept
  std::span<const Metric> metrics;
  std::size_t passed_over = 0;  // as in KeptLog
  bool is_after_gap = false;    // something between these pieces and what is kept is missing
  bool complete = false;
};

// May be used from many threads. Everything throws Error, as Record does; what throws has changed nothing.
class Telemetry {
 public:
  [[nodiscard]] static bool exists(const std::string& folder, const RunId& run);
  // What is there of runs, and nothing else.
  static void remove(const std::string& folder, const RunId& run);

  // `reading`: nothing is made, and where it cannot be written, it is read as it is.
  enum class Use { all, reading };

  // FOLDER/telemetry/RUN.sqlite, made when it is missing. Of `reading` throws Error(not_found) then.
  Telemetry(const std::string& folder, const RunId& run, Use use = Use::all);
  ~Telemetry();
  Telemetry(const Telemetry&) = delete;
  Telemetry& operator=(const Telemetry&) = delete;

  // What is kept of this attempt's log; nullopt: nothing has been taken yet.
  [[nodiscard]] std::optional<KeptLog> log(const std::string& trial, int attempt);
  // An attempt's log has been read up to this piece's time. Gives up to when this process had read it before,
  // if that was long enough ago for all up to then to be there by now; else the epoch.
  [[nodiscard]] Instant read_up_to(const std::string& trial, int attempt, Instant until);
  // How many logs of the trials' own attempts are complete.
  [[nodiscard]] std::size_t complete();
  // What is kept of it, in its order: all, or so many lines of its end. `tell` returns false to hear no more.
  void read_log(const std::string& trial, int attempt, std::optional<std::size_t> tail,
                const std::function<bool(const LogPiece&)>& tell);

  // In one transaction. Of the log no more than `size_max` of its end is kept. Returns what is kept then;
  // nullopt: the log was not as `before` says, since another process has taken of it, and nothing has
  // changed.
  [[nodiscard]] std::optional<KeptLog> take(const std::string& trial, int attempt,
                                            const std::optional<KeptLog>& before, const LogBatch& batch,
                                            Bytes size_max);

  // Those attempts in `other`, which may be this one, have told what is adopted, in one transaction. Gives
  // the trials for which there was one whose log is complete.
  std::set<std::string> adopt(const Telemetry& other, std::span<const Adoption> wanted);
  // All that an attempt has told, in some hundreds of bytes and what it has written, compressed; empty: its
  // log is not complete, or all of it is more than k_packed_max, or its log is too large to be shared.
  [[nodiscard]] std::string packed(const std::string& trial, int attempt);
  // Stores the result of packed() of another combu as the trial's. It may be hostile: everything in it is
  // checked first, within time and memory that its size bounds. Throws Error(corrupt) with the reason if
  // packed() cannot have made it, Error(cancelled) once `stop` is set.
  void adopt(std::string_view packed, const std::string& trial, const std::stop_token& stop = {});

  // Why nothing could be put there when it was tried last; empty: it could.
  [[nodiscard]] std::string fault();
  // The metrics that this attempt has told of so far, and how many points of each, kept or not.
  [[nodiscard]] std::map<std::string, std::size_t> metric_points(const std::string& trial, int attempt);
  // The trials whose newest attempt has told no metric, though its log is complete.
  [[nodiscard]] std::vector<std::string> silent();
  // Of the newest attempt of each trial, by trial and metric.
  void metrics(const std::function<void(const MetricSummary&)>& tell);
  // Of one metric of that attempt those that are kept, in the order in which they were told.
  void points(const std::string& trial, const std::string& metric,
              const std::function<void(const MetricPoint&)>& tell);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Takes in what an attempt has written since the last time, and the metrics in it; of one that has ended all
// that is left, and then its file of metrics. Repeatable: what has been taken is not taken again. Where the
// engine keeps no log there is none. Returns what a person should know. Throws Error: those of `engine`, and
// of Telemetry.
enum class LogEnd { open, complete };
[[nodiscard]] std::vector<std::string> ingest_logs(Engine& engine, const Key& key, const Trial& trial,
                                                   LogEnd end, Telemetry& telemetry,
                                                   const std::stop_token& stop);

// Text about a log that has gaps, for a person.
[[nodiscard]] std::string gaps_text(const KeptLog& log);

// Where metrics were looked for without finding any, for a person.
[[nodiscard]] std::string words_of_none(const Metrics& metrics);

}  // namespace combu
