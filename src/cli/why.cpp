// Reconciles: if no process is at work on the run, it first puts on record what has ended
// (app/reconcile.hpp).

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "app/execution.hpp"
#include "app/kept_logs.hpp"
#include "app/load.hpp"
#include "app/patience.hpp"
#include "app/reconcile.hpp"
#include "app/runs.hpp"
#include "app/session.hpp"
#include "cli/commands.hpp"
#include "cli/options.hpp"
#include "cli/output.hpp"
#include "cli/session.hpp"
#include "combu/cache.hpp"
#include "combu/control.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

constexpr std::size_t k_named = 3;
constexpr std::size_t k_compared_max = 500;
constexpr Seconds k_why_patience{2};
constexpr std::int64_t k_log_lines = 5;
constexpr std::size_t k_log_size_max = std::size_t{64} << 10U;  // of these lines: one may have any size

struct WhyOptions {
  std::string run;
  std::string trial;
};

std::string list_of(std::vector<std::string> texts) {
  const std::size_t count = texts.size();
  if (count > k_named) {
    texts.resize(k_named);
    texts.push_back(fmt::format("{} more", count - k_named));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string_view words_of(Condition condition) {
  switch (condition) {
    case Condition::started:
      return "to be started";
    case Condition::healthy:
      return "to be healthy";
    case Condition::succeeded:
      return "to succeed";
    case Condition::finished:
      return "to be over";
  }
  return "";
}

// Whether there is something for `run --resume` to go on with.
bool is_unfinished(const RunEntry& entry, const std::vector<Past>& past) {
  const bool watched = run_options_of(entry.options).watched;
  return !entry.ended_at && std::ranges::any_of(past, [&](const Past& one) {
    return !is_over(one.state) && (watched || one.state != TrialState::running);
  });
}

// Those of a kind that `wanted` has.
Slots of_kinds(const Slots& wanted, const GpuWish& gpus, const Slots& held) {
  Slots some;
  if (wanted.cpus.nano != 0) some.cpus = held.cpus;
  if (wanted.memory.count != 0) some.memory = held.memory;
  if (!gpus.empty()) some.gpus = held.gpus;
  return some;
}

std::string joined(const Slots& slots, const GpuWish& gpus) {
  if (gpus.empty()) return to_string(slots);
  return slots.empty() ? to_string(gpus) : fmt::format("{}, {}", to_string(slots), to_string(gpus));
}

class Answer {
 public:
  // `settings` and `standing`: of the process at work. `others`: attempts of other runs that hold slots;
  // asked for only where it matters.
  Answer(const Loaded& loaded, const std::vector<Past>& past, const std::optional<Settings>& settings,
         std::optional<Snapshot> standing, std::function<std::vector<Sighting>()> others, LastLine last_line,
         Record& record)
      : run_(loaded.run.id),
        experiment_(loaded.run.experiment),
        plan_(loaded.plan),
        past_(past),
        settings_(settings.value_or(Settings{.parallel_max = experiment_.parallel_max})),
        standing_(std::move(standing)),
        others_(std::move(others)),
        last_line_(std::move(last_line)),
        record_(record),
        folder_(state_folder(loaded.caller)) {}

  [[nodiscard]] std::string of(TrialIndex trial) const {
    const Past& it = past_[trial];
    switch (it.state) {
      case TrialState::waiting:
        return waits(trial);
      case TrialState::ready:
        return fmt::format("{}; attempt {}, after {}", waits(trial), it.attempt + 1, attempt_end_text(it));
      case TrialState::starting:
        return fmt::format("is being started{}", attempt_text(it));
      case TrialState::running:
        return fmt::format("runs{}{}{}", since(it), attempt_text(it), why_not_skipped(trial));
      case TrialState::retrying:
        return fmt::format("is tried again: {}", reason_text(it));
      case TrialState::collecting:
        return fmt::format("has ended{}, and its outputs are being taken home{}", attempt_text(it),
                           reason_text(it).empty() ? "" : ": " + reason_text(it));
      case TrialState::succeeded:
        return fmt::format("has succeeded{}{}{}", attempt_text(it), why_no_metrics(trial),
                           why_not_skipped(trial));
      case TrialState::stopped:
        if (it.reason.empty()) return stopped_text(trial);
        return fmt::format("was stopped{}{}", is_by_others(it.details.stopper) ? " " : ": ",
                           failure_text(trial));
      case TrialState::skipped:
        return "was skipped: " + it.reason;
      case TrialState::failed:
        return fmt::format("failed: {}{}", failure_text(trial), why_not_skipped(trial));
      case TrialState::blocked:
        return fmt::format("is blocked: {}{}", it.reason, root_text(trial));
    }
    return "";
  }

 private:
  [[nodiscard]] const std::string& name(TrialIndex trial) const { return experiment_.trials[trial].name; }

  static std::string attempt_text(const Past& past) {
    return past.attempt > 1 ? fmt::format(" (attempt {})", past.attempt) : "";
  }

  static bool is_by_others(Stopper stopper) {
    return stopper == Stopper::person || stopper == Stopper::outside;
  }

  // Without what follows it.
  static std::string attempt_end_text(const Past& past) {
    EndDetails details = past.details;
    details.next = Next::none;
    return reason_text(past.reason, details, past.attempt);
  }

  // The reason beside the state, and what the last line of the log adds.
  [[nodiscard]] std::string failure_text(TrialIndex trial) const {
    const Past& it = past_[trial];
    return with_last_line(reason_text_beside_state(it), it.exit_code,
                          it.was_started ? last_line_(name(trial), it.attempt) : std::string());
  }

  static std::string since(const Past& past) {
    if (!past.ran_at) return "";
    return " since " + to_string(std::chrono::duration_cast<Seconds>(real_clock().now() - *past.ran_at));
  }

  [[nodiscard]] std::string why_no_metrics(TrialIndex trial) const {
    if (!experiment_.trials[trial].metrics || !Telemetry::exists(folder_, run_)) return "";
    try {
      const std::vector<std::string> silent = Telemetry(folder_, run_, Telemetry::Use::reading).silent();
      if (std::ranges::find(silent, name(trial)) == silent.end()) return "";
    } catch (const Error&) {
      return "";  // it cannot be read
    }
    return fmt::format("; it has told no metric: {}", words_of_none(*experiment_.trials[trial].metrics));
  }

  // Of one with `cache` that was started: in what it differs from the one before that is the most alike.
  [[nodiscard]] std::string why_not_skipped(TrialIndex trial) const {
    if (!experiment_.trials[trial].cache.on) return "";
    const auto known = record_.known(run_, name(trial));
    if (!known) return "; what it is equal to cannot be told";
    if (past_[trial].anew) return "; it was to be done again";
    std::optional<std::vector<std::string>> least;
    std::string of;
    for (const KnownEntry& before : record_.known_before(run_, name(trial), k_compared_max)) {
      std::vector<std::string> differ = differences(known->parts, before.parts);
      if (least && least->size() <= differ.size()) continue;
      least = std::move(differ);
      of = fmt::format("`{}` of run {}", before.trial, before.run.text());
    }
    if (!least) return "; nothing like it had been done before";
    if (!least->empty()) return fmt::format("; it differs from {}: {}", of, list_of(std::move(*least)));
    return run_options_of(record_.runs({.id = run_}, 1).at(0).options).cache
               ? fmt::format("; it is equal to {}, which has no outputs to be taken over", of)
               : fmt::format("; it is equal to {}, and was run all the same (--no-cache)", of);
  }

  // A service is stopped for one of two reasons, and it is not on record for which.
  [[nodiscard]] std::string stopped_text(TrialIndex trial) const {
    constexpr std::string_view k_done = "was stopped, since its work was done";
    if (experiment_.deadline == Seconds(0)) return std::string(k_done);
    const Instant since = record_.runs({.id = run_}, 1).at(0).working_since;
    const auto ended_at = record_.trials(run_, name(trial)).at(0).ended_at;
    const auto deadline = since + std::chrono::duration_cast<Instant::duration>(experiment_.deadline);
    if (!ended_at || *ended_at < since) return fmt::format("{} or the run's deadline had passed", k_done);
    if (*ended_at < deadline) return std::string(k_done);
    return fmt::format("was stopped after the run's deadline of {} had passed",
                       to_string(experiment_.deadline));
  }

  // The trial at the head of the chain, and why it failed.
  [[nodiscard]] std::string root_text(TrialIndex trial) const {
    const std::optional<TrialIndex> root = past_[trial].root;
    if (!root || past_[*root].reason.empty()) return "";
    return fmt::format("; {} {}: {}", name(*root), to_string(past_[*root].state), reason_text(past_[*root]));
  }

  [[nodiscard]] std::string waits(TrialIndex trial) const {
    using Kind = Explanation::Kind;
    const Explanation why = explain(trial);
    const GpuWish& gpus = *experiment_.trials[trial].gpus;
    const bool wants_none = wanted(trial).empty() && gpus.empty();
    switch (why.kind) {
      case Kind::dependencies:
        return "waits for " + unmet_text(why.unmet);
      case Kind::canary:
        return fmt::format("waits for `{}`, the canary of its shape, to succeed", name(*why.first));
      case Kind::paused:
        return fmt::format("waits, since the run is paused: `combu resume {}` starts it", run_.text());
      case Kind::place:
        return place_text();
      case Kind::slots:
        return slots_text(trial);
      case Kind::overtaken:
        return fmt::format("waits, so that `{}` gets {}", name(*why.first),
                           joined(wanted(*why.first), *experiment_.trials[*why.first].gpus));
      case Kind::room:
        return "waits, so that those that services serve have room beside them";
      case Kind::none:
      case Kind::retry:
      case Kind::lookup:
      case Kind::interrupted:
      case Kind::listing:
      case Kind::turn:
      case Kind::nothing:
        break;
    }
    // What is free is not known.
    if (!wants_none && (!standing_ || !standing_->capacity)) return slots_text(trial);
    const auto starting = static_cast<std::size_t>(
        std::ranges::count(past_, TrialState::starting, [](const Past& one) { return one.state; }));
    return starting >= settings_.starts_in_flight_max || wants_none
               ? "waits for its turn among the starts in flight"
               : "waits for its turn";
  }

  // By a planner that stands where the run does, and starts nothing.
  [[nodiscard]] Explanation explain(TrialIndex trial) const {
    const Instant now = real_clock().now();
    PlannerOptions options{.past = past_, .began_at = now};
    if (standing_) options.capacity = standing_->capacity;
    if (options.capacity)
      for (const std::string& gpu : options.capacity->gpus)
        options.gpus.push_back({.id = gpu, .uuid = {}, .kind = {}, .memory = {}});
    Planner planner(run_, experiment_, plan_, std::move(options));
    const Adjust settings{
        .parallel_max = settings_.parallel_max, .starts_in_flight_max = 0, .paused = settings_.paused};
    const Assumed others{standing_ ? standing_->held_by_others : Slots()};
    for (const Event& event : {Event(settings), Event(Begin{}), Event(others)})
      (void)planner.step(event, now);
    return planner.explain(trial);
  }

  // Of its next attempt.
  [[nodiscard]] Slots wanted(TrialIndex trial) const {
    Slots slots = experiment_.trials[trial].slots;
    if (past_[trial].state == TrialState::ready) slots.memory = std::max(slots.memory, past_[trial].memory);
    return slots;
  }

  [[nodiscard]] std::string slots_text(TrialIndex trial) const {
    return fmt::format("waits for {}{}", joined(wanted(trial), *experiment_.trials[trial].gpus),
                       holders(trial));
  }

  // Services take no place from others.
  [[nodiscard]] std::string place_text() const {
    std::size_t alive = 0;
    for (TrialIndex trial = 0; trial < past_.size(); ++trial)
      if (is_alive(past_[trial].state) && !experiment_.trials[trial].service) ++alive;
    return fmt::format("waits for a place: {} alive, as many as may (parallel)",
                       alive == 1 ? "1 attempt is" : fmt::format("{} attempts are", alive));
  }

  [[nodiscard]] std::string unmet_text(const std::vector<Edge>& needs) const {
    std::vector<std::string> texts;
    texts.reserve(needs.size());
    for (const Edge& need : needs)
      texts.push_back(fmt::format("`{}` {} (it is {})", name(need.trial), words_of(need.condition),
                                  to_string(past_[need.trial].state)));
    return list_of(std::move(texts));
  }

  // Who has of what it waits for, of this run and of others; GPUs first, of which there are the fewest.
  [[nodiscard]] std::string holders(TrialIndex waiting) const {
    const Slots wanted = this->wanted(waiting);
    const GpuWish& wanted_gpus = *experiment_.trials[waiting].gpus;
    std::vector<std::string> texts;
    std::vector<std::string> without_gpus;
    const auto add = [&](const std::string& who, const Slots& slots, const GpuWish& gpus) {
      const bool has_gpus = !gpus.empty() || !slots.gpus.empty();
      if (has_gpus || !slots.empty())
        (has_gpus ? texts : without_gpus).push_back(fmt::format("{} ({})", who, joined(slots, gpus)));
    };
    for (TrialIndex trial = 0; trial < past_.size(); ++trial) {
      const Trial& it = experiment_.trials[trial];
      if (is_alive(past_[trial].state))
        add(fmt::format("`{}`", it.name), of_kinds(wanted, wanted_gpus, it.slots),
            wanted_gpus.empty() ? GpuWish() : *it.gpus);
    }
    for (const Sighting& other : others_())
      add(fmt::format("`{}` of {}", other.key.trial, other.experiment),
          of_kinds(wanted, wanted_gpus, other.slots), {});
    std::ranges::move(without_gpus, std::back_inserter(texts));
    return texts.empty() ? "" : "; held by " + list_of(std::move(texts));
  }

  const RunId& run_;
  const Experiment& experiment_;
  const Plan& plan_;
  const std::vector<Past>& past_;
  Settings settings_;
  std::optional<Snapshot> standing_;
  std::function<std::vector<Sighting>()> others_;
  LastLine last_line_;
  Record& record_;
  std::string folder_;
};

// Attempts of other runs that hold slots. An engine that is away holds up no answer.
std::vector<Sighting> others_on_engine(const Invocation& invocation, const RunEntry& entry) {
  if (entry.engine.is_simulated) return {};
  std::vector<Sighting> others;
  (void)in_session(on_its_engine(invocation, entry), [&](Session& session) {
    try {
      others = session.engine().list({}, Look::once, session.stop());
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::cancelled) throw;
      session.progress().note(fmt::format("what other runs hold is not known: {}", error.what()));
    }
    return Result::succeeded;
  });
  std::erase_if(others, [&](const Sighting& seen) {
    return seen.key.run == entry.id || seen.phase != Phase::running || seen.slots.empty();
  });
  return others;
}

// As the process at work says; one that does not answer holds up no answer.
std::optional<Settings> settings_at_work(const RunId& run, const Caller& caller) {
  try {
    return ControlClient(channel_path(run, caller)).adjust({}, {});
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Takes the first snapshot of those that it is shown.
class FirstSnapshot final : public Progress {
 public:
  void phase(std::string_view /*text*/) override {}
  void preparation(const Preparation& /*preparation*/) override {}
  void counted(std::string_view /*verb*/, std::size_t /*count*/, std::size_t /*total*/) override {}
  void note(std::string_view /*line*/) override {}
  void error(std::string_view /*line*/) override {}
  void begin(const Run& /*run*/) override {}
  void fact(const Fact& /*fact*/) override {}
  void failure(const Fact& /*fact*/, const std::vector<std::string>& /*tail*/) override {}
  void snapshot(const Snapshot& snapshot) override {
    if (!taken) taken = snapshot;
    enough.request_stop();
  }
  void end() override {}

  std::optional<Snapshot> taken;
  std::stop_source enough;
};

// Where the run stands, as the process at work tells all the time; waited for no longer than that.
std::optional<Snapshot> standing_at_work(const RunId& run, const Caller& caller) {
  FirstSnapshot progress;
  const std::jthread patience([&](const std::stop_token& quit) {
    real_clock().wait(k_why_patience, quit);
    progress.enough.request_stop();
  });
  try {
    Run shown{.id = run, .experiment = {}};
    (void)ControlClient(channel_path(run, caller)).follow(progress, shown, progress.enough.get_token());
  } catch (const Error&) {
    return std::nullopt;
  }
  return progress.taken;
}

// The last line of an attempt's log that combu has not kept, from its container. An engine that does not
// answer within two seconds delays the answer no longer.
std::string last_line_on_engine(const Invocation& invocation, const RunEntry& entry, const std::string& trial,
                                int attempt) {
  if (entry.engine.is_simulated) return "";
  std::string text;
  (void)in_session(on_its_engine(invocation, entry), [&](Session& session) {
    const Patience patience(session.stop(), k_why_patience);
    try {
      session.engine().logs(
          {.run = entry.id, .trial = trial, .attempt = attempt}, {.tail = k_log_lines},
          [&](const LogPiece& piece) { append_to_tail(text, piece.text, k_log_size_max); }, patience.token());
    } catch (const Error&) {
      if (session.stop().stop_requested()) throw;
    }
    return Result::succeeded;
  });
  return last_line_of(text);
}

// Every failure of a run, equal ones as one line.
void print_failures(Record& record, const RunEntry& entry, const LastLine& last_line) {
  std::vector<TrialEntry> trials;
  record.trials(entry.id, "", Detail::state, [&]() -> TrialEntry& { return trials.emplace_back(); });
  const std::vector<Past> past = record.past(entry.id);
  std::vector<Failure> failures;
  for (TrialIndex trial = 0; trial < past.size(); ++trial) {
    const Past& it = past[trial];
    if (!is_unsuccessful(it.state, it.cause)) continue;
    const std::string& name = trials.at(trial).name;
    const bool has_log = it.state != TrialState::blocked && it.was_started && last_line;
    Failure failure = failure_of(name, it, has_log ? last_line(name, it.attempt) : "");
    if (it.state == TrialState::blocked && it.root) failure.root = trials.at(*it.root).name;
    failures.push_back(std::move(failure));
  }
  std::string text = fmt::format("run {}: {}\n", entry.id.text(), counts_of(past));
  for (const FailureGroup& group : group_failures(failures)) text += group_line(group) + "\n";
  (void)put_out(text);
}

bool is_log_complete(Telemetry& telemetry, const std::string& trial, int attempt) {
  try {
    const auto log = telemetry.log(trial, attempt);
    return log && log->complete;
  } catch (const Error&) {
    return false;
  }
}

// The engine says first what became of attempts that nobody watched.
void take_in_ends(const Invocation& invocation, Record& record, const RunEntry& entry) {
  if (entry.engine.is_simulated) return;
  (void)in_session(on_its_engine(invocation, entry), [&](Session& session) {
    take_in_all(session, record, entry.id);
    return Result::succeeded;
  });
}

int why(const Invocation& invocation, const WhyOptions& options) {
  Record record = open_record(invocation, Record::Use::reading);
  const RunEntry entry = find_run(record, invocation, options.run);
  const Caller caller = caller_for(invocation);
  const std::unique_ptr<Telemetry> telemetry = kept_logs_of(entry.id, state_folder(caller));
  const LastLine kept = last_lines_in(telemetry.get());
  if (options.trial.empty()) {
    if (!entry.ended_at && !process_at_work(entry.id, caller)) take_in_ends(invocation, record, entry);
    print_failures(record, entry, kept);
    return 0;
  }
  Loaded loaded = load(record, entry.id);
  forgive(loaded.run.experiment, entry);
  const TrialIndex trial = find_trial(loaded.run.experiment, options.trial);
  std::vector<Past> past = record.past(entry.id);
  const auto others = [&] { return others_on_engine(invocation, entry); };
  const bool at_work = !is_over(past[trial].state) && process_at_work(entry.id, loaded.caller);
  if (is_alive(past[trial].state) && !at_work) {
    take_in_ends(invocation, record, entry);
    past = record.past(entry.id);
  }
  const auto settings = at_work ? settings_at_work(entry.id, loaded.caller) : std::nullopt;
  const bool waits = past[trial].state == TrialState::waiting || past[trial].state == TrialState::ready;
  auto standing = at_work && waits ? standing_at_work(entry.id, loaded.caller) : std::nullopt;
  const auto last_line = [&](const std::string& name, int attempt) {
    const bool is_kept = telemetry && is_log_complete(*telemetry, name, attempt);
    return is_kept ? kept(name, attempt) : last_line_on_engine(invocation, entry, name, attempt);
  };
  const Answer answer(loaded, past, settings, std::move(standing), others, last_line, record);
  std::string text = fmt::format("{} {}", options.trial, answer.of(trial));
  if (!is_over(past[trial].state) && !at_work && is_unfinished(entry, past))
    text += fmt::format("; nobody is at work on the run: `{}` goes on with it",
                        resume_line(entry.id, invocation.engine));
  (void)put_out(text + "\n");
  return 0;
}

}  // namespace

void add_why(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command = line.add_command(
      "why", "Say in one line why a trial is where it is; without a trial, why trials of the run failed");
  const auto options = std::make_shared<WhyOptions>();
  add_run_option(command, options->run);
  command
      .add_option("TRIAL", options->trial, "The trial's name; none: all that failed, were stopped or blocked")
      .type_name("");
  command.footer("Example:\n  combu -f experiment.jsonnet why solver-a-1");
  command.callback([&invocation, &action, options] {
    action = [&invocation, options] { return why(invocation, *options); };
  });
}

}  // namespace combu
