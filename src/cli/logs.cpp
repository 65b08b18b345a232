#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stop_token>
#include <utility>

#include "app/kept_logs.hpp"
#include "app/log_place.hpp"
#include "app/runs.hpp"
#include "app/selection.hpp"
#include "app/trial_names.hpp"
#include "cli/commands.hpp"
#include "cli/moment.hpp"
#include "cli/options.hpp"
#include "cli/output.hpp"
#include "cli/session.hpp"
#include "combu/json.hpp"
#include "combu/telemetry.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

constexpr std::size_t k_follow_width = 8;
constexpr Seconds k_follow_pause{1};
constexpr std::size_t k_line_max = std::size_t{1} << 20U;
constexpr int k_cuts_max = 60;  // of readings in a row, of an engine that answers in between

struct LogsOptions {
  SelectionOptions selection;
  bool follow = false;
  std::int64_t tail = -1;
  std::string since;
  int attempt = 0;  // 0: the last one
  bool json = false;
};

// Of several runs and attempts of a trial the newest is meant.
bool is_older(const Sighting& left, const Sighting& right) {
  if (left.created_at != right.created_at) return left.created_at < right.created_at;
  return left.key.attempt < right.key.attempt;
}

LogOptions log_options(const LogsOptions& options) {
  LogOptions out{.follow = options.follow, .tail = std::nullopt, .since = std::nullopt};
  if (options.tail >= 0) out.tail = options.tail;
  if (!options.since.empty()) out.since = moment_option("--since", options.since, real_clock().now());
  return out;
}

// What is printed: lines as they are, or as JSON, or behind their trial's name. Named and JSON lines have at
// most k_line_max bytes: a longer one is printed as several. False: the reader has gone.
class Printer {
 public:
  enum class Form { plain, named, json };
  Printer(Form form, std::string trial)
      : form_(form),
        trial_(std::move(trial)),
        prefix_(form == Form::named ? escape_controls(trial_) + " | " : ""),
        out_(LogOutput::File::out, prefix_),
        err_(LogOutput::File::err, prefix_) {}

  bool put(LogStream stream, std::string_view piece) {
    if (form_ == Form::plain) return output(stream).put(piece);
    std::string& line = lines_.at(stream == LogStream::out ? 0 : 1);
    while (!piece.empty()) {
      const std::string_view part = piece.substr(0, std::min(piece.find('\n'), k_line_max - line.size()));
      line += part;
      piece.remove_prefix(part.size());
      if (piece.empty()) break;
      const bool is_end = piece.front() == '\n';
      std::string rest = is_end ? "" : line.substr(whole_characters(line));
      line.resize(line.size() - rest.size());
      if (is_end) piece.remove_prefix(1);
      if (!tell(stream, std::exchange(line, std::move(rest)))) return false;
    }
    return true;
  }

  // A last line without an end.
  void flush() {
    if (!lines_[0].empty()) (void)tell(LogStream::out, std::exchange(lines_[0], {}));
    if (!lines_[1].empty()) (void)tell(LogStream::err, std::exchange(lines_[1], {}));
    (void)out_.end();
    (void)err_.end();
  }

 private:
  bool tell(LogStream stream, const std::string& line) {
    if (form_ == Form::named) return output(stream).put(fmt::format("{}{}\n", prefix_, line));
    const nlohmann::ordered_json object{
        {"trial", trial_}, {"stream", stream == LogStream::out ? "stdout" : "stderr"}, {"line", line}};
    return put_out(json_text(object) + "\n");
  }

  LogOutput& output(LogStream stream) { return stream == LogStream::out ? out_ : err_; }

  Form form_;
  std::string trial_;
  std::string prefix_;                // of the form `named`
  std::array<std::string, 2> lines_;  // not ended yet, by stream
  LogOutput out_;
  LogOutput err_;
};

// What is kept of this attempt, in `telemetry`, which is opened where it is not; nullopt: nothing. Throws
// Error where it cannot be read.
std::optional<KeptLog> find_kept(std::optional<Telemetry>& telemetry, const std::string& folder,
                                 const Key& key) {
  if (!Telemetry::exists(folder, key.run)) return std::nullopt;
  if (!telemetry) telemetry.emplace(folder, key.run, Telemetry::Use::reading);
  return telemetry->log(key.trial, key.attempt);
}

// The same; nullopt, too, where it cannot be read.
std::optional<KeptLog> find_readable(std::optional<Telemetry>& telemetry, const std::string& folder,
                                     const Key& key) {
  try {
    return find_kept(telemetry, folder, key);
  } catch (const Error&) {
    return std::nullopt;
  }
}

void tell_gaps(const std::string& trial, const KeptLog& log, const LogOptions& wanted) {
  if (log.gaps == 0 || wanted.tail) return;
  (void)put_err(fmt::format("combu: {}: {}\n", trial, gaps_text(log)));
}

// What is kept of it from `place` on. False: the reader has gone.
bool print_kept(Telemetry& telemetry, const Key& key, const KeptLog& log, const LogOptions& wanted,
                LogPlace& place, Printer& printer) {
  if (log.dropped.count > 0 && !wanted.tail && !place.has_begun())
    (void)put_err(fmt::format("combu: {}: the first {} of its log were not kept (logs.max_size)\n", key.trial,
                              to_string(log.dropped)));
  const LogOptions rest = place.next(wanted);
  const auto tail = rest.tail ? std::optional(static_cast<std::size_t>(*rest.tail)) : std::nullopt;
  bool is_read = true;
  telemetry.read_log(key.trial, key.attempt, tail, [&](const LogPiece& piece) {
    const bool is_wanted = !rest.since || piece.at >= *rest.since;
    if (is_wanted && place.is_new(piece)) is_read = printer.put(piece.stream, piece.text);
    return is_read;
  });
  printer.flush();
  return is_read;
}

// What is kept of a run's logs.
class Kept {
 public:
  // `trial`: only its logs; empty: those of all trials that the selection names.
  Kept(const Invocation& invocation, const SelectionOptions& selection, const std::string& trial)
      : folder_(state_folder(caller_for(invocation))) {
    if (!Record::exists(folder_)) return;
    const RunFilter filter = filter_of(invocation, selection);
    if (filter.experiment.empty() && filter.file.empty() && !filter.id) return;
    try {
      Record record(folder_, Record::Use::reading);
      for (const RunEntry& entry : record.runs(filter, 1)) {
        run_ = entry.id;
        trials_ = record.trials(entry.id, trial);
        unmatched_ = selection.trials;
        std::erase_if(trials_, [&](const TrialEntry& one) {
          drop_matching(unmatched_, one.name);
          return !is_chosen(selection.trials, one.name);
        });
      }
      open_telemetry();
    } catch (const Error& error) {
      fault_ = error;
    }
  }

  // Throws Error where it cannot be read: why.
  void expect_readable() const {
    if (fault_) throw Error(*fault_);
  }

  // Goes over to the newest run in which a trial of this name has begun to run, or was skipped, of all there
  // are; none where there is none. Throws Error: invalid when it did in several experiments.
  void look_everywhere(const std::string& trial) {
    if (!Record::exists(folder_)) return;
    Record record(folder_, Record::Use::reading);
    std::set<std::string> experiments;
    for (const RunEntry& entry : record.runs({}, SIZE_MAX)) {
      if (experiments.contains(entry.experiment)) continue;
      std::vector<TrialEntry> found = record.trials(entry.id, trial);
      if (found.empty() || (!found.front().ran_at && found.front().state != TrialState::skipped)) continue;
      experiments.insert(entry.experiment);
      if (run_) continue;
      run_ = entry.id;
      trials_ = std::move(found);
    }
    if (experiments.size() > 1) throw of_several_experiments(trial, experiments);
    open_telemetry();
  }

  [[nodiscard]] const std::optional<RunId>& run() const { return run_; }
  [[nodiscard]] const std::vector<TrialEntry>& trials() const { return trials_; }
  // The names of the selection that no trial of the run has.
  [[nodiscard]] const std::vector<std::string>& unmatched() const { return unmatched_; }
  [[nodiscard]] Key key_of(const TrialEntry& entry) const {
    return {.run = *run_, .trial = entry.name, .attempt = told_attempt(entry)};
  }

  [[nodiscard]] std::optional<KeptLog> log(const std::string& trial, int attempt) {
    return telemetry_ ? telemetry_->log(trial, attempt) : std::nullopt;
  }

  // Whether all that the trial's last attempt has written is kept, or it never ran.
  [[nodiscard]] bool is_whole(const TrialEntry& entry) {
    if (is_over(entry.state) && !entry.ran_at) return true;
    const auto kept = log(entry.name, told_attempt(entry));
    return kept && kept->complete;
  }

  // Prints `log`, which log() has returned for `key`. False: the reader has gone.
  bool print(const Key& key, const KeptLog& log, const LogOptions& wanted, Printer& printer) {
    LogPlace place;
    tell_gaps(key.trial, log, wanted);
    return print_kept(*telemetry_, key, log, wanted, place, printer);
  }

 private:
  void open_telemetry() {
    if (run_ && Telemetry::exists(folder_, *run_))
      telemetry_ = std::make_unique<Telemetry>(folder_, *run_, Telemetry::Use::reading);
  }

  std::string folder_;
  std::optional<RunId> run_;
  std::vector<TrialEntry> trials_;
  std::vector<std::string> unmatched_;
  std::unique_ptr<Telemetry> telemetry_;
  std::optional<Error> fault_;
};

// An engine that is away, or was for a moment.
bool is_absence(const Error& error) {
  return error.kind() == ErrorKind::unavailable || error.kind() == ErrorKind::timeout;
}

// The log of one attempt from the engine, and where it is followed from `place` on. False: the reader has
// gone.
bool read_live(Session& session, const Key& key, const LogOptions& wanted, LogPlace& place,
               Printer& printer) {
  std::stop_source enough;
  const std::stop_callback on_stop(session.stop(), [&enough] { enough.request_stop(); });
  bool reader_has_gone = false;
  const auto tell = [&](const LogPiece& piece) {
    const bool is_new = !wanted.follow || place.is_new(piece);
    if (reader_has_gone || !is_new || printer.put(piece.stream, piece.text)) return;
    reader_has_gone = true;
    enough.request_stop();
  };
  try {
    session.engine().logs(key, wanted.follow ? place.next(wanted) : wanted, tell, enough.get_token());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::cancelled || !reader_has_gone) throw;
  }
  return !reader_has_gone;
}

// Until the attempt has ended. An engine that goes away is waited for, and told of.
bool follow_live(Session& session, const Caller& caller, const Key& key, const LogOptions& wanted,
                 LogPlace& place, Printer& printer) {
  const auto patient = session.patient_engine();
  for (int cuts = 0;;) {
    bool is_cut = false;
    try {
      if (!read_live(session, key, wanted, place, printer)) return false;
    } catch (const Error& error) {
      if (!is_absence(error) || cuts == k_cuts_max) throw;
      is_cut = true;
    }
    cuts = is_cut ? cuts + 1 : 0;
    // The stream ends with its engine, too.
    const auto listed = patient->list({.run = key.run, .trials = {key.trial}}, Look::closely, session.stop());
    const bool lives = std::ranges::any_of(listed, [&](const Sighting& seen) {
      const bool is_to_run = seen.phase == Phase::created && process_at_work(key.run, caller);
      return seen.key == key && (seen.phase == Phase::running || is_to_run);
    });
    if (!is_cut && !lives) return true;
    real_clock().wait(k_follow_pause, session.stop());
  }
}

// From what is kept of it where that is whole, or where there is no container of it any more; else from the
// engine. False: the reader has gone.
bool print_attempt(Session& session, const Caller& caller, const Key& key, const LogOptions& wanted,
                   Printer& printer) {
  const std::string folder = state_folder(caller);
  LogPlace place;
  std::optional<Telemetry> telemetry;
  std::optional<KeptLog> kept = find_readable(telemetry, folder, key);
  if (kept) tell_gaps(key.trial, *kept, wanted);
  if (kept && kept->complete) return print_kept(*telemetry, key, *kept, wanted, place, printer);
  try {
    const bool is_read = wanted.follow ? follow_live(session, caller, key, wanted, place, printer)
                                       : read_live(session, key, wanted, place, printer);
    if (is_read) printer.flush();
    return is_read;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::not_found) throw;
    kept = find_kept(telemetry, folder, key);
    if (!kept) throw;
  }
  const bool is_read = print_kept(*telemetry, key, *kept, wanted, place, printer);
  if (!kept->complete)
    (void)put_err(
        fmt::format("combu: {}: what it wrote last was not taken before its container went\n", key.trial));
  return is_read;
}

// The attempt whose log `logs` prints for this trial. Throws Error(not_found) if there is no log of the
// trial.
Key meant_attempt(Session& session, const Invocation& invocation, const LogsOptions& options,
                  const std::string& trial) {
  SelectionOptions selection = options.selection;
  selection.trials = {trial};
  Kept kept(invocation, selection, trial);
  const auto key_on_record = [&]() -> std::optional<Key> {
    if (kept.trials().empty()) return std::nullopt;
    Key key = kept.key_of(kept.trials().front());
    if (options.attempt > 0) key.attempt = options.attempt;
    return key;
  };
  std::optional<Key> on_record = key_on_record();
  const auto log_on_record = [&] {
    return on_record ? kept.log(on_record->trial, on_record->attempt) : std::nullopt;
  };
  const auto log = log_on_record();
  if (log && log->complete) return *on_record;
  if (options.attempt == 0 && on_record && kept.is_whole(kept.trials().front()))
    if (const auto none = without_container(trial, invocation, selection)) throw Error(*none);
  try {
    const auto attempts = chosen_attempts(session, invocation, selection);
    Key key = std::ranges::max_element(attempts, is_older)->key;
    if (options.attempt > 0) key.attempt = options.attempt;
    return key;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::not_found) throw;
    kept.expect_readable();
    if (invocation.file.empty() && selection.experiment.empty() && selection.run.empty()) {
      kept.look_everywhere(trial);
      on_record = key_on_record();
    }
    if (!log_on_record()) throw;
    return *on_record;
  }
}

// Waits until the attempt after this one has begun; false: there will be none.
bool await_next_attempt(const Key& key, const Caller& caller, const std::stop_token& stop) {
  const std::string folder = state_folder(caller);
  while (Record::exists(folder)) {
    // Asked before the record is read: what whoever is at work now has begun is there later.
    const bool goes_on = process_at_work(key.run, caller).has_value();
    const auto entries = Record(folder, Record::Use::reading).trials(key.run, key.trial);
    if (entries.empty()) return false;
    const TrialEntry& entry = entries.front();
    const bool has_run = entry.state == TrialState::running || entry.state == TrialState::retrying ||
                         entry.state == TrialState::collecting || (is_over(entry.state) && entry.ran_at);
    if (entry.attempt > key.attempt + 1 || (entry.attempt == key.attempt + 1 && has_run)) return true;
    if (is_over(entry.state) || !goes_on) return false;
    real_clock().wait(k_follow_pause, stop);
    if (stop.stop_requested()) throw Error(ErrorKind::cancelled, key.trial, "stopped");
  }
  return false;
}

Result logs_of_one(Session& session, const Invocation& invocation, const LogsOptions& options,
                   const std::string& trial) {
  const Caller caller = caller_for(invocation);
  LogOptions wanted = log_options(options);
  Printer printer(options.json ? Printer::Form::json : Printer::Form::plain, trial);
  Key key = meant_attempt(session, invocation, options, trial);
  bool is_read = print_attempt(session, caller, key, wanted, printer);
  if (!options.follow || options.attempt > 0 || key.attempt == k_adopted) return Result::succeeded;
  wanted.tail.reset();  // of what comes, all
  while (is_read && await_next_attempt(key, caller, session.stop())) {
    ++key.attempt;
    is_read = put_err(fmt::format("combu: {}: attempt {} begins\n", key.trial, key.attempt)) &&
              print_attempt(session, caller, key, wanted, printer);
  }
  return Result::succeeded;
}

// The logs of all attempts of a run as they grow. Each is asked for what is new again and again: one
// connection for each that runs would be too many.
class Following {
 public:
  // `printed`: attempts that need no look.
  Following(Session& session, std::string folder, const LogOptions& wanted, Printer::Form form,
            const std::set<Key>& printed)
      : session_(session), folder_(std::move(folder)), wanted_(wanted), form_(form) {
    wanted_.follow = false;
    for (const Key& key : printed) log_of(key).complete = true;
  }

  // False: the reader has gone. Where it throws it may be called again, and goes on.
  bool look(const std::vector<Sighting>& attempts) {
    std::vector<const Sighting*> open;
    std::set<Key> listed;
    for (const Sighting& seen : attempts) {
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
    Log(Printer::Form form, const std::string& trial) : printer(form, trial) {}
    Printer printer;
    LogPlace place;
    bool complete = false;
  };

  static bool is_before(const Sighting* left, const Sighting* right) { return is_older(*left, *right); }

  Log& log_of(const Key& key) { return logs_.try_emplace(key, form_, key.trial).first->second; }

  // Attempts may begin and end between two looks: they are told of, but for those that were over before.
  void note_earlier(Key key) {
    while (--key.attempt > 0 && !logs_.contains(key)) log_of(key).complete = is_first_;
  }

  // Its container is gone: what is kept has the rest.
  void end(const Key& key, Log& log) {
    log.complete = true;
    std::optional<Telemetry> telemetry;
    const auto kept = find_readable(telemetry, folder_, key);
    if (reader_has_gone_ || !kept) return log.printer.flush();
    if (!print_kept(*telemetry, key, *kept, wanted_, log.place, log.printer)) reader_has_gone_ = true;
  }

  void read(const Sighting& seen) {
    Log& log = logs_.at(seen.key);
    try {
      session_.engine().logs(
          seen.key, log.place.next(wanted_),
          [&](const LogPiece& piece) {
            if (!log.place.is_new(piece)) return;
            const std::scoped_lock lock(printing_);
            if (!reader_has_gone_ && !log.printer.put(piece.stream, piece.text)) reader_has_gone_ = true;
          },
          session_.stop());
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::not_found) throw;
      return;  // it is not listed the next time
    }
    if (seen.phase != Phase::ended) return;
    log.complete = true;
    const std::scoped_lock lock(printing_);
    log.printer.flush();
  }

  Session& session_;
  std::string folder_;
  LogOptions wanted_;
  Printer::Form form_;
  bool is_first_ = true;
  std::map<Key, Log> logs_;
  std::mutex printing_;
  std::atomic<bool> reader_has_gone_ = false;
};

// True if one of the named trials may still begin an attempt, since it is not over on record. True without
// names.
bool may_begin(const RunId& run, const std::vector<std::string>& names, const Caller& caller) {
  if (names.empty()) return true;
  bool any = false;
  for (const TrialEntry& entry : Record(state_folder(caller), Record::Use::reading).trials(run))
    any |= !is_over(entry.state) && is_chosen(names, entry.name);
  return any;
}

// Prints logs until none of the trials runs and none can begin any more, or the reader has gone. Waits for an
// engine that goes away, and says so.
void follow_all(Session& session, const Invocation& invocation, const SelectionOptions& selection,
                Following& following) {
  const auto patient = session.patient_engine();
  const Caller caller = caller_for(invocation);
  std::optional<std::vector<Selector>> selectors;
  for (int cuts = 0;;) {
    // Asked before the listing: what is started by who is at work now is in a later one.
    const bool goes_on = !selection.run.empty() && process_at_work(RunId(selection.run), caller) &&
                         may_begin(RunId(selection.run), selection.trials, caller);
    const bool is_first = !selectors;
    try {
      if (is_first || selection.run.empty()) selectors = selectors_of(session, invocation, selection);
      auto attempts = list_all(session, *selectors, Look::once);
      std::erase_if(attempts,
                    [&](const Sighting& seen) { return !is_chosen(selection.trials, seen.key.trial); });
      const bool lives =
          std::ranges::any_of(attempts, [](const Sighting& seen) { return seen.phase == Phase::running; });
      if (!following.look(attempts) || (!goes_on && !lives)) return;
      cuts = 0;
    } catch (const Error& error) {
      if (is_first || !is_absence(error) || ++cuts > k_cuts_max) throw;
      (void)patient->list(selectors->front(), Look::once, session.stop());
    }
    real_clock().wait(k_follow_pause, session.stop());
  }
}

// The attempts that have a log: in the order of the experiment's trials, then those that only the engine
// knows, the oldest first.
std::vector<Key> attempts_in_order(Kept& kept, std::vector<Sighting> listed) {
  std::erase_if(listed, [](const Sighting& seen) { return seen.phase == Phase::created; });
  std::ranges::sort(listed, is_older);
  std::map<std::string_view, std::vector<const Sighting*>> by_trial;
  for (const Sighting& seen : listed) by_trial[seen.key.trial].push_back(&seen);
  std::vector<Key> keys;
  std::set<Key> known;
  const auto add = [&](const Key& key) {
    if (known.insert(key).second) keys.push_back(key);
  };
  for (const TrialEntry& entry : kept.trials()) {
    const Key key = kept.key_of(entry);
    if (kept.log(key.trial, key.attempt)) add(key);
    const auto seen = by_trial.find(entry.name);
    if (seen == by_trial.end()) continue;
    for (const Sighting* one : seen->second) add(one->key);
  }
  for (const Sighting& seen : listed) add(seen.key);
  return keys;
}

// Prints one log after the other. Logs that are kept whole are printed even if the engine is away.
void print_all(Session& session, const Invocation& invocation, const SelectionOptions& selection, Kept& kept,
               const LogOptions& wanted, Printer::Form form, bool is_whole) {
  std::vector<Sighting> listed;
  std::optional<Error> away;
  try {
    if (!is_whole) listed = list_all(session, selectors_of(session, invocation, selection), Look::once);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::cancelled) throw;
    away = error;
  }
  std::erase_if(listed, [&](const Sighting& seen) { return !is_chosen(selection.trials, seen.key.trial); });
  if (!away && !is_whole && listed.empty()) kept.expect_readable();
  if (!away && listed.empty() && !kept.run()) expect_run(invocation, selection);
  const Caller caller = caller_for(invocation);
  for (const Key& key : attempts_in_order(kept, std::move(listed))) {
    Printer printer(form, key.trial);
    const auto log = kept.log(key.trial, key.attempt);
    const bool is_kept = log && log->complete && key.run == kept.run();
    if (!is_kept && away) continue;
    const bool is_read = is_kept ? kept.print(key, *log, wanted, printer)
                                 : print_attempt(session, caller, key, wanted, printer);
    if (!is_read) return;
  }
  if (away) throw Error(*away);
}

void logs_of_several(Session& session, const Invocation& invocation, const LogsOptions& options, Kept& kept) {
  const LogOptions wanted = log_options(options);
  const Printer::Form form = options.json ? Printer::Form::json : Printer::Form::named;
  SelectionOptions selection = options.selection;
  if (kept.run()) selection.run = kept.run()->text();
  const auto& trials = kept.trials();
  const bool is_whole = !trials.empty() && std::ranges::all_of(trials, [&](const TrialEntry& entry) {
    return kept.is_whole(entry);
  });
  const Caller caller = caller_for(invocation);
  // A trial whose attempt is over may be tried again, and write more, while a process is at work on the run.
  if (!options.follow || (is_whole && !process_at_work(*kept.run(), caller)))
    return print_all(session, invocation, selection, kept, wanted, form, is_whole);
  std::set<Key> printed;
  for (const TrialEntry& entry : trials) {
    const Key key = kept.key_of(entry);
    const auto log = kept.log(key.trial, key.attempt);
    if (!log || !log->complete) continue;
    Printer printer(form, key.trial);
    if (!kept.print(key, *log, wanted, printer)) return;
    printed.insert(key);
  }
  Following following(session, state_folder(caller), wanted, form, printed);
  follow_all(session, invocation, selection, following);
}

// Prints like logs_of_one() if the names match one trial, else each line behind its trial's name. Throws
// Error(not_found) in the end if a name matches no trial.
Result logs_of_named(Session& session, const Invocation& invocation, const LogsOptions& options) {
  const std::vector<std::string>& names = options.selection.trials;
  Kept kept(invocation, options.selection, {});
  std::vector<std::string> unmatched = kept.unmatched();
  std::set<std::string> trials;
  for (const TrialEntry& entry : kept.trials()) trials.insert(entry.name);
  if (!kept.run()) {
    unmatched = names;
    for (const Sighting& seen :
         list_all(session, selectors_of(session, invocation, options.selection), Look::once)) {
      drop_matching(unmatched, seen.key.trial);
      if (is_chosen(names, seen.key.trial)) trials.insert(seen.key.trial);
    }
  }
  if (trials.empty()) kept.expect_readable();
  if (trials.empty() && !kept.run()) expect_run(invocation, options.selection);
  if (trials.size() == 1) (void)logs_of_one(session, invocation, options, *trials.begin());
  if (trials.size() > 1) logs_of_several(session, invocation, options, kept);
  expect_all_matched(unmatched, kept.run() ? "run " + kept.run()->text() : "what is on this engine");
  return Result::succeeded;
}

// Throws Error(invalid) for `logs -f FILE TRIAL`: the experiment's `-f FILE` must stand before `logs`.
void expect_no_file(const Invocation& invocation, const LogsOptions& options) {
  for (const std::string& name : options.selection.trials)
    if (options.follow && invocation.file.empty() && name.ends_with("sonnet"))
      throw Error(ErrorKind::invalid, name,
                  fmt::format("is no trial: after `logs`, -f means to follow; the experiment's -f stands "
                              "before it: combu -f {} logs",
                              name));
}

bool names_one(const LogsOptions& options) {
  const std::vector<std::string>& names = options.selection.trials;
  return names.size() == 1 && !is_pattern(names.front());
}

Result logs(Session& session, const Invocation& invocation, const LogsOptions& options) {
  const SelectionOptions& selection = options.selection;
  if (names_one(options)) return logs_of_one(session, invocation, options, selection.trials.front());
  if (options.attempt > 0) throw Error(ErrorKind::invalid, "--attempt", "of which trial? Name it");
  if (invocation.file.empty() && selection.experiment.empty() && selection.run.empty())
    throw Error(ErrorKind::invalid, "logs", "of what? A trial's name, -f FILE or --run ID says it");
  if (!selection.trials.empty()) return logs_of_named(session, invocation, options);
  Kept kept(invocation, selection, {});
  logs_of_several(session, invocation, options, kept);
  return Result::succeeded;
}

}  // namespace

void add_logs(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command = line.add_command("logs", "Show what trials, or all of a run, have written");
  const auto options = std::make_shared<LogsOptions>();
  command.add_option("TRIAL", options->selection.trials, "Of trials of these names (solver-a-*); else of all")
      .type_name("");
  add_selection(command, options->selection);
  command.add_flag("-f,--follow", options->follow,
                   "Go on until it ends (the experiment's -f stands before `logs`)");
  command.add_option("--tail", options->tail, "Only its last lines").type_name("N").count_of("lines");
  command.add_option("--since", options->since, "Only what came since then: 10m, or 2026-01-31T12:00:00Z")
      .type_name("TIME");
  command.add_option("--attempt", options->attempt, "That of this attempt, instead of the last one")
      .type_name("N")
      .positive();
  command.add_flag("--json", options->json, "One JSON object for each line of it");
  command.footer("Example:\n  combu -f experiment.jsonnet logs -f --tail 100 solver-a-1");
  command.callback([&invocation, &action, options] {
    action = [&invocation, options] {
      const SelectionOptions& selection = options->selection;
      expect_no_file(invocation, *options);
      const bool is_of_file = !names_one(*options) && selection.experiment.empty() && selection.run.empty();
      const Invocation meant = is_of_file ? with_default_file(invocation) : invocation;
      return in_session(meant, [&](Session& session) { return logs(session, meant, *options); });
    };
  });
}

}  // namespace combu
