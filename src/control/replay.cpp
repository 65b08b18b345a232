#include "control/replay.hpp"

#include <cmath>

#include "combu/json.hpp"

namespace combu::control {
namespace {

using nlohmann::json;

template <class Word>
Word word_of(std::string_view text, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    if (to_string(static_cast<Word>(i)) == text) return static_cast<Word>(i);
  throw Error(ErrorKind::refused, "",
              "the run's process uses a word that is not known here: " + shortened(text));
}

Slots slots_of(const json& object) {
  constexpr double k_nano = 1e9;
  return {.cpus = {std::llround(object.at("cpus").get<double>() * k_nano)},
          .memory = {object.at("memory").get<std::int64_t>()},
          .gpus = object.at("gpus").get<std::vector<std::string>>()};
}

Preparation preparation_of(const json& line, Preparation::Kind kind) {
  return {.kind = kind,
          .name = line.at("name"),
          .done = {line.value("bytes", std::int64_t{0})},
          .total = {line.value("bytes_total", std::int64_t{0})},
          .finished = line.at("finished")};
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
    progress_.counted(line.at("verb").get<std::string>(), line.at("count"), line.at("total"));
  if (event == "fact") show_fact(line);
  if (event == "tail") show_tail(line);
  if (event == "snapshot") progress_.snapshot(snapshot(line));
  if (event == "done") return line.at("exit_code").get<int>();
  return std::nullopt;
}

void Replay::begin(const json& line) {
  run_.id = RunId(line.at("run").get<std::string>());
  run_.experiment.name = line.at("experiment");
  run_.experiment.file = line.at("file");
  run_.experiment.trials.resize(line.at("trials").get<std::size_t>());
  progress_.begin(run_);
}

TrialIndex Replay::trial(const std::string& name) {
  const auto [found, is_new] = by_name_.try_emplace(name, by_name_.size());
  if (!is_new) return found->second;
  if (found->second >= run_.experiment.trials.size())
    throw Error(ErrorKind::refused, shortened(name), "is of more trials than the run has");
  run_.experiment.trials[found->second].name = name;
  return found->second;
}

Fact Replay::fact(const json& line) {
  Fact fact{.trial = trial(line.at("trial")),
            .state = word_of<TrialState>(line.at("state").get<std::string>(), k_trial_state_count),
            .attempt = line.at("attempt"),
            .healthy = line.value("healthy", false),
            .exit_code = std::nullopt,
            .reason = line.value("reason", ""),
            .root = std::nullopt};
  if (line.contains("cause")) fact.cause = word_of<Cause>(line["cause"].get<std::string>(), k_cause_count);
  if (line.contains("exit_code")) fact.exit_code = line["exit_code"].get<int>();
  if (line.contains("root")) fact.root = trial(line["root"]);
  return fact;
}

void Replay::show_fact(const json& line) {
  const Fact fact = this->fact(line);
  progress_.fact(fact);
  if (is_failure(fact)) failures_.insert_or_assign(fact.trial, fact);
}

// A follower that comes late may miss the fact.
void Replay::show_tail(const json& line) {
  if (const auto failed = failures_.extract(trial(line.at("trial"))))
    progress_.failure(failed.mapped(), line.at("lines"));
}

Snapshot Replay::snapshot(const json& line) {
  Snapshot snapshot{.trials = line.at("trials"),
                    .started = line.at("started"),
                    .elapsed = Seconds(line.at("elapsed").get<double>()),
                    .left = std::nullopt,
                    .interrupted = line.at("interrupted"),
                    .settings = {.parallel_max = line.at("parallel"),
                                 .starts_in_flight_max = line.at("starts_in_flight"),
                                 .paused = line.at("paused")},
                    .capacity = std::nullopt};
  for (std::size_t i = 0; i < k_trial_state_count; ++i)
    snapshot.counts[i] = line.at("counts").value(std::string(to_string(static_cast<TrialState>(i))), 0U);
  for (const json& name : line.at("starting")) snapshot.starting.push_back(trial(name));
  snapshot.interrupter = line.value("interrupter", "");
  if (line.contains("running"))
    for (const json& one : line["running"])
      snapshot.running.push_back(
          {.trial = trial(one.at("trial")), .age = Seconds(one.at("seconds").get<double>())});
  if (line.contains("left")) snapshot.left = Seconds(line["left"].get<double>());
  if (line.contains("capacity")) {
    snapshot.capacity = slots_of(line["capacity"]);
    snapshot.held = slots_of(line.at("held"));
    snapshot.held_by_others = slots_of(line.at("held_by_others"));
  }
  return snapshot;
}

}  // namespace combu::control
