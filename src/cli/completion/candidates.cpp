#include "cli/completion/candidates.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "app/load.hpp"
#include "app/runs.hpp"
#include "cli/session.hpp"
#include "combu/analysis.hpp"
#include "combu/json.hpp"
#include "combu/telemetry.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

using CandidateNames = std::vector<std::string>;

// Whether reading it neither waits for anybody nor takes what is another's: standard input, a pipe.
bool may_be_read(const std::string& file) {
  std::error_code unreadable;
  return file != "-" && std::filesystem::is_regular_file(file, unreadable);
}

constexpr std::size_t k_runs_max = 1000;
// As docs/cli.md lists them below `results`.
constexpr std::array k_fields{"trial", "attempt",     "state",       "seconds", "exit_code",
                              "cause", "reason",      "image",       "digest",  "id",
                              "gpus",  "memory_peak", "cpu_seconds", "version"};
constexpr std::array k_run_fields{"run", "experiment", "file", "state", "engine", "trials"};
constexpr std::array k_run_states{"running", "left running", "interrupted", "ended", "not on record"};

class Candidates {
 public:
  // `invocation` must outlive it.
  Candidates(const Invocation& invocation, std::string run)
      : invocation_(invocation), folder_(state_folder(caller_for(invocation))), run_(std::move(run)) {
    if (Record::exists(folder_)) record_ = std::make_unique<Record>(folder_, Record::Use::reading);
  }

  [[nodiscard]] CandidateNames trials() {
    CandidateNames names;
    if (const auto entry = entry_meant()) {
      record_->trials(entry->id, {}, Detail::state, [&]() -> TrialEntry& {
        if (!trial_.name.empty()) names.push_back(trial_.name);
        return trial_ = {};
      });
      if (!trial_.name.empty()) names.push_back(trial_.name);
    } else {
      for (const Trial& trial : trials_of_file()) names.push_back(trial.name);
    }
    return names;
  }

  [[nodiscard]] CandidateNames runs() {
    CandidateNames ids;
    for (const RunEntry& entry : entries(k_runs_max)) ids.push_back(entry.id.text());
    return ids;
  }

  [[nodiscard]] CandidateNames experiments() {
    std::set<std::string> names;
    if (record_)
      for (const RunEntry& entry : record_->runs({}, SIZE_MAX)) names.insert(entry.experiment);
    return {names.begin(), names.end()};
  }

  // What is known of a trial that has been run.
  [[nodiscard]] CandidateNames names() {
    CandidateNames names(k_fields.begin(), k_fields.end());
    const auto entry = entry_meant();
    if (!entry) return names;
    std::unique_ptr<Telemetry> telemetry;
    if (Telemetry::exists(folder_, entry->id))
      telemetry = std::make_unique<Telemetry>(folder_, entry->id, Telemetry::Use::reading);
    const Results results = read_results(*record_, telemetry.get(), *entry);
    for (const std::string& param : results.params) add(names, param, "params.");
    for (const std::string& metric : results.metrics) {
      add(names, metric, "metrics.");
      const std::string own = names.back();
      for (const char* part : {".least", ".greatest", ".points"}) names.push_back(own + part);
    }
    return names;
  }

  // What is known of one before, as trials_meant() compares it.
  [[nodiscard]] CandidateNames names_before() {
    CandidateNames names{"trial", "image"};
    std::set<std::string> params;
    if (const auto entry = entry_meant()) {
      const Results results = read_results(*record_, nullptr, *entry);
      params.insert(results.params.begin(), results.params.end());
    } else {
      for (const Trial& trial : trials_of_file()) {
        if (trial.params.empty()) continue;
        const auto object = parse_json(trial.params);
        for (const auto& param : object.items()) params.insert(param.key());
      }
    }
    for (const std::string& param : params) add(names, param, "params.");
    return names;
  }

 private:
  // Behind `apart` where there is one of this name.
  static void add(CandidateNames& names, const std::string& name, std::string_view apart) {
    const bool is_taken = std::ranges::find(names, name) != names.end();
    names.push_back(is_taken ? std::string(apart) + name : name);
  }
  // None when it takes long.
  [[nodiscard]] const std::vector<Trial>& trials_of_file() {
    if (of_file_) return *of_file_;
    of_file_.emplace();
    if (!may_be_read(invocation_.file)) return *of_file_;
    Invocation quick = invocation_;
    quick.progress = "quiet";
    quick.evaluate_time = "1s";
    quick.evaluate_memory = "1GiB";
    if (auto loaded = load(quick, RunId::random(), *open_progress(quick)))
      of_file_ = std::move(loaded->run.experiment.trials);
    return *of_file_;
  }
  [[nodiscard]] std::vector<RunEntry> entries(std::size_t count_max) {
    if (!record_) return {};
    RunFilter filter;
    if (!invocation_.file.empty()) filter.file = identity_of(invocation_.file);
    return record_->runs(filter, count_max);
  }
  // The run that is meant; without a file or --run the newest one.
  [[nodiscard]] std::optional<RunEntry> entry_meant() {
    if (!record_) return std::nullopt;
    if (!run_.empty()) return record_->run(RunId(run_));
    std::vector<RunEntry> newest = entries(1);
    return newest.empty() ? std::nullopt : std::optional(std::move(newest.front()));
  }

  const Invocation& invocation_;
  std::string folder_;
  std::string run_;
  std::unique_ptr<Record> record_;
  TrialEntry trial_;
  std::optional<std::vector<Trial>> of_file_;
};

CandidateNames trial_states() {
  CandidateNames states;
  for (std::size_t i = 0; i < k_trial_state_count; ++i)
    states.emplace_back(to_string(static_cast<TrialState>(i)));
  return states;
}

CandidateNames causes() {
  CandidateNames words;
  for (std::size_t i = 0; i < k_cause_count; ++i)
    if (static_cast<Cause>(i) != Cause::none) words.emplace_back(to_string(static_cast<Cause>(i)));
  return words;
}

CandidateNames with_equals(CandidateNames names) {
  for (std::string& name : names) name += '=';
  return names;
}

// Where the last part of a condition begins: behind its last `&&`.
std::size_t last_condition(std::string_view word) {
  const std::size_t joint = word.rfind("&&");
  if (joint == std::string_view::npos) return 0;
  const std::size_t begin = word.find_first_not_of(' ', joint + 2);
  return begin == std::string_view::npos ? word.size() : begin;
}

// The part of `word` from `begin` on is completed by `ends`.
CandidateNames completed(const std::string& word, std::size_t begin, const CandidateNames& ends) {
  const std::string head = word.substr(0, begin);
  const std::string_view begun = std::string_view(word).substr(begin);
  CandidateNames words;
  for (const std::string& end : ends)
    if (end.starts_with(begun)) words.push_back(head + end);
  return words;
}

enum class Of { run_trials, new_trials, runs };

CandidateNames condition_names(Candidates& candidates, Of what) {
  if (what == Of::new_trials) return candidates.names_before();
  if (what == Of::run_trials) return candidates.names();
  CandidateNames names(k_run_fields.begin(), k_run_fields.end());
  std::ranges::move(trial_states(), std::back_inserter(names));
  return names;
}

CandidateNames conditions(const std::string& word, Candidates& candidates, Of what) {
  const std::size_t begin = last_condition(word);
  const std::size_t equals = word.find('=', begin);
  if (equals == std::string::npos)
    return completed(word, begin, with_equals(condition_names(candidates, what)));
  std::string name = word.substr(begin, equals - begin);
  while (name.ends_with('!') || name.ends_with(' ')) name.pop_back();
  CandidateNames values;
  if (name == "state" && what == Of::runs) values = CandidateNames(k_run_states.begin(), k_run_states.end());
  if (name == "state" && what == Of::run_trials) values = trial_states();
  if (name == "cause" && what == Of::run_trials) values = causes();
  if (name == "trial" && what != Of::runs) values = candidates.trials();
  return completed(word, equals + 1, values);
}

}  // namespace

std::vector<std::string> candidates_of(const std::string& kind, const std::string& word,
                                       const Invocation& invocation, const std::string& run) {
  Candidates candidates(invocation, run);
  const auto join = [](CandidateNames words, CandidateNames more) {
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
