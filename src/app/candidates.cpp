#include "app/candidates.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include "app/load.hpp"
#include "combu/analysis.hpp"
#include "combu/json.hpp"
#include "combu/session.hpp"
#include "combu/telemetry.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

// True for a regular file. Other files, such as standard input or a pipe, must not be read: reading could
// block, or consume the input of another process.
bool may_be_read(const std::string& file) {
  std::error_code unreadable;
  return file != "-" && std::filesystem::is_regular_file(file, unreadable);
}

constexpr std::size_t k_runs_max = 1000;
// The fields that the section `results` of docs/cli.md lists.
constexpr std::array k_fields{"trial", "attempt",     "state",       "seconds", "exit_code",
                              "cause", "reason",      "image",       "digest",  "id",
                              "gpus",  "memory_peak", "cpu_seconds", "version"};

// Adds `name` to `names`. If `names` already contains `name`, adds the text `apart` + `name` instead.
void add(std::vector<std::string>& names, const std::string& name, std::string_view apart) {
  const bool is_taken = std::ranges::find(names, name) != names.end();
  names.push_back(is_taken ? std::string(apart) + name : name);
}

}  // namespace

Candidates::Candidates(const Invocation& invocation, std::string run, Progress& progress)
    : invocation_(invocation),
      folder_(state_folder(caller_for(invocation))),
      run_(std::move(run)),
      progress_(progress) {
  if (Record::exists(folder_)) record_ = std::make_unique<Record>(folder_, Record::Use::reading);
}

std::vector<std::string> Candidates::trials() {
  std::vector<std::string> names;
  if (const auto entry = entry_meant()) {
    TrialEntry trial;
    record_->trials(entry->id, {}, Detail::state, [&]() -> TrialEntry& {
      if (!trial.name.empty()) names.push_back(trial.name);
      return trial = {};
    });
    if (!trial.name.empty()) names.push_back(trial.name);
  } else {
    for (const Trial& trial : trials_of_file()) names.push_back(trial.name);
  }
  return names;
}

std::vector<std::string> Candidates::runs() {
  std::vector<std::string> ids;
  for (const RunEntry& entry : entries(k_runs_max)) ids.push_back(entry.id.text());
  return ids;
}

std::vector<std::string> Candidates::experiments() {
  std::set<std::string> names;
  if (record_)
    for (const RunEntry& entry : record_->runs({}, SIZE_MAX)) names.insert(entry.experiment);
  return {names.begin(), names.end()};
}

std::vector<std::string> Candidates::names() {
  std::vector<std::string> names(k_fields.begin(), k_fields.end());
  const auto entry = entry_meant();
  if (!entry) return names;
  std::shared_ptr<Telemetry> telemetry;
  if (Telemetry::exists(folder_, entry->id))
    telemetry = std::make_shared<Telemetry>(folder_, entry->id, Telemetry::Use::reading);
  const Results results = read_results(*record_, std::move(telemetry), *entry);
  for (const std::string& param : results.params) add(names, param, "params.");
  for (const std::string& metric : results.metrics) {
    add(names, metric, "metrics.");
    const std::string own = names.back();
    for (const char* part : {".least", ".greatest", ".points"}) names.push_back(own + part);
  }
  return names;
}

std::vector<std::string> Candidates::names_before() {
  std::vector<std::string> names{"trial", "image"};
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

// Returns no trials if the evaluation takes longer than one second.
const std::vector<Trial>& Candidates::trials_of_file() {
  if (of_file_) return *of_file_;
  of_file_.emplace();
  if (!may_be_read(invocation_.file)) return *of_file_;
  Invocation quick = invocation_;
  quick.evaluate_time = "1s";
  quick.evaluate_memory = "1GiB";
  if (auto loaded = load(quick, RunId::random(), progress_))
    of_file_ = std::move(loaded->run.experiment.trials);
  return *of_file_;
}

std::vector<RunEntry> Candidates::entries(std::size_t count_max) {
  if (!record_) return {};
  RunFilter filter;
  if (!invocation_.file.empty()) filter.file = identity_of(invocation_.file);
  return record_->runs(filter, count_max);
}

std::optional<RunEntry> Candidates::entry_meant() {
  if (!record_) return std::nullopt;
  if (!run_.empty()) return record_->run(RunId(run_));
  std::vector<RunEntry> newest = entries(1);
  return newest.empty() ? std::nullopt : std::optional(std::move(newest.front()));
}

}  // namespace combu
