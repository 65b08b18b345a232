#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "combu/progress.hpp"
#include "combu/text.hpp"
#include "progress/block.hpp"
#include "progress/forms.hpp"

namespace combu {
namespace {

constexpr std::size_t k_failures_shown = 20;

std::vector<FailureGroup> groups_of(const Run& run, const std::vector<Fact>& facts,
                                    const LastLine& last_line) {
  std::vector<Failure> failures;
  failures.reserve(facts.size());
  for (const Fact& fact : facts) {
    const std::string& name = run.experiment.trials[fact.trial].name;
    Fact shown = fact;
    if (shown.reason.empty() && fact.exit_code) shown.reason = fmt::format("exit code {}", *fact.exit_code);
    const bool has_log = fact.state != TrialState::blocked && fact.ran && last_line;
    Failure failure = failure_of(name, shown, has_log ? last_line(name, fact.attempt) : "");
    if (fact.state == TrialState::blocked && fact.root) failure.root = run.experiment.trials[*fact.root].name;
    failures.push_back(std::move(failure));
  }
  return group_failures(failures);
}

void print_failures(Progress& progress, const Run& run, const Outcome& outcome, const LastLine& last_line) {
  const std::vector<FailureGroup> groups = groups_of(run, outcome.unsuccessful, last_line);
  const std::size_t shown = std::min(groups.size(), k_failures_shown);
  for (std::size_t i = 0; i < shown; ++i) progress.error(group_line(groups[i]));
  std::size_t more = 0;
  for (std::size_t i = shown; i < groups.size(); ++i) more += groups[i].trials.size();
  if (more > 0) progress.error(fmt::format("… and {} more", more));
}

// Prints the trials that still run although all other trials have ended. Other trials depended on such a
// trial, but the trial is not marked as a service.
void name_what_is_left(Progress& progress, const Run& run, const Outcome& outcome) {
  if (outcome.running.empty()) return;
  std::vector<std::string_view> names;
  names.reserve(outcome.running.size());
  for (const TrialIndex trial : outcome.running) names.push_back(run.experiment.trials[trial].name);
  progress.note(fmt::format(
      "left running: {}; combu stops a trial with `service: true` when no trial needs it any more",
      fmt::join(ranges(names), ", ")));
}

void print_undelivered(Progress& progress, const Run& run, const Outcome& outcome, std::string_view engine) {
  const std::size_t count = outcome.last.count(TrialState::collecting);
  if (count == 0) return;
  progress.error(fmt::format(
      "the outputs of {} are not collected yet{}; `{}` collects them", number_of(count, "trial"),
      outcome.undelivered.empty() ? "" : ": " + outcome.undelivered, resume_line(run.id, engine)));
}

std::string summary(const Run& run, const Outcome& outcome, Until until) {
  const std::string time = to_string(outcome.last.elapsed);
  const std::size_t pending = outcome.last.count(TrialState::starting);
  if (outcome.interrupted)
    return fmt::format(
        "interrupted{}: {} of {} trials were started{}",
        outcome.last.interrupter.empty() ? "" : fmt::format(" by `{}`", outcome.last.interrupter),
        outcome.last.started, outcome.last.trials,
        outcome.pending > 0
            ? fmt::format("; the engine has accepted {} more, and starts them by itself", outcome.pending)
            : "");
  if (until == Until::ended)
    return fmt::format("run {} has ended: {} in {}", run.id.text(), counts_text(outcome.last), time);
  if (pending > 0)
    return fmt::format(
        "run {}: the engine has accepted {} of {} trials in {}, and starts them by itself; {} started",
        run.id.text(), outcome.last.started + pending, outcome.last.trials, time, outcome.last.started);
  const std::size_t skipped = outcome.last.count(TrialState::skipped);
  return fmt::format("run {}: {} of {} trials started{} in {}", run.id.text(), outcome.last.started,
                     outcome.last.trials, skipped > 0 ? fmt::format(", {} skipped,", skipped) : "", time);
}

}  // namespace

void print_outcome(Progress& progress, const Run& run, const Outcome& outcome, const OutcomeForm& form) {
  const auto& [until, engine, keeps_containers, last_line] = form;
  progress.end();
  print_failures(progress, run, outcome, last_line);
  progress.note(summary(run, outcome, until));
  if (until == Until::ended && !outcome.interrupted) name_what_is_left(progress, run, outcome);
  print_undelivered(progress, run, outcome, engine);
  if (!keeps_containers) return;
  if (!outcome.last.interrupter.empty())
    return;  // the command that interrupted the run removes the containers
  if (outcome.interrupted) progress.note(fmt::format("{}: resumes the run", resume_line(run.id, engine)));
  // A trial whose start failed or was stopped may have left a container, too.
  const std::size_t unstarted =
      outcome.last.count(TrialState::failed) + outcome.last.count(TrialState::stopped);
  const std::size_t pending = outcome.last.count(TrialState::starting);
  if (outcome.last.started + unstarted + pending == 0) return;
  if (until == Until::started && !outcome.interrupted && (!outcome.running.empty() || pending > 0))
    progress.note(
        fmt::format("{}: waits until the trials end", command_line(run.experiment, "wait", engine)));
  progress.note(fmt::format("{}: removes the containers", command_line(run.experiment, "kill", engine)));
}

}  // namespace combu
