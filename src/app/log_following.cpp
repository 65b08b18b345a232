#include "app/log_following.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "app/log_reading.hpp"
#include "combu/record.hpp"
#include "combu/session.hpp"
#include "combu/telemetry.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

constexpr std::size_t k_follow_width = 8;

// Follows the logs of all attempts of a run. Polls each log for new pieces, since a permanent connection for
// each running attempt would need too many connections.
class Following {
 public:
  // `read`: attempts whose logs have been completely passed to their sinks.
  Following(Session& session, std::string folder, const LogOptions& wanted, OpenLogSink open_sink,
            const std::set<Key>& read)
      : session_(session), folder_(std::move(folder)), wanted_(wanted), open_sink_(std::move(open_sink)) {
    wanted_.follow = false;
    for (const Key& key : read) log_of(key).complete = true;
  }

  // Passes the new pieces of all logs to their sinks. Returns false if the reader of the output has closed
  // the pipe. If look() throws, the next call passes the pieces that are still missing.
  bool look(const std::vector<Observation>& attempts) {
    std::vector<const Observation*> open;
    std::set<Key> listed;
    for (const Observation& seen : attempts) {
      const bool has_run = seen.phase == Phase::running || seen.phase == Phase::ended;
      if (!has_run) continue;
      listed.insert(seen.key);
      note_earlier(seen.key);
      if (!log_of(seen.key).complete) open.push_back(&seen);
    }
    is_first_ = false;
    for (auto& [key, log] : logs_)
      if (!log.complete && !listed.contains(key)) end(key, log);
    std::ranges::sort(open, is_before);
    in_parallel(open.size(), k_follow_width, [&](std::size_t index) { read(*open[index]); });
    return !reader_has_gone_;
  }

 private:
  struct Log {
    std::unique_ptr<LogSink> sink;
    LogPlace place;
    bool complete = false;
    bool has_gap_note = false;
  };

  static bool is_before(const Observation* left, const Observation* right) { return is_older(*left, *right); }

  Log& log_of(const Key& key) {
    Log& log = logs_[key];
    if (!log.sink) log.sink = open_sink_(key.trial, LogsOf::several_trials);
    return log;
  }

  // Opens the logs of the trial's earlier attempts, which may have begun and ended between two calls of
  // look(). During the first call of look(), marks these logs as complete, so that they are not shown.
  void note_earlier(Key key) {
    while (--key.attempt > 0 && !logs_.contains(key)) log_of(key).complete = is_first_;
  }

  // Passes the rest of the stored log to the sink, after the container has been removed.
  void end(const Key& key, Log& log) {
    log.complete = true;
    std::optional<Telemetry> telemetry;
    const auto kept = find_readable(telemetry, folder_, key);
    if (reader_has_gone_ || !kept) return log.sink->flush();
    if (!log.has_gap_note) note_gaps(*kept, wanted_, *log.sink);
    if (!read_stored(*telemetry, key, *kept, wanted_, log.place, *log.sink)) reader_has_gone_ = true;
  }

  void read(const Observation& seen) {
    Log& log = logs_.at(seen.key);
    try {
      session_.engine().logs(
          seen.key, log.place.next(wanted_),
          [&](const LogPiece& piece) {
            if (!piece.is_after_gap && !log.place.is_new(piece)) return;
            const std::scoped_lock lock(sinks_);
            if (piece.is_after_gap) {
              if (!std::exchange(log.has_gap_note, true)) note_gaps({.gaps = 1}, wanted_, *log.sink);
              return;
            }
            if (!reader_has_gone_ && !log.sink->put(piece.stream, piece.text)) reader_has_gone_ = true;
          },
          session_.stop());
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::not_found) throw;
      return;  // the container is gone; the next listing will lack the attempt
    }
    if (seen.phase != Phase::ended) return;
    log.complete = true;
    const std::scoped_lock lock(sinks_);
    log.sink->flush();
  }

  Session& session_;
  std::string folder_;
  LogOptions wanted_;
  OpenLogSink open_sink_;
  bool is_first_ = true;
  std::map<Key, Log> logs_;
  std::mutex sinks_;
  std::atomic<bool> reader_has_gone_ = false;
};

// True if a selected trial may begin another attempt: if `names` is empty, or if any trial in `names` has not
// ended according to the record.
bool may_begin(const RunId& run, const std::vector<std::string>& names, const Caller& caller) {
  if (names.empty()) return true;
  bool any = false;
  for (const TrialEntry& entry : Record(state_folder(caller), Record::Use::reading).trials(run))
    any |= !is_over(entry.state) && is_chosen(names, entry.name);
  return any;
}

}  // namespace

void follow_logs(Session& session, const Invocation& invocation, const SelectionOptions& selection,
                 const LogOptions& wanted, const OpenLogSink& open_sink, const std::set<Key>& read) {
  const auto patient = session.patient_engine();
  const Caller caller = caller_for(invocation);
  Following following(session, state_folder(caller), wanted, open_sink, read);
  std::optional<std::vector<Selector>> selectors;
  for (int cuts = 0;;) {
    // Check for the owner before listing. If the owner ends between these two steps, the listing still shows
    // the attempts that the owner started last.
    const bool goes_on = !selection.run.empty() && owner_pid(RunId(selection.run), caller) &&
                         may_begin(RunId(selection.run), selection.trials, caller);
    const bool is_first = !selectors;
    try {
      if (is_first || selection.run.empty()) selectors = selectors_of(session, invocation, selection);
      auto attempts = list_all(session, *selectors, ListDetail::basic);
      std::erase_if(attempts,
                    [&](const Observation& seen) { return !is_chosen(selection.trials, seen.key.trial); });
      const bool lives =
          std::ranges::any_of(attempts, [](const Observation& seen) { return is_alive(seen); });
      if (!following.look(attempts) || (!goes_on && !lives)) return;
      cuts = 0;
    } catch (const Error& error) {
      if (is_first || !is_absence(error) || ++cuts > k_log_cuts_max) throw;
      (void)patient->list(selectors->front(), ListDetail::basic, session.stop());
    }
    real_clock().wait(k_follow_pause, session.stop());
  }
}

}  // namespace combu
