#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>
#include <unordered_map>
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

// Whether they are there, as far as their names tell.
bool are_free(const GpuWish& wish, const Slots& capacity, const Slots& free) {
  if (wish.empty()) return true;
  if (!wish.kind.empty() || wish.memory.count > 0) return false;
  const auto count = [&](const std::vector<std::string>& gpus) {
    return static_cast<std::size_t>(std::ranges::count_if(gpus, [&](const std::string& gpu) {
      return wish.ids.empty() || std::ranges::any_of(wish.ids, [&](const std::string& id) {
               return is_called(Gpu{.id = gpu, .uuid = {}, .kind = {}, .memory = {}}, id);
             });
    }));
  };
  return count(free.gpus) >= (wish.all ? count(capacity.gpus) : wish.count);
}

class Explanation {
 public:
  // `settings` and `standing`: of the process at work. `others`: attempts of other runs that hold slots;
  // asked for only where it matters.
  Explanation(const Loaded& loaded, const std::vector<Past>& past, const std::optional<Settings>& settings,
              std::optional<Snapshot> standing, std::function<std::vector<Sighting>()> others,
              LastLine last_line, Record& record)
      : run_(loaded.run.id),
        experiment_(loaded.run.experiment),
        plan_(loaded.plan),
        past_(past),
        paused_(settings && settings->paused),
        parallel_max_(settings ? settings->parallel_max : experiment_.parallel_max),
        starts_in_flight_max_(settings.value_or(Settings{}).starts_in_flight_max),
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
    std::vector<std::string> unmet;
    for (const Edge& need : plan_.nodes[trial].needs)
      if (const auto text = unmet_text(need)) unmet.push_back(*text);
    if (!unmet.empty()) return "waits for " + list_of(std::move(unmet));
    if (const auto canary = canary_text(trial)) return *canary;
    if (paused_)
      return fmt::format("waits, since the run is paused: `combu resume {}` starts it", run_.text());
    const std::size_t alive = alive_in_parallel();
    if (!experiment_.trials[trial].service && parallel_max_ > 0 && alive >= parallel_max_)
      return fmt::format("waits for a place: {} alive, as many as may (parallel)",
                         alive == 1 ? "1 attempt is" : fmt::format("{} attempts are", alive));
    const GpuWish& gpus = *experiment_.trials[trial].gpus;
    if (!fits(trial)) return fmt::format("waits for {}{}", joined(wanted(trial), gpus), holders(trial));
    const auto starting = static_cast<std::size_t>(
        std::ranges::count(past_, TrialState::starting, [](const Past& one) { return one.state; }));
    if (starting >= starts_in_flight_max_ || (wanted(trial).empty() && gpus.empty()))
      return "waits for its turn among the starts in flight";
    if (const auto first = first_in_line(trial))
      return fmt::format("waits, so that `{}` gets {}", name(*first),
                         joined(wanted(*first), *experiment_.trials[*first].gpus));
    return experiment_.trials[trial].service
               ? "waits, so that those that services serve have room beside them"
               : "waits for its turn";
  }

  // Of its next attempt.
  [[nodiscard]] Slots wanted(TrialIndex trial) const {
    Slots slots = experiment_.trials[trial].slots;
    if (past_[trial].state == TrialState::ready) slots.memory = std::max(slots.memory, past_[trial].memory);
    return slots;
  }

  // Whether it could start with what is free; not so where that is not known.
  [[nodiscard]] bool fits(TrialIndex trial) const {
    const Slots slots = wanted(trial);
    const GpuWish& gpus = *experiment_.trials[trial].gpus;
    if (slots.empty() && gpus.empty()) return true;
    if (!standing_ || !standing_->capacity) return false;
    Slots free = *standing_->capacity;
    free -= standing_->held;
    free -= standing_->held_by_others;
    return slots.fit(free) && are_free(gpus, *standing_->capacity, free);
  }

  // The first of those that come before this one and wait for slots that are not free. What a random order
  // is, is not known here: there it is one of those with a higher priority.
  [[nodiscard]] std::optional<TrialIndex> first_in_line(TrialIndex trial) const {
    const auto priority = [&](TrialIndex one) { return experiment_.trials[one].priority; };
    std::optional<TrialIndex> first;
    for (TrialIndex other = 0; other < past_.size(); ++other) {
      const bool waits = past_[other].state == TrialState::waiting || past_[other].state == TrialState::ready;
      const bool is_before =
          priority(other) > priority(trial) ||
          (priority(other) == priority(trial) && other < trial && experiment_.order == Order::file);
      if (!waits || !is_before || fits(other) || (first && priority(other) <= priority(*first))) continue;
      const auto is_unmet = [&](const Edge& need) { return unmet_text(need).has_value(); };
      if (std::ranges::none_of(plan_.nodes[other].needs, is_unmet) && !canary_text(other)) first = other;
    }
    return first;
  }

  // Services take no place from others.
  [[nodiscard]] std::size_t alive_in_parallel() const {
    std::size_t count = 0;
    for (TrialIndex trial = 0; trial < past_.size(); ++trial)
      if (is_alive(past_[trial].state) && !experiment_.trials[trial].service) ++count;
    return count;
  }

  // What is not so yet of a trial that this one depends on.
  [[nodiscard]] std::optional<std::string> unmet_text(const Edge& need) const {
    const Past& it = past_[need.trial];
    const bool met = it.state == TrialState::skipped          ? true
                     : need.condition == Condition::started   ? it.was_started
                     : need.condition == Condition::healthy   ? it.was_healthy
                     : need.condition == Condition::succeeded ? it.state == TrialState::succeeded
                                                              : is_over(it.state);
    if (met) return std::nullopt;
    return fmt::format("`{}` {} (it is {})", name(need.trial), words_of(need.condition), to_string(it.state));
  }

  [[nodiscard]] std::optional<std::string> canary_text(TrialIndex trial) const {
    if (!experiment_.canary) return std::nullopt;
    const std::string shape = canary_shape(experiment_.trials[trial]);
    const auto [known, is_new] = canaries_.try_emplace(shape);
    if (is_new) known->second = canary_of(shape);
    const std::optional<TrialIndex> canary = known->second;
    if (!canary || *canary == trial) return std::nullopt;
    return fmt::format("waits for `{}`, the canary of its shape, to succeed", name(*canary));
  }

  // nullopt: nobody waits for it, or it has not begun.
  [[nodiscard]] std::optional<TrialIndex> canary_of(const std::string& shape) const {
    std::optional<TrialIndex> canary;
    for (TrialIndex other = 0; other < past_.size(); ++other) {
      const TrialState state = past_[other].state;
      const bool has_begun = is_alive(past_[other].state) || state == TrialState::ready ||
                             state == TrialState::retrying || state == TrialState::collecting;
      const bool counts = has_succeeded(state) || (has_begun && !canary);
      if (!counts || canary_shape(experiment_.trials[other]) != shape) continue;
      if (has_succeeded(state)) return std::nullopt;
      canary = other;
    }
    return canary;
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
  bool paused_;
  std::size_t parallel_max_;
  std::size_t starts_in_flight_max_;
  std::optional<Snapshot> standing_;
  mutable std::unordered_map<std::string, std::optional<TrialIndex>> canaries_;  // by shape
  std::function<std::vector<Sighting>()> others_;
  LastLine last_line_;
  Record& record_;
  std::string folder_;
};

// Attempts of other runs that hold slots. An engine that is away holds up no answer.
std::vector<Sighting> others_on_engine(const Invocation& invocation, const RunEntry& entry) {
  if (is_simulated(entry)) return {};
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
  if (is_simulated(entry)) return "";
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
  if (is_simulated(entry)) return;
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
  const Loaded loaded = load(record, entry.id);
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
  const Explanation explanation(loaded, past, settings, std::move(standing), others, last_line, record);
  std::string text = fmt::format("{} {}", options.trial, explanation.of(trial));
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
