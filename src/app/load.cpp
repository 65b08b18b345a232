#include "app/load.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <functional>
#include <iterator>
#include <unordered_map>
#include <utility>

#include "app/retry_selection.hpp"
#include "app/values.hpp"
#include "combu/json.hpp"
#include "combu/jsonnet.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

// Parses option values of the form NAME=VALUE. For the form NAME, uses the value of the environment variable
// NAME, as jsonnet does.
Evaluation::Pairs pairs(const std::vector<std::string>& given, std::string_view option,
                        const Caller& caller) {
  Evaluation::Pairs pairs;
  for (const std::string& text : given) {
    const std::size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    if (name.empty())
      throw Error(ErrorKind::invalid, std::string(option), fmt::format("'{}' must begin with a name", text));
    if (equals != std::string::npos) {
      pairs.emplace_back(name, text.substr(equals + 1));
      continue;
    }
    auto value = caller.env(name);
    if (!value)
      throw Error(
          ErrorKind::invalid, std::string(option),
          fmt::format("{} is not in the environment; set it there, or give {} {}=VALUE", name, option, name));
    pairs.emplace_back(name, std::move(*value));
  }
  return pairs;
}

Evaluation evaluation_of(const Invocation& invocation, const RunId& run, const Caller& caller) {
  return {.file = invocation.file,
          .must_be_regular = invocation.must_be_regular,
          .run = run,
          .ext_str = pairs(invocation.ext_str, "--ext-str", caller),
          .ext_code = pairs(invocation.ext_code, "--ext-code", caller),
          .tla_str = pairs(invocation.tla_str, "--tla-str", caller),
          .tla_code = pairs(invocation.tla_code, "--tla-code", caller),
          .import_dirs = invocation.import_dirs,
          .memory_max = bytes_option("--evaluate-memory", invocation.evaluate_memory),
          .time_max = duration_option("--evaluate-time", invocation.evaluate_time)};
}

// Returns the trial's index in the path of an error, for example 17 for the path [17].image or
// trials[17].image. Returns -1 for an error of the whole file, so that such errors are sorted first.
std::ptrdiff_t trial_index(const Error& error) {
  std::string_view path = error.subject();
  constexpr std::string_view k_before[] = {"trials", "["};
  for (const std::string_view before : k_before)
    if (path.starts_with(before)) path.remove_prefix(before.size());
  std::ptrdiff_t index = -1;
  std::from_chars(path.data(), path.data() + path.size(), index);
  return index;
}

// Merges the lists of errors into one list, in the order of the trials in the file.
std::vector<Error> in_file_order(std::vector<Error> of_spec, std::vector<Error> of_plan,
                                 std::vector<Error> of_sections) {
  std::vector<Error> errors = std::move(of_spec);
  std::ranges::move(of_plan, std::back_inserter(errors));
  std::ranges::move(of_sections, std::back_inserter(errors));
  std::ranges::stable_sort(errors, {}, trial_index);
  return errors;
}

std::string shown_file(const std::string& file) {
  return file == "-" ? "<stdin>" : file;
}

std::string file_error_line(const std::string& file, const Error& error) {
  const std::string name = shown_file(file);
  const std::string text = error.what();
  return text.starts_with(name + ":") ? text : fmt::format("{}: {}", name, text);
}

using ByName = std::unordered_map<std::string, Trial>;

ByName by_name(std::vector<Trial> trials) {
  ByName names;
  for (Trial& trial : trials) {
    std::string name = trial.name;
    names.emplace(std::move(name), std::move(trial));
  }
  return names;
}

// Reads a recorded experiment. The recorded text is valid, so an error can only concern a file that the
// experiment names.
Experiment read_again(const std::string& evaluated, const RunId& run, const Caller& caller) {
  Reading reading = read_experiment(evaluated, caller);
  if (reading.errors.empty()) return std::move(reading.experiment);
  const Error& error = reading.errors.front();
  throw Error(error.kind(), fmt::format("run {}", run.text()), error.what());
}

// True if a trial in this state may start when the run is resumed.
bool may_start(const Trial& trial, TrialState state) {
  const bool has_begun =
      (state == TrialState::running || state == TrialState::collecting) && trial.retries.max == 0;
  return !is_over(state) && !has_begun;
}

}  // namespace

namespace {

std::string imports_text(const std::vector<Import>& imports) {
  auto object = nlohmann::json::object();
  for (const Import& import : imports) object[import.path] = import.sha256;
  return json_text(object);
}

struct FileReading {
  Loaded loaded;
  std::vector<Error> errors;  // in the order of the trials in the file
  std::vector<std::string> warnings;
};

// Calls `slow` once if the evaluation takes more than a second.
FileReading read_experiment_file(const Invocation& invocation, const RunId& run,
                                 const std::function<void()>& slow) {
  if (invocation.file.empty())
    throw Error(
        ErrorKind::invalid, "",
        "no experiment file is given, and this folder has no experiment.jsonnet; give one: combu -f FILE …");
  Loaded loaded{.run = {.id = run, .experiment = {}},
                .plan = {},
                .caller = caller_of(invocation.file),
                .text = {},
                .arguments = invocation.arguments,
                .revision = {}};
  const Evaluation evaluation = evaluation_of(invocation, run, loaded.caller);

  std::vector<Error> errors;
  std::vector<std::string> warnings;
  const auto began = std::chrono::steady_clock::now();
  try {
    Evaluated evaluated = evaluate(evaluation, slow);
    loaded.text.source = std::move(evaluated.source);
    loaded.text.evaluated = std::move(evaluated.json);
    loaded.text.imports = imports_text(evaluated.imports);
    loaded.text.values = values_text(invocation);
    Reading reading = read_experiment(loaded.text.evaluated, loaded.caller);
    loaded.run.experiment = std::move(reading.experiment);
    warnings = std::move(reading.warnings);
    Planning planning = make_plan(loaded.run.experiment);
    loaded.plan = std::move(planning.plan);
    errors = in_file_order(std::move(reading.errors), std::move(planning.errors),
                           invocation.check_sections(loaded.run.experiment));
  } catch (const Error& error) {
    errors.push_back(error);
  }
  loaded.evaluated_in = std::chrono::steady_clock::now() - began;
  return {std::move(loaded), std::move(errors), std::move(warnings)};
}

}  // namespace

std::optional<Loaded> load(const Invocation& given, const RunId& run, Progress& progress) {
  const Invocation invocation = with_default_file(given);
  FileReading reading = read_experiment_file(
      invocation, run, [&] { progress.phase(fmt::format("evaluating {}", invocation.file)); });
  progress.end();
  for (const Error& error : reading.errors) progress.error(file_error_line(invocation.file, error));
  if (!reading.errors.empty()) return std::nullopt;
  for (const std::string& warning : reading.warnings)
    progress.note(fmt::format("{}: warning: {}", shown_file(invocation.file), warning));
  return std::move(reading.loaded);
}

Loaded load_or_throw(const Invocation& invocation, const RunId& run, const std::function<void()>& slow) {
  FileReading reading = read_experiment_file(invocation, run, slow);
  if (!reading.errors.empty()) {
    const Error& error = reading.errors.front();
    throw Error(error.kind(), "", file_error_line(invocation.file, error));
  }
  return std::move(reading.loaded);
}

void expect_its_experiment(const Loaded& file, const RunEntry& entry, const std::string& name) {
  if (file.run.experiment.name == entry.experiment) return;
  throw Error(
      ErrorKind::invalid, name,
      fmt::format(
          "describes the experiment {}, but the run belongs to the experiment {}; `run` starts a new run",
          file.run.experiment.name, entry.experiment));
}

Loaded load(Record& record, const RunId& run, Texts texts) {
  const RunEntry entry = record.run(run);
  Loaded loaded{
      .run = {.id = run, .experiment = {}, .began_at = entry.began_at, .host_paths = entry.host_paths},
      .plan = {},
      .caller = caller_of(entry.file),
      .text = {},
      .arguments = {},
      .revision = {}};
  loaded.caller.file = entry.file;
  loaded.caller.folder = entry.folder;
  loaded.caller.may_lack_env_files = true;
  std::vector<ByName> revisions;
  revisions.reserve(entry.earlier.size() + 1);
  for (const std::string& earlier : entry.earlier)
    revisions.push_back(by_name(read_again(earlier, run, loaded.caller).trials));
  loaded.run.experiment = read_again(entry.text.evaluated, run, loaded.caller);
  std::vector<Trial>& trials = loaded.run.experiment.trials;
  revisions.push_back(by_name(std::exchange(trials, {})));
  for (const TrialEntry& on_record : record.trials(run)) {
    ByName& ran_with = revisions.at(static_cast<std::size_t>(on_record.revision - 1));
    Trial& trial = trials.emplace_back(std::move(ran_with.at(on_record.name)));
    const auto newest = revisions.back().find(on_record.name);
    const bool is_changed = &ran_with != &revisions.back() && newest != revisions.back().end();
    if (is_changed && texts == Texts::newest && ended_unsuccessfully(trial, on_record.state))
      trial = std::move(newest->second);
    if (trial.pull == Pull::always) trial.pull = Pull::missing;
    // A trial that the newest file lacks has ended or will be stopped. Its dependencies and ports must not
    // affect other trials.
    const bool is_left_out =
        std::cmp_less(on_record.revision, revisions.size()) && !revisions.back().contains(trial.name);
    if (is_left_out) leave_out(trial);
  }
  loaded.plan = make_plan(loaded.run.experiment).plan;
  return loaded;
}

void expect_env_files(const Experiment& experiment, std::span<const RestoredTrial> restored,
                      std::span<const TrialIndex> again) {
  const auto expect = [&](TrialIndex index) {
    const Trial& trial = experiment.trials[index];
    if (!trial.env_fault.empty()) throw Error(ErrorKind::invalid, trial.path + ".env_file", trial.env_fault);
  };
  std::ranges::for_each(again, expect);
  for (TrialIndex trial = 0; trial < restored.size(); ++trial)
    if (may_start(experiment.trials[trial], restored[trial].state)) expect(trial);
}

void forget_files(Experiment& experiment, std::span<const RestoredTrial> restored,
                  std::span<const TrialIndex> again) {
  for (TrialIndex trial = 0; trial < restored.size(); ++trial) {
    Trial& one = experiment.trials[trial];
    const bool has_any = !one.inputs.empty() || one.container.secrets;
    if (!has_any || may_start(one, restored[trial].state)) continue;
    if (std::ranges::find(again, trial) != again.end()) continue;
    one.inputs.clear();
    one.container.secrets = {};
  }
}

void forgive(Experiment& experiment, const RunEntry& entry) {
  if (experiment.failures_max > 0) experiment.failures_max += entry.failures_forgiven;
}

void leave_out(Trial& trial) {
  trial.depends.clear();
  trial.container.ports.clear();
}

}  // namespace combu
