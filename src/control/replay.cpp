#include "control/replay.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "combu/json.hpp"

namespace combu::control {
namespace {

using nlohmann::json;

constexpr std::size_t k_trials_max = 1'000'000;
constexpr std::int64_t k_number_max = std::numeric_limits<std::int64_t>::max();

std::size_t count_of(const json& value) {
  return static_cast<std::size_t>(integer_of(value, 0, k_number_max));
}

int int_of(const json& value) {
  constexpr std::int64_t k_int_max = std::numeric_limits<int>::max();
  return static_cast<int>(integer_of(value, -k_int_max, k_int_max));
}

template <class Word>
Word word_of(std::string_view text, std::size_t count) {
  if (const auto word = parse_enum<Word>(text, count)) return *word;
  throw Error(ErrorKind::refused, "",
              "the combu process that owns the run sent an unknown message: " + shortened(text));
}

Slots slots_of(const json& object) {
  constexpr double k_nano = 1e9;
  constexpr double k_cpus_max = 1e9;
  const double cpus = object.at("cpus").get<double>();
  if (!(cpus >= 0 && cpus <= k_cpus_max))
    throw Error(ErrorKind::refused, "",
                "the combu process that owns the run sent an impossible number of CPUs");
  return {.cpus = {std::llround(cpus * k_nano)},
          .memory = {integer_of(object.at("memory"), 0, k_number_max)},
          .gpus = object.at("gpus").get<std::vector<std::string>>()};
}

Preparation preparation_of(const json& line, Preparation::Kind kind) {
  return {.kind = kind,
          .name = line.at("name"),
          .done = {integer_at(line, "bytes", 0, k_number_max)},
          .total = {integer_at(line, "bytes_total", 0, k_number_max)},
          .finished = line.at("finished")};
}

// Sets the reason of `fact`, and the details of the reason, from the JSON object `end`.
void take_end(Fact& fact, const json& end) {
  fact.reason = end.at("reason");
  fact.details = {.stopper = word_of<Stopper>(end.at("stopper").get<std::string>(), k_stopper_count),
                  .outputs_fault = end.at("outputs_fault"),
                  .next = word_of<Next>(end.at("next").get<std::string>(), k_next_count),
                  .pause = Seconds(end.at("pause").get<double>()),
                  .next_why = end.at("next_why")};
}

}  // namespace

Replay::Replay(Progress& progress, Run& run) : progress_(progress), run_(run) {
  for (TrialIndex trial = 0; trial < run_.experiment.trials.size(); ++trial)
    if (const std::string& name = run_.experiment.trials[trial].name; !name.empty())
      by_name_.emplace(name, trial);
}

std::optional<int> Replay::show(const json& line) {
  if (line.contains("answer")) throw Error(ErrorKind::refused, "", line.at("text").get<std::string>());
  const std::string event = line.at("event");
  if (event == "begin") begin(line);
  if (event == "phase") progress_.phase(line.at("text").get<std::string>());
  if (event == "note") progress_.note(line.at("text").get<std::string>());
  if (event == "error") progress_.error(line.at("text").get<std::string>());
  if (event == "image") progress_.preparation(preparation_of(line, Preparation::Kind::image));
  if (event == "network") progress_.preparation(preparation_of(line, Preparation::Kind::network));
  if (event == "count")
    progress_.counted(line.at("verb").get<std::string>(), count_of(line.at("count")),
                      count_of(line.at("total")));
  if (event == "fact") show_fact(line);
  if (event == "tail") show_tail(line);
  if (event == "snapshot") progress_.snapshot(snapshot(line));
  if (event == "done") return int_of(line.at("exit_code"));
  return std::nullopt;
}

void Replay::begin(const json& line) {
  run_.id = RunId(line.at("run").get<std::string>());
  run_.experiment.name = line.at("experiment");
  run_.experiment.file = line.at("file");
  const auto trials = count_of(line.at("trials"));
  if (trials > k_trials_max || trials < by_name_.size())
    throw Error(
        ErrorKind::refused, "",
        fmt::format("the combu process that owns the run sent an impossible number of trials: {}", trials));
  run_.experiment.trials.resize(trials);
  progress_.begin(run_);
}

TrialIndex Replay::trial(const std::string& name) {
  const auto [found, is_new] = by_name_.try_emplace(name, by_name_.size());
  if (!is_new) return found->second;
  if (found->second >= run_.experiment.trials.size())
    throw Error(ErrorKind::refused, shortened(name),
                "the combu process that owns the run sent more names of trials than the run has trials");
  run_.experiment.trials[found->second].name = name;
  return found->second;
}

Fact Replay::fact(const json& line) {
  Fact fact{.trial = trial(line.at("trial")),
            .state = word_of<TrialState>(line.at("state").get<std::string>(), k_trial_state_count),
            .attempt = int_of(line.at("attempt")),
            .healthy = line.value("healthy", false),
            .exit_code = std::nullopt,
            .reason = line.value("reason", ""),
            .root = std::nullopt};
  if (line.contains("end")) take_end(fact, line["end"]);
  if (line.contains("cause")) fact.cause = word_of<Cause>(line["cause"].get<std::string>(), k_cause_count);
  if (line.contains("exit_code")) fact.exit_code = int_of(line["exit_code"]);
  if (line.contains("root")) fact.root = trial(line["root"]);
  return fact;
}

void Replay::show_fact(const json& line) {
  const Fact fact = this->fact(line);
  progress_.fact(fact);
  if (is_failure(fact)) failures_.insert_or_assign(fact.trial, fact);
}

// Shows the last log lines of a failed trial. Shows nothing if the client connected too late to receive the
// fact of the failure.
void Replay::show_tail(const json& line) {
  if (const auto failed = failures_.extract(trial(line.at("trial"))))
    progress_.failure(failed.mapped(), line.at("lines"));
}

Snapshot Replay::snapshot(const json& line) {
  Snapshot snapshot{.trials = count_of(line.at("trials")),
                    .started = count_of(line.at("started")),
                    .elapsed = Seconds(line.at("elapsed").get<double>()),
                    .left = std::nullopt,
                    .interrupted = line.at("interrupted"),
                    .settings = {.parallel_max = count_of(line.at("parallel")),
                                 .starts_in_flight_max = count_of(line.at("starts_in_flight")),
                                 .paused = line.at("paused")},
                    .capacity = std::nullopt};
  for (std::size_t i = 0; i < k_trial_state_count; ++i)
    snapshot.counts[i] = static_cast<std::size_t>(integer_at(
        line.at("counts"), std::string(to_string(static_cast<TrialState>(i))).c_str(), 0, k_number_max));
  for (const json& name : line.at("starting")) snapshot.starting.push_back(trial(name));
  if (line.contains("starts_under_way")) snapshot.starts_in_flight = count_of(line["starts_under_way"]);
  snapshot.interrupter = line.value("interrupter", "");
  if (line.contains("running"))
    for (const json& one : line["running"])
      snapshot.running.push_back(
          {.trial = trial(one.at("trial")), .age = Seconds(one.at("seconds").get<double>())});
  if (line.contains("pending"))
    for (const json& one : line["pending"])
      snapshot.pending.push_back(
          {.reason = one.at("reason"), .first = trial(one.at("trial")), .count = count_of(one.at("trials"))});
  if (line.contains("left")) snapshot.left = Seconds(line["left"].get<double>());
  if (line.contains("capacity")) {
    snapshot.capacity = slots_of(line["capacity"]);
    snapshot.held = slots_of(line.at("held"));
    snapshot.held_by_others = slots_of(line.at("held_by_others"));
  }
  return snapshot;
}

}  // namespace combu::control
