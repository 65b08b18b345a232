#include "cli/completion/candidates.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <string_view>

#include "app/candidates.hpp"
#include "combu/kubernetes.hpp"
#include "combu/progress.hpp"
#include "combu/schedule.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

constexpr std::array k_run_fields{"run", "experiment", "file", "state", "engine", "trials"};
constexpr std::array k_run_states{"running", "left running", "interrupted", "ended", "not on record"};

std::vector<std::string> trial_states() {
  std::vector<std::string> states;
  states.reserve(k_trial_state_count);
  for (std::size_t i = 0; i < k_trial_state_count; ++i)
    states.emplace_back(to_string(static_cast<TrialState>(i)));
  return states;
}

std::vector<std::string> causes() {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < k_cause_count; ++i)
    if (static_cast<Cause>(i) != Cause::none) words.emplace_back(to_string(static_cast<Cause>(i)));
  return words;
}

std::vector<std::string> with_equals(std::vector<std::string> names) {
  for (std::string& name : names) name += '=';
  return names;
}

// Returns the offset of the last part of the condition `word`: the part begins after the last `&&`.
std::size_t last_condition(std::string_view word) {
  const std::size_t joint = word.rfind("&&");
  if (joint == std::string_view::npos) return 0;
  const std::size_t begin = word.find_first_not_of(' ', joint + 2);
  return begin == std::string_view::npos ? word.size() : begin;
}

// Returns the completions of `word`. Each completion is the part of `word` before `begin`, followed by an
// element of `ends` that begins with the rest of `word`.
std::vector<std::string> completed(const std::string& word, std::size_t begin,
                                   const std::vector<std::string>& ends) {
  const std::string head = word.substr(0, begin);
  const std::string_view begun = std::string_view(word).substr(begin);
  std::vector<std::string> words;
  for (const std::string& end : ends)
    if (end.starts_with(begun)) words.push_back(head + end);
  return words;
}

enum class Of { run_trials, new_trials, runs };

std::vector<std::string> condition_names(Candidates& candidates, Of what) {
  if (what == Of::new_trials) return candidates.names_before();
  if (what == Of::run_trials) return candidates.names();
  std::vector<std::string> names(k_run_fields.begin(), k_run_fields.end());
  std::ranges::move(trial_states(), std::back_inserter(names));
  return names;
}

std::vector<std::string> conditions(const std::string& word, Candidates& candidates, Of what) {
  const std::size_t begin = last_condition(word);
  const std::size_t equals = word.find('=', begin);
  if (equals == std::string::npos)
    return completed(word, begin, with_equals(condition_names(candidates, what)));
  std::string name = word.substr(begin, equals - begin);
  while (name.ends_with('!') || name.ends_with(' ')) name.pop_back();
  std::vector<std::string> values;
  if (name == "state" && what == Of::runs)
    values = std::vector<std::string>(k_run_states.begin(), k_run_states.end());
  if (name == "state" && what == Of::run_trials) values = trial_states();
  if (name == "cause" && what == Of::run_trials) values = causes();
  if (name == "trial" && what != Of::runs) values = candidates.trials();
  return completed(word, equals + 1, values);
}

// Returns values of --engine. Docker's addresses have too many forms.
std::vector<std::string> engines() {
  std::vector<std::string> names{"kubernetes"};
  try {
    for (const std::string& context : cluster_contexts(environment)) names.push_back("kubernetes:" + context);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): an invalid kubeconfig file has no candidates
  }
  names.emplace_back("simulated:");
  return names;
}

}  // namespace

std::vector<std::string> candidates_of(const std::string& kind, const std::string& word,
                                       const Invocation& invocation, const std::string& run) {
  if (kind == "engines") return completed(word, 0, engines());
  const auto progress = make_progress(ProgressForm::quiet, stderr);
  Candidates candidates(invocation, run, *progress);
  const auto join = [](std::vector<std::string> words, std::vector<std::string> more) {
    std::ranges::move(more, std::back_inserter(words));
    return words;
  };
  if (kind == "trials") return completed(word, 0, candidates.trials());
  if (kind == "runs") return completed(word, 0, candidates.runs());
  if (kind == "experiments") return completed(word, 0, candidates.experiments());
  if (kind == "columns") {
    const std::size_t comma = word.rfind(',');
    return completed(word, comma == std::string::npos ? 0 : comma + 1, candidates.names());
  }
  if (kind == "settings")
    return completed(word, 0, join({"parallel=", "starts_in_flight="}, candidates.runs()));
  if (kind == "only")
    return join(completed(word, 0, candidates.trials()), conditions(word, candidates, Of::new_trials));
  const bool of_runs = kind == "ps_conditions" && run.empty() && invocation.file.empty();
  return conditions(word, candidates, of_runs ? Of::runs : Of::run_trials);
}

}  // namespace combu
