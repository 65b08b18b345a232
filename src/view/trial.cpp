#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "combu/json.hpp"
#include "combu/telemetry.hpp"
#include "combu/text.hpp"
#include "combu/view.hpp"

namespace combu {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::string source_of(const Input& input) {
  return input.trial.empty() ? input.from : fmt::format("trial:{}{}", input.trial, input.from);
}

std::string shell_line(const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  quoted.reserve(words.size());
  for (const std::string& word : words) quoted.push_back(shell_word(word));
  return fmt::format("{}", fmt::join(quoted, " "));
}

std::string command_of(const Process& process) {
  std::vector<std::string> words = process.entrypoint.value_or(std::vector<std::string>());
  if (process.cmd) std::ranges::copy(*process.cmd, std::back_inserter(words));
  if (words.empty()) return "from the image";
  return shell_line(words);
}

// Returns the environment without COMBU_PARAM_* variables, which repeat the params.
std::vector<std::string> env_of(const Process& process) {
  std::vector<std::string> env;
  for (const auto& [name, value] : process.env)
    if (!name.starts_with("COMBU_PARAM_")) env.push_back(fmt::format("{}={}", name, shell_word(value)));
  return env;
}

std::string params_of(const Trial& trial) {
  if (trial.params.empty()) return "";
  const OrderedJson object = parse_ordered_json(trial.params);
  std::vector<std::string> params;
  for (const auto& [name, value] : object.items())
    params.push_back(fmt::format("{}={}", name, unquoted_text(value)));
  return fmt::format("{}", fmt::join(params, " "));
}

std::string slots_of(const Trial& trial) {
  std::vector<std::string> parts;
  if (!trial.slots.empty()) parts.push_back(to_string(trial.slots));
  if (trial.gpus) parts.push_back(to_string(*trial.gpus));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string recorded_attempt_text(const AttemptEntry& attempt) {
  std::string text = fmt::format("started {}", local_time(attempt.started_at));
  if (attempt.ran_at && attempt.ended_at)
    text += fmt::format(", ran {}", to_string(Seconds(*attempt.ended_at - *attempt.ran_at)));
  if (attempt.exit_code) text += fmt::format(", exit code {}", *attempt.exit_code);
  if (!attempt.reason.empty()) text += ": " + attempt.reason;
  if (!attempt.gpus.empty()) text += fmt::format(" (GPUs {})", attempt.gpus);
  return text;
}

std::string revision_text(const RunEntry& run) {
  if (run.revision.empty()) return "";
  std::string text = run.revision;
  const WorkingTree& tree = run.working_tree;
  if (!tree.diff.empty())
    text += fmt::format(", and {}{} lines of diff (`combu show --diff --run {}`)",
                        tree.is_cut ? "more than " : "", std::ranges::count(tree.diff, '\n'), run.id.text());
  else if (run.revision_dirty)
    text += ", and changes that are not recorded";
  if (!tree.untracked.empty())
    text += fmt::format(", {} untracked", number_of(tree.untracked.size(), "file"));
  if (!tree.by_index.empty())
    text += fmt::format(", {} with a git filter, compared only by the git index",
                        number_of(tree.by_index.size(), "file"));
  return text;
}

}  // namespace

void print_trial(std::ostream& out, const ShownTrial& shown) {
  std::string page;
  const auto line = [&](std::string_view title, const std::string& text) {
    if (!text.empty()) page += clean_lines(fmt::format("{:<11}{}", title, text));
  };
  const RunEntry& run = shown.run;
  const Trial& trial = shown.trial;
  const std::string reason = reason_text(shown.entry);
  line("trial", trial.name);
  line("state", fmt::format("{}{}", to_string(shown.entry.state), reason.empty() ? "" : ": " + reason));
  line("params", params_of(trial));
  line("command", command_of(trial.process));
  line("workdir", trial.process.workdir);
  line("user", trial.process.user);
  for (const std::string& one : env_of(trial.process)) line("env", one);
  line("image", trial.image);
  line("digest", shown.entry.digest);
  line("platform", trial.platform);
  line("slots", slots_of(trial));
  for (const Volume& volume : trial.container.volumes)
    line("volume", fmt::format("{}:{}{}{}", shell_word(volume.source), volume.target,
                               volume.read_only ? ":ro" : "", volume.remote ? " (remote)" : ""));
  for (std::size_t i = 0; i < trial.inputs.size(); ++i)
    line("input", fmt::format("{} at {}{}{}", source_of(trial.inputs[i]), trial.inputs[i].to,
                              shown.digest_of(i).empty() ? "" : ", ", shown.digest_of(i)));
  for (const AttemptEntry& attempt : shown.attempts)
    line(fmt::format("attempt {}", attempt.attempt), recorded_attempt_text(attempt));
  for (const MetricSummary& metric : shown.metrics)
    line("metric", fmt::format("{} {:g} (least {:g}, greatest {:g}, {})", metric.metric, metric.last,
                               metric.least, metric.greatest, number_of(metric.points, "point")));
  if (trial.metrics && shown.metrics.empty() && shown.log && shown.log->complete)
    line("metric", "none: " + words_of_none(*trial.metrics));
  if (shown.log && shown.log->passed_over > 0)
    line("metrics", fmt::format("{} points ignored: combu keeps the first {} names of metrics",
                                shown.log->passed_over, k_metrics_max));
  if (const std::size_t points = shown.points_dropped(); points > 0)
    line("metrics", fmt::format("{} points not stored: combu keeps the first {} points of an attempt", points,
                                k_kept_points_max));
  if (shown.log && shown.log->gaps > 0) line("log", gaps_text(*shown.log));
  line("outputs", shown.outputs);
  line("so far", shown.partial_outputs);
  line("run", run.id.text());
  line("experiment", run.experiment == run.file ? "" : run.experiment);
  line("file", run.file);
  if (!run.earlier.empty())
    line("version", fmt::format("{} of {}", shown.entry.revision, run.earlier.size() + 1));
  if (shown.is_equal())
    line("ran in", fmt::format("{}{}", shown.known->equal_run.text(),
                               shown.ran_in ? "" : ", which is not in this record"));
  if (shown.ran_in) {
    line("commit", revision_text(*shown.ran_in));
    line("host", shown.ran_in->machine);
    line("engine", fmt::format("{} at {}", shown.ran_in->engine.description, shown.ran_in->engine.address));
    line("person", shown.ran_in->user);
    line("program", shown.ran_in->program);
  }
  out << page;
}

namespace {

OrderedJson or_null(const std::string& text) {
  return text.empty() ? OrderedJson() : OrderedJson(text);
}

OrderedJson or_null(const std::optional<std::vector<std::string>>& words) {
  return words ? OrderedJson(*words) : OrderedJson();
}

OrderedJson parsed_or_null(const std::string& json) {
  return json.empty() ? OrderedJson() : parse_ordered_json(json);
}

OrderedJson timestamp(const std::optional<Instant>& at) {
  return at ? OrderedJson(rfc3339(*at)) : OrderedJson();
}

OrderedJson json_of(const AttemptEntry& attempt) {
  return {{"attempt", attempt.attempt},
          {"ready_at", timestamp(attempt.ready_at)},
          {"started_at", timestamp(attempt.started_at)},
          {"ran_at", timestamp(attempt.ran_at)},
          {"ended_at", timestamp(attempt.ended_at)},
          {"collected_at", timestamp(attempt.collected_at)},
          {"exit_code", attempt.exit_code ? OrderedJson(*attempt.exit_code) : OrderedJson()},
          {"reason", or_null(attempt.reason)},
          {"gpus", or_null(attempt.gpus)}};
}

}  // namespace

void print_trial_json(std::ostream& out, const ShownTrial& shown) {
  const RunEntry& run = shown.run;
  const Trial& trial = shown.trial;
  const Process& process = trial.process;
  OrderedJson env = OrderedJson::object();
  for (const auto& [name, value] : process.env) env[name] = value;
  OrderedJson attempts = OrderedJson::array();
  for (const AttemptEntry& attempt : shown.attempts) attempts.push_back(json_of(attempt));
  OrderedJson inputs = OrderedJson::array();
  for (std::size_t i = 0; i < trial.inputs.size(); ++i)
    inputs.push_back({{"from", source_of(trial.inputs[i])},
                      {"to", trial.inputs[i].to},
                      {"digest", or_null(shown.digest_of(i))}});
  OrderedJson metrics = OrderedJson::object();
  for (const MetricSummary& metric : shown.metrics)
    metrics[metric.metric] = {{"last", metric.last},
                              {"least", metric.least},
                              {"greatest", metric.greatest},
                              {"points", metric.points}};
  const RunEntry nobody;
  const RunEntry& ran_in = shown.ran_in ? *shown.ran_in : nobody;
  const WorkingTree& tree = ran_in.working_tree;
  const OrderedJson object{{"trial", trial.name},
                           {"state", to_string(shown.entry.state)},
                           {"reason", or_null(reason_text(shown.entry))},
                           {"params", parsed_or_null(trial.params)},
                           {"entrypoint", or_null(process.entrypoint)},
                           {"cmd", or_null(process.cmd)},
                           {"env", std::move(env)},
                           {"workdir", or_null(process.workdir)},
                           {"user", or_null(process.user)},
                           {"image", trial.image},
                           {"digest", or_null(shown.entry.digest)},
                           {"slots",
                            {{"cpus", static_cast<double>(trial.slots.cpus.nano) / 1e9},
                             {"memory", trial.slots.memory.count},
                             {"gpus", trial.gpus ? OrderedJson(to_string(*trial.gpus)) : OrderedJson()}}},
                           {"inputs", std::move(inputs)},
                           {"attempts", std::move(attempts)},
                           {"metrics", std::move(metrics)},
                           {"passed_over", shown.log ? shown.log->passed_over : 0},
                           {"points_not_kept", shown.points_dropped()},
                           {"log_gaps", shown.log ? shown.log->gaps : 0},
                           {"outputs", or_null(shown.outputs)},
                           {"outputs_so_far", or_null(shown.partial_outputs)},
                           {"key", shown.known ? OrderedJson{{"hash", shown.known->hash},
                                                             {"parts", parsed_or_null(shown.known->parts)}}
                                               : OrderedJson()},
                           {"equal_to", shown.is_equal() ? OrderedJson{{"run", shown.known->equal_run.text()},
                                                                       {"trial", shown.known->equal_trial}}
                                                         : OrderedJson()},
                           {"run", run.id.text()},
                           {"experiment", run.experiment},
                           {"file", run.file},
                           {"version", shown.entry.revision},
                           {"versions", run.earlier.size() + 1},
                           {"arguments", parsed_or_null(run.arguments)},
                           {"commit", or_null(ran_in.revision)},
                           {"dirty", ran_in.revision_dirty},
                           {"diff", or_null(tree.diff)},
                           {"diff_is_cut", tree.is_cut},
                           {"untracked", tree.untracked},
                           {"left_out", tree.left_out},
                           {"by_index", tree.by_index},
                           {"host", or_null(ran_in.machine)},
                           {"engine", or_null(ran_in.engine.description)},
                           {"address", or_null(ran_in.engine.address)},
                           {"person", or_null(ran_in.user)},
                           {"program", or_null(ran_in.program)}};
  out << json_text(object) << '\n';
}

}  // namespace combu
