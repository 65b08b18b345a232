#include "app/explanation_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <string_view>
#include <utility>

#include "app/run_options.hpp"
#include "app/run_telemetry.hpp"
#include "combu/cache.hpp"
#include "combu/telemetry.hpp"
#include "combu/text.hpp"

namespace combu {
namespace {

constexpr std::size_t k_named = 3;
constexpr std::size_t k_compared_max = 500;

std::string list_of(std::vector<std::string> texts) {
  const std::size_t count = texts.size();
  if (count > k_named) {
    texts.resize(k_named);
    texts.push_back(fmt::format("{} more", count - k_named));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string_view condition_text(Condition condition) {
  switch (condition) {
    case Condition::started:
      return "to be started";
    case Condition::healthy:
      return "to be healthy";
    case Condition::succeeded:
      return "to succeed";
    case Condition::finished:
      return "to end";
  }
  return "";
}

// Returns from `held` only the CPUs, memory or GPUs, depending on which of these kinds `wanted` and `gpus`
// request.
Slots of_kinds(const Slots& wanted, const GpuRequest& gpus, const Slots& held) {
  Slots some;
  if (wanted.cpus.nano != 0) some.cpus = held.cpus;
  if (wanted.memory.count != 0) some.memory = held.memory;
  if (!gpus.empty()) some.gpus = held.gpus;
  return some;
}

std::string joined(const Slots& slots, const GpuRequest& gpus) {
  if (gpus.empty()) return to_string(slots);
  return slots.empty() ? to_string(gpus) : fmt::format("{}, {}", to_string(slots), to_string(gpus));
}

// Explains the states of one run's trials.
class ExplanationText {
 public:
  explicit ExplanationText(const ExplainedRun& run)
      : id_(run.loaded.run.id),
        experiment_(run.loaded.run.experiment),
        run_(run),
        restored_(run.restored),
        settings_(run.settings.value_or(Settings{.parallel_max = experiment_.parallel_max})) {}

  [[nodiscard]] std::string of(TrialIndex trial) const {
    const RestoredTrial& it = restored_[trial];
    switch (it.state) {
      case TrialState::waiting:
        return waits(trial);
      case TrialState::ready:
        return fmt::format("{}; attempt {}, after {}", waits(trial), it.attempt + 1, attempt_end_text(it));
      case TrialState::starting:
        return starts(it);
      case TrialState::running:
        return fmt::format("runs{}{}{}", running_time(it), attempt_text(it), why_not_skipped(trial));
      case TrialState::retrying:
        return fmt::format("is retried: {}", reason_text(it));
      case TrialState::collecting:
        return fmt::format("has ended{}, and its outputs are being collected{}", attempt_text(it),
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
  [[nodiscard]] std::string starts(const RestoredTrial& it) const {
    const std::string reason = run_.pending_reason ? run_.pending_reason() : "";
    return fmt::format("is being started{}{}{}", attempt_text(it), reason.empty() ? "" : ": ", reason);
  }

  [[nodiscard]] const std::string& name(TrialIndex trial) const { return experiment_.trials[trial].name; }

  static std::string attempt_text(const RestoredTrial& restored) {
    return restored.attempt > 1 ? fmt::format(" (attempt {})", restored.attempt) : "";
  }

  static bool is_by_others(Stopper stopper) {
    return stopper == Stopper::person || stopper == Stopper::outside;
  }

  // Returns why the last attempt ended. The returned text leaves out the next step, such as a retry.
  static std::string attempt_end_text(const RestoredTrial& restored) {
    EndDetails details = restored.details;
    details.next = Next::none;
    return reason_text(restored.reason, details, restored.attempt);
  }

  // Returns the reason of the failure and the last line of the log. The reason is phrased to follow the name
  // of the trial's state in a sentence.
  [[nodiscard]] std::string failure_text(TrialIndex trial) const {
    const RestoredTrial& it = restored_[trial];
    return with_last_line(reason_text_beside_state(it), it.exit_code,
                          it.was_started ? run_.last_line(name(trial), it.attempt) : std::string());
  }

  static std::string running_time(const RestoredTrial& restored) {
    if (!restored.ran_at) return "";
    return " for " + to_string(std::chrono::duration_cast<Seconds>(real_clock().now() - *restored.ran_at));
  }

  [[nodiscard]] std::string why_no_metrics(TrialIndex trial) const {
    const std::string folder = state_folder(run_.loaded.caller);
    if (!experiment_.trials[trial].metrics || !Telemetry::exists(folder, id_)) return "";
    try {
      const std::vector<std::string> silent = Telemetry(folder, id_, Telemetry::Use::reading).silent();
      if (std::ranges::find(silent, name(trial)) == silent.end()) return "";
    } catch (const Error&) {
      return "";  // the telemetry database cannot be read
    }
    return fmt::format("; the trial reported no metric: {}",
                       words_of_none(*experiment_.trials[trial].metrics));
  }

  // Returns why a trial with `cache` was not skipped, for example how the trial differs from the most similar
  // earlier trial.
  [[nodiscard]] std::string why_not_skipped(TrialIndex trial) const {
    if (!experiment_.trials[trial].cache.on) return "";
    const auto known = run_.record.known(id_, name(trial));
    if (!known) return "; no cache lookup is recorded";
    if (restored_[trial].anew) return "; the trial was run again on request";
    std::optional<std::vector<std::string>> least;
    std::string of;
    for (const KnownEntry& before : run_.record.known_before(id_, name(trial), k_compared_max)) {
      std::vector<std::string> differ = differences(known->parts, before.parts);
      if (least && least->size() <= differ.size()) continue;
      least = std::move(differ);
      of = fmt::format("`{}` of run {}", before.trial, before.run.text());
    }
    if (!least) return "; no comparable trial completed before this trial";
    if (!least->empty())
      return fmt::format("; the trial differs from {}: {}", of, list_of(std::move(*least)));
    return run_options_of(run_.record.runs({.id = id_}, 1).at(0).options).cache
               ? fmt::format("; the trial is equal to {}, which has no outputs to reuse", of)
               : fmt::format("; the trial is equal to {}, but was run because of --no-cache", of);
  }

  // Returns why a service was stopped: no trial needed it any more, or the run's deadline had passed. The
  // record does not contain the reason, so the function compares the moment when the service ended with the
  // deadline.
  [[nodiscard]] std::string stopped_text(TrialIndex trial) const {
    constexpr std::string_view k_done = "was stopped because no trial needed it any more";
    if (experiment_.deadline == Seconds(0)) return std::string(k_done);
    const Instant since = run_.record.runs({.id = id_}, 1).at(0).working_since;
    const auto ended_at = run_.record.trials(id_, name(trial)).at(0).ended_at;
    const auto deadline = since + std::chrono::duration_cast<Instant::duration>(experiment_.deadline);
    if (!ended_at || *ended_at < since) return fmt::format("{} or the run's deadline had passed", k_done);
    if (*ended_at < deadline) return std::string(k_done);
    return fmt::format("was stopped after the run's deadline of {} had passed",
                       to_string(experiment_.deadline));
  }

  // Returns which trial blocked `trial`, directly or indirectly, and why that trial failed.
  [[nodiscard]] std::string root_text(TrialIndex trial) const {
    const std::optional<TrialIndex> root = restored_[trial].root;
    if (!root || restored_[*root].reason.empty()) return "";
    return fmt::format("; {} {}: {}", name(*root), to_string(restored_[*root].state),
                       reason_text(restored_[*root]));
  }

  [[nodiscard]] std::string waits(TrialIndex trial) const {
    using Kind = Explanation::Kind;
    const Explanation why = this->why(trial);
    switch (why.kind) {
      case Kind::dependencies:
        return "waits for " + unmet_text(why.unmet);
      case Kind::canary:
        return fmt::format("waits for `{}`, the canary of its shape, to succeed", name(*why.first));
      case Kind::paused:
        return fmt::format("waits because the run is paused; `combu unpause {}` continues the run",
                           id_.text());
      case Kind::limit:
        return "waits for another trial to end, because the engine runs no more trials like it at once";
      case Kind::place:
        return place_text();
      case Kind::slots:
        return slots_text(trial);
      case Kind::overtaken:
        return fmt::format("waits, so that `{}` gets {}", name(*why.first),
                           joined(wanted(*why.first), *experiment_.trials[*why.first].gpus));
      case Kind::room:
        return "waits, because its start would leave too few slots for the trials that depend on services";
      case Kind::starts:
        return "waits: the limit of starts in flight is reached (starts_in_flight)";
      case Kind::pending:
        return "waits: as many trials as combu gives the engine at once wait there for a place";
      case Kind::none:
      case Kind::retry:
      case Kind::lookup:
      case Kind::interrupted:
      case Kind::listing:
      case Kind::turn:
      case Kind::nothing:
        break;
    }
    return "waits for its turn";
  }

  [[nodiscard]] Explanation why(TrialIndex trial) const {
    return explain({.run = id_,
                    .experiment = experiment_,
                    .plan = run_.loaded.plan,
                    .restored = restored_,
                    .settings = settings_,
                    .capacity = run_.snapshot ? run_.snapshot->capacity : std::nullopt,
                    .held_by_others = run_.snapshot ? run_.snapshot->held_by_others : Slots(),
                    .limits = run_.limits,
                    .now = real_clock().now()},
                   trial);
  }

  // Returns the slots that the next attempt of the trial requests.
  [[nodiscard]] Slots wanted(TrialIndex trial) const {
    Slots slots = experiment_.trials[trial].slots;
    if (restored_[trial].state == TrialState::ready)
      slots.memory = std::max(slots.memory, restored_[trial].memory);
    return slots;
  }

  [[nodiscard]] std::string slots_text(TrialIndex trial) const {
    return fmt::format("waits for {}{}", joined(wanted(trial), *experiment_.trials[trial].gpus),
                       holders(trial));
  }

  // The number of attempts in the text does not include services, since the limit `parallel` does not apply
  // to services.
  [[nodiscard]] std::string place_text() const {
    std::size_t alive = 0;
    for (TrialIndex trial = 0; trial < restored_.size(); ++trial)
      if (is_alive(restored_[trial].state) && !experiment_.trials[trial].service) ++alive;
    return fmt::format("waits: {} {} alive, which is the limit (parallel)", number_of(alive, "attempt"),
                       alive == 1 ? "is" : "are");
  }

  [[nodiscard]] std::string unmet_text(const std::vector<Edge>& needs) const {
    std::vector<std::string> texts;
    texts.reserve(needs.size());
    for (const Edge& need : needs)
      texts.push_back(fmt::format("`{}` {} (it is {})", name(need.trial), condition_text(need.condition),
                                  to_string(restored_[need.trial].state)));
    return list_of(std::move(texts));
  }

  // Lists the attempts of this run and of other runs that hold slots for which the trial waits. Attempts with
  // GPUs come first, since GPUs are the scarcest slots.
  [[nodiscard]] std::string holders(TrialIndex waiting) const {
    const Slots wanted = this->wanted(waiting);
    const GpuRequest& wanted_gpus = *experiment_.trials[waiting].gpus;
    std::vector<std::string> texts;
    std::vector<std::string> without_gpus;
    const auto add = [&](const std::string& who, const Slots& slots, const GpuRequest& gpus) {
      const bool has_gpus = !gpus.empty() || !slots.gpus.empty();
      if (has_gpus || !slots.empty())
        (has_gpus ? texts : without_gpus).push_back(fmt::format("{} ({})", who, joined(slots, gpus)));
    };
    for (TrialIndex trial = 0; trial < restored_.size(); ++trial) {
      const Trial& it = experiment_.trials[trial];
      if (is_alive(restored_[trial].state))
        add(fmt::format("`{}`", it.name), of_kinds(wanted, wanted_gpus, it.slots),
            wanted_gpus.empty() ? GpuRequest() : *it.gpus);
    }
    for (const Observation& other : run_.others())
      add(fmt::format("`{}` of {}", other.key.trial, other.experiment),
          of_kinds(wanted, wanted_gpus, other.slots), {});
    std::ranges::move(without_gpus, std::back_inserter(texts));
    return texts.empty() ? "" : "; held by " + list_of(std::move(texts));
  }

  const RunId& id_;
  const Experiment& experiment_;
  const ExplainedRun& run_;
  const std::vector<RestoredTrial>& restored_;
  Settings settings_;
};

}  // namespace

std::string explanation_text(const ExplainedRun& run, TrialIndex trial) {
  return ExplanationText(run).of(trial);
}

}  // namespace combu
