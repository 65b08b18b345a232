#include "app/why.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "app/explanation_text.hpp"
#include "app/load.hpp"
#include "app/owner_status.hpp"
#include "app/reconcile.hpp"
#include "app/run_options.hpp"
#include "app/run_telemetry.hpp"
#include "combu/session.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

constexpr Seconds k_log_patience{2};
constexpr std::int64_t k_log_lines = 5;
// Maximum number of bytes for k_log_lines lines together, since a single line may have any size.
constexpr std::size_t k_log_size_max = std::size_t{64} << 10U;

// Requests data from the engine of a recorded run. Sends no request to a simulated engine, which exists only
// inside the run's owner.
class EngineQuestions {
 public:
  // All arguments must outlive this object.
  EngineQuestions(const Invocation& invocation, const RunEntry& entry, const OpenSession& open_session)
      : invocation_(invocation), entry_(entry), open_session_(open_session) {}

  // Returns the attempts of other runs that hold slots. If the engine is unreachable, prints a note and
  // returns an empty list.
  [[nodiscard]] std::vector<Observation> others() const {
    std::vector<Observation> others;
    in_session([&](Session& session) {
      try {
        others = session.engine().list({}, ListDetail::basic, session.stop());
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::cancelled) throw;
        session.progress().note(fmt::format("the slots that other runs hold are unknown: {}", error.what()));
      }
    });
    std::erase_if(others, [&](const Observation& seen) {
      return seen.key.run == entry_.id || seen.phase != Phase::running || seen.slots.empty();
    });
    return others;
  }

  // Returns Engine::limits() of the run. `capacity`: nullopt means the capacity of the engine. Returns an
  // empty list if no trial needs limits, or the engine is unreachable.
  [[nodiscard]] std::vector<StartLimit> limits(const Run& run, const std::optional<Slots>& capacity) const {
    std::vector<StartLimit> limits;
    if (std::ranges::all_of(run.experiment.trials, &Trial::has_own_container)) return limits;
    in_session([&](Session& session) {
      try {
        limits = session.engine().limits(
            run, capacity ? *capacity : session.engine().facts(session.stop()).capacity);
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::cancelled) throw;
      }
    });
    return limits;
  }

  // Returns the last line of the log of an attempt's container; empty if the engine does not answer within
  // two seconds.
  [[nodiscard]] std::string last_line(const std::string& trial, int attempt) const {
    std::string text;
    in_session([&](Session& session) {
      const Patience patience(session.stop(), k_log_patience);
      try {
        session.engine().logs(
            {.run = entry_.id, .trial = trial, .attempt = attempt}, {.tail = k_log_lines},
            [&](const LogPiece& piece) { append_to_tail(text, piece.text, k_log_size_max); },
            patience.token());
      } catch (const Error&) {
        if (session.stop().stop_requested()) throw;
      }
    });
    return last_line_of(text);
  }

  // Returns the trials whose attempts are pending or run on the engine, each with the reason why its attempt
  // is pending, if known. `trials`: the trials to ask for; empty: all. Returns nothing if the engine does not
  // answer.
  [[nodiscard]] std::map<std::string, std::string> living(const std::vector<std::string>& trials = {}) const {
    std::map<std::string, std::string> reasons;
    in_session([&](Session& session) {
      const Patience patience(session.stop(), k_log_patience);
      try {
        for (const Observation& seen :
             session.engine().list({.run = entry_.id, .trials = trials}, ListDetail::basic, patience.token()))
          if (is_alive(seen)) reasons.insert_or_assign(seen.key.trial, seen.placement.pending_reason);
      } catch (const Error&) {
        if (session.stop().stop_requested()) throw;
      }
    });
    return reasons;
  }

  void reconcile(Record& record) const {
    in_session([&](Session& session) { reconcile_or_note(session, record, entry_.id); });
  }

 private:
  void in_session(const std::function<void(Session&)>& body) const {
    if (!entry_.engine.is_simulated) ask_engine(open_session_, invocation_, entry_, body);
  }

  const Invocation& invocation_;
  const RunEntry& entry_;
  const OpenSession& open_session_;
};

// True if the run has unfinished trials that `run --resume` would continue. Trials that run or are pending on
// the engine need no process of combu, unless the run is monitored.
bool is_unfinished(const RunEntry& entry, const std::vector<Trial>& trials,
                   const std::vector<RestoredTrial>& restored, const EngineQuestions& engine) {
  if (entry.ended_at) return false;
  const bool monitored = run_options_of(entry.options).monitored;
  std::vector<std::string> starting;
  for (TrialIndex trial = 0; trial < restored.size(); ++trial) {
    const TrialState state = restored[trial].state;
    if (is_over(state) || (state == TrialState::running && !monitored)) continue;
    if (state != TrialState::starting || monitored) return true;
    starting.push_back(trials[trial].name);
  }
  if (starting.empty()) return false;
  const std::map<std::string, std::string> living = engine.living(starting);
  return !std::ranges::all_of(starting, [&](const std::string& name) { return living.contains(name); });
}

bool is_log_complete(Telemetry& telemetry, const std::string& trial, int attempt) {
  try {
    const auto log = telemetry.log(trial, attempt);
    return log && log->complete;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::string why_trial(const Invocation& invocation, const WhyOptions& options,
                      const OpenSession& open_session) {
  Record record = open_record(invocation, Record::Use::reading);
  const RunEntry entry = find_run(record, invocation, options.run);
  Loaded loaded = load(record, entry.id);
  forgive(loaded.run.experiment, entry);
  const TrialIndex trial = find_trial(loaded.run.experiment, options.trial);
  const EngineQuestions engine(invocation, entry, open_session);

  std::vector<RestoredTrial> restored = record.restored_trials(entry.id);
  const bool has_owner = !is_over(restored[trial].state) && owner_pid(entry.id, loaded.caller).has_value();
  if (is_alive(restored[trial].state) && !has_owner) {
    engine.reconcile(record);
    restored = record.restored_trials(entry.id);
  }
  const TrialState state = restored[trial].state;
  const bool waits = state == TrialState::waiting || state == TrialState::ready;
  const auto settings = has_owner ? owner_settings(entry.id, loaded.caller) : std::nullopt;
  const auto snapshot = has_owner && waits ? owner_snapshot(entry.id, loaded.caller) : std::nullopt;

  std::vector<StartLimit> limits;
  if (waits) limits = engine.limits(loaded.run, snapshot ? snapshot->capacity : std::nullopt);

  const std::unique_ptr<Telemetry> telemetry = open_telemetry_to_read(entry.id, state_folder(loaded.caller));
  const LastLine kept = last_lines_in(telemetry.get());
  const auto last_line = [&](const std::string& name, int attempt) {
    const bool is_kept = telemetry && is_log_complete(*telemetry, name, attempt);
    return is_kept ? kept(name, attempt) : engine.last_line(name, attempt);
  };
  const auto pending_reason = [&] {
    const auto living = engine.living({options.trial});
    const auto found = living.find(options.trial);
    return found == living.end() ? std::string() : found->second;
  };
  std::string text = fmt::format("{} {}", options.trial,
                                 explanation_text({.loaded = loaded,
                                                   .restored = restored,
                                                   .settings = settings,
                                                   .snapshot = snapshot,
                                                   .limits = std::move(limits),
                                                   .others = [&] { return engine.others(); },
                                                   .last_line = last_line,
                                                   .pending_reason = pending_reason,
                                                   .record = record},
                                                  trial));
  if (!is_over(state) && !has_owner && is_unfinished(entry, loaded.run.experiment.trials, restored, engine))
    text +=
        fmt::format("; no process owns the run: `{}` resumes it", resume_line(entry.id, invocation.engine));
  return text + "\n";
}

std::string why_run(const Invocation& invocation, const WhyOptions& options,
                    const OpenSession& open_session) {
  Record record = open_record(invocation, Record::Use::reading);
  const RunEntry entry = find_run(record, invocation, options.run);
  const Caller caller = caller_for(invocation);
  const EngineQuestions engine(invocation, entry, open_session);
  if (!entry.ended_at && !owner_pid(entry.id, caller)) engine.reconcile(record);

  const std::unique_ptr<Telemetry> telemetry = open_telemetry_to_read(entry.id, state_folder(caller));
  const LastLine last_line = last_lines_in(telemetry.get());
  std::vector<TrialEntry> trials;
  record.trials(entry.id, "", Detail::state, [&]() -> TrialEntry& { return trials.emplace_back(); });
  const std::vector<RestoredTrial> restored = record.restored_trials(entry.id);
  std::vector<Failure> failures;
  for (TrialIndex trial = 0; trial < restored.size(); ++trial) {
    const RestoredTrial& it = restored[trial];
    if (!is_unsuccessful(it.state, it.cause)) continue;
    const std::string& name = trials.at(trial).name;
    const bool has_log = it.state != TrialState::blocked && it.was_started && last_line;
    Failure failure = failure_of(name, it, has_log ? last_line(name, it.attempt) : "");
    if (it.state == TrialState::blocked && it.root) failure.root = trials.at(*it.root).name;
    failures.push_back(std::move(failure));
  }
  const auto is_starting = [](const RestoredTrial& it) { return it.state == TrialState::starting; };
  std::map<std::string, std::string> pending;
  if (std::ranges::any_of(restored, is_starting)) pending = engine.living();
  for (const auto& [trial, reason] : pending)
    if (!reason.empty())
      failures.push_back({.trial = trial, .state = TrialState::starting, .reason = reason});
  std::string text = fmt::format("run {}: {}\n", entry.id.text(), counts_of(restored));
  for (const FailureGroup& group : group_failures(failures)) text += group_line(group) + "\n";
  return text;
}

}  // namespace combu
