#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <stop_token>
#include <utility>

#include "cli/commands.hpp"
#include "cli/identity.hpp"
#include "cli/moment.hpp"
#include "cli/output.hpp"
#include "cli/recorded.hpp"
#include "cli/run_lock.hpp"
#include "cli/selection.hpp"
#include "combu/telemetry.hpp"

namespace combu {
namespace {

constexpr std::size_t k_follow_width = 8;
constexpr Seconds k_follow_pause{1};

struct LogsOptions {
  SelectionOptions selection;
  std::string trial;
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

// What is printed: lines as they are, or as JSON, or behind their trial's name. False: the reader has gone.
class Printer {
 public:
  enum class Form { plain, named, json };
  Printer(Form form, std::string trial) : form_(form), trial_(std::move(trial)) {}

  bool put(LogStream stream, std::string_view piece) {
    if (form_ == Form::plain) return stream == LogStream::out ? put_out(piece) : put_err(piece);
    std::string& line = lines_.at(stream == LogStream::out ? 0 : 1);
    for (std::size_t end = piece.find('\n'); end != std::string_view::npos; end = piece.find('\n')) {
      line += piece.substr(0, end);
      piece.remove_prefix(end + 1);
      if (!tell(stream, std::exchange(line, {}))) return false;
    }
    line += piece;
    return true;
  }

  // A last line without an end.
  void flush() {
    if (!lines_[0].empty()) (void)tell(LogStream::out, std::exchange(lines_[0], {}));
    if (!lines_[1].empty()) (void)tell(LogStream::err, std::exchange(lines_[1], {}));
  }

 private:
  bool tell(LogStream stream, const std::string& line) {
    if (form_ == Form::named) {
      const std::string text = fmt::format("{} | {}\n", trial_, line);
      return stream == LogStream::out ? put_out(text) : put_err(text);
    }
    const nlohmann::ordered_json object{
        {"trial", trial_}, {"stream", stream == LogStream::out ? "stdout" : "stderr"}, {"line", line}};
    return put_out(object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  }

  Form form_;
  std::string trial_;
  std::array<std::string, 2> lines_;  // not ended yet, by stream
};

// Whose log is the trial's: of one that was skipped that of the equal one.
int attempt_of(const TrialEntry& entry) {
  return entry.state == TrialState::skipped ? k_adopted : entry.attempt;
}

// What is kept of a run's logs.
class Kept {
 public:
  Kept(const Invocation& invocation, const LogsOptions& options)
      : folder_(state_folder(caller_for(invocation))) {
    if (!Record::exists(folder_)) return;
    RunFilter filter{.experiment = options.selection.experiment};
    if (!options.selection.run.empty()) filter.id = RunId(options.selection.run);
    if (filter.experiment.empty() && !invocation.file.empty()) filter.file = identity_of(invocation.file);
    if (filter.experiment.empty() && filter.file.empty() && !filter.id) return;
    try {
      Record record(folder_, Record::Use::reading);
      for (const RunEntry& entry : record.runs(filter, 1)) {
        run_ = entry.id;
        trials_ = record.trials(entry.id, options.trial);
      }
      if (run_ && Telemetry::exists(folder_, *run_)) telemetry_ = std::make_unique<Telemetry>(folder_, *run_);
    } catch (const Error&) {
      telemetry_.reset();  // it cannot be read
    }
  }

  [[nodiscard]] const std::optional<RunId>& run() const { return run_; }
  [[nodiscard]] const std::vector<TrialEntry>& trials() const { return trials_; }

  [[nodiscard]] std::optional<KeptLog> log(const std::string& trial, int attempt) {
    return telemetry_ ? telemetry_->log(trial, attempt) : std::nullopt;
  }

  // Whether all that the trial's last attempt has written is kept, or it never ran.
  [[nodiscard]] bool is_whole(const TrialEntry& entry) {
    if (is_over(entry.state) && !entry.ran_at) return true;
    const auto kept = log(entry.name, attempt_of(entry));
    return kept && kept->complete;
  }

  void print(const std::string& trial, int attempt, const LogOptions& wanted, Printer& printer) {
    const Bytes dropped = telemetry_->log(trial, attempt)->dropped;
    if (dropped.count > 0 && !wanted.tail)
      (void)put_err(fmt::format("combu: {}: the first {} of its log were not kept (logs.max_size)\n", trial,
                                to_string(dropped)));
    const auto tail = wanted.tail ? std::optional(static_cast<std::size_t>(*wanted.tail)) : std::nullopt;
    telemetry_->read_log(trial, attempt, tail, [&](const LogPiece& piece) {
      return (wanted.since && piece.at < *wanted.since) || printer.put(piece.stream, piece.text);
    });
    printer.flush();
  }

 private:
  std::string folder_;
  std::optional<RunId> run_;
  std::vector<TrialEntry> trials_;
  std::unique_ptr<Telemetry> telemetry_;
};

// The log of one attempt from the engine, until the reader has gone.
void print_live(Session& session, const Key& key, const LogOptions& wanted, Printer& printer) {
  std::stop_source enough;
  const std::stop_callback on_stop(session.stop(), [&enough] { enough.request_stop(); });
  bool reader_has_gone = false;
  const auto tell = [&](const LogPiece& piece) {
    if (reader_has_gone || printer.put(piece.stream, piece.text)) return;
    reader_has_gone = true;
    enough.request_stop();
  };
  try {
    session.engine().logs(key, wanted, tell, enough.get_token());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::cancelled || !reader_has_gone) throw;
  }
  if (!reader_has_gone) printer.flush();
}

int logs_of_one(Session& session, const Invocation& invocation, const LogsOptions& options) {
  const LogOptions wanted = log_options(options);
  Printer printer(options.json ? Printer::Form::json : Printer::Form::plain, options.trial);
  Kept kept(invocation, options);
  const std::string name = kept.trials().empty() ? options.trial : kept.trials().front().name;
  const int attempt = options.attempt > 0     ? options.attempt
                      : kept.trials().empty() ? 0
                                              : attempt_of(kept.trials().front());
  const auto log = attempt > 0 ? kept.log(name, attempt) : std::nullopt;
  if (log && log->complete) {
    kept.print(name, attempt, wanted, printer);
    return 0;
  }
  if (options.attempt == 0 && !kept.trials().empty() && kept.is_whole(kept.trials().front()))
    if (const auto none = without_container(options.trial, invocation, options.selection)) throw Error(*none);
  SelectionOptions selection = options.selection;
  selection.trials = {options.trial};
  try {
    const auto attempts = chosen_attempts(session, invocation, selection);
    Key key = std::max_element(attempts.begin(), attempts.end(), is_older)->key;
    if (options.attempt > 0) key.attempt = options.attempt;
    print_live(session, key, wanted, printer);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::not_found || !log) throw;
    kept.print(name, attempt, wanted, printer);
    (void)put_err(fmt::format("combu: {}: what it wrote last was not taken before its container went\n",
                              options.trial));
  }
  return 0;
}

// The logs of all attempts of a run as they grow. Each is asked for what is new again and again: one
// connection for each that runs would be too many.
class Following {
 public:
  Following(Session& session, const LogOptions& wanted, Printer::Form form)
      : session_(session), wanted_(wanted), form_(form) {}

  // False: the reader has gone.
  bool look(const std::vector<Sighting>& attempts) {
    std::vector<const Sighting*> open;
    for (const Sighting& seen : attempts) {
      const bool has_run = seen.phase == Phase::running || seen.phase == Phase::ended;
      if (has_run && !logs_.try_emplace(seen.key, form_, seen.key.trial).first->second.complete)
        open.push_back(&seen);
    }
    std::ranges::sort(open, is_before);
    in_parallel(open.size(), k_follow_width, [&](std::size_t index) { read(*open[index]); });
    return !reader_has_gone_;
  }

 private:
  struct Log {
    Log(Printer::Form form, const std::string& trial) : printer(form, trial) {}
    Printer printer;
    std::optional<Instant> until;  // the latest piece's time
    std::size_t at_until = 0;      // pieces that have it
    bool complete = false;
  };

  static bool is_before(const Sighting* left, const Sighting* right) { return is_older(*left, *right); }

  void read(const Sighting& seen) {
    Log& log = logs_.at(seen.key);
    LogOptions options{.since = log.until ? log.until : wanted_.since, .timed = true};
    if (!log.until) options.tail = wanted_.tail;
    std::size_t known = log.at_until;
    const std::optional<Instant> before = log.until;
    try {
      session_.engine().logs(
          seen.key, options,
          [&](const LogPiece& piece) {
            if (piece.at == before && known > 0) {
              --known;
              return;
            }
            if (piece.at != log.until) log.at_until = 0;
            log.until = std::max(log.until.value_or(piece.at), piece.at);
            ++log.at_until;
            const std::scoped_lock lock(printing_);
            if (!reader_has_gone_ && !log.printer.put(piece.stream, piece.text)) reader_has_gone_ = true;
          },
          session_.stop());
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::not_found) throw;
    }
    if (seen.phase != Phase::ended) return;
    log.complete = true;
    const std::scoped_lock lock(printing_);
    log.printer.flush();
  }

  Session& session_;
  const LogOptions& wanted_;
  Printer::Form form_;
  std::map<Key, Log> logs_;
  std::mutex printing_;
  std::atomic<bool> reader_has_gone_ = false;
};

// Until nothing runs, nobody is at work on the run, or the reader has gone. `printed`: what needs no look.
void follow_all(Session& session, const Invocation& invocation, const SelectionOptions& selection,
                const std::set<Key>& printed, Following& following) {
  for (;;) {
    // Asked before the listing: what is started by who is at work now is in a later one.
    const bool goes_on =
        !selection.run.empty() && process_at_work(RunId(selection.run), caller_for(invocation));
    auto attempts = list_all(session, selectors_of(session, invocation, selection), Look::once);
    const bool lives =
        std::ranges::any_of(attempts, [](const Sighting& seen) { return seen.phase == Phase::running; });
    std::erase_if(attempts, [&](const Sighting& seen) { return printed.contains(seen.key); });
    if (!following.look(attempts) || (!goes_on && !lives)) return;
    real_clock().wait(k_follow_pause, session.stop());
  }
}

int logs_of_all(Session& session, const Invocation& invocation, const LogsOptions& options) {
  const LogOptions wanted = log_options(options);
  const Printer::Form form = options.json ? Printer::Form::json : Printer::Form::named;
  Kept kept(invocation, options);
  SelectionOptions selection = options.selection;
  if (kept.run()) selection.run = kept.run()->text();
  std::set<Key> printed;
  bool is_whole = !kept.trials().empty();
  for (const TrialEntry& entry : kept.trials()) {
    is_whole = is_whole && kept.is_whole(entry);
    const auto log = kept.log(entry.name, attempt_of(entry));
    if (!log || !log->complete) continue;
    Printer printer(form, entry.name);
    kept.print(entry.name, attempt_of(entry), wanted, printer);
    printed.insert({.run = *kept.run(), .trial = entry.name, .attempt = entry.attempt});
  }
  // Of a trial that is over and waits to be tried again there will be more.
  if (is_whole && (!options.follow || !process_at_work(*kept.run(), caller_for(invocation)))) return 0;
  if (options.follow) {
    Following following(session, wanted, form);
    follow_all(session, invocation, selection, printed, following);
    return 0;
  }
  std::vector<Sighting> attempts =
      list_all(session, selectors_of(session, invocation, selection), Look::once);
  std::ranges::sort(attempts, is_older);
  for (const Sighting& seen : attempts) {
    if (printed.contains(seen.key) || seen.phase == Phase::created) continue;
    Printer printer(form, seen.key.trial);
    print_live(session, seen.key, wanted, printer);
  }
  return 0;
}

int logs(Session& session, const Invocation& invocation, const LogsOptions& options) {
  if (!options.trial.empty()) return logs_of_one(session, invocation, options);
  if (options.attempt > 0) throw Error(ErrorKind::invalid, "--attempt", "of which trial? Name it");
  if (invocation.file.empty() && options.selection.experiment.empty() && options.selection.run.empty())
    throw Error(ErrorKind::invalid, "logs", "of what? A trial's name, -f FILE or --run ID says it");
  return logs_of_all(session, invocation, options);
}

}  // namespace

void add_logs(CLI::App& app, const Invocation& invocation, Action& action) {
  CLI::App* command = app.add_subcommand("logs", "Show what a trial, or all of a run, has written");
  const auto options = std::make_shared<LogsOptions>();
  command->add_option("TRIAL", options->trial, "The trial's name; all of the run without it")->type_name("");
  add_selection(*command, options->selection);
  command->add_flag("-f,--follow", options->follow,
                    "Go on until it ends (the experiment's -f stands before `logs`)");
  command->add_option("--tail", options->tail, "Only its last lines")
      ->type_name("N")
      ->check([](const std::string& text) {
        return text.empty() || text.find_first_not_of("0123456789") != std::string::npos || text.size() > 9
                   ? "must be a number of lines, not " + text
                   : std::string();
      });
  command->add_option("--since", options->since, "Only what came since then: 10m, or 2026-01-31T12:00:00Z")
      ->type_name("TIME");
  command->add_option("--attempt", options->attempt, "That of this attempt, instead of the last one")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  command->add_flag("--json", options->json, "One JSON object for each line of it");
  command->footer("Example:\n  combu -f experiment.jsonnet logs -f --tail 100 solver-a-1");
  command->callback([&invocation, &action, options] {
    action = [&invocation, options] {
      return in_session(invocation, [&](Session& session) { return logs(session, invocation, *options); });
    };
  });
}

}  // namespace combu
