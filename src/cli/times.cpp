#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/recorded.hpp"

namespace combu {
namespace {

struct TimesOptions {
  std::string run;
  std::string trial;
  bool json = false;
};

// Where an attempt's time has gone, in order.
constexpr std::array<std::string_view, 4> k_stretches{"waiting for others", "waiting for a place", "starting",
                                                      "running"};
constexpr std::array<const char*, 4> k_keys{"needs", "place", "starting", "running"};
using Stretches = std::array<std::optional<Seconds>, 4>;

// `began`: of the run; only a first attempt has waited for others since then.
Stretches stretches_of(const AttemptEntry& entry, Instant began) {
  const auto between = [](Instant from, Instant to) {
    return Seconds(std::max(to - from, Instant::duration(0)));
  };
  Stretches stretches;
  if (entry.attempt == 1) stretches[0] = between(began, entry.ready_at);
  stretches[1] = between(entry.ready_at, entry.started_at);
  if (entry.ran_at) stretches[2] = between(entry.started_at, *entry.ran_at);
  if (entry.ran_at && entry.ended_at) stretches[3] = between(*entry.ran_at, *entry.ended_at);
  return stretches;
}

std::string text_of(const std::optional<Seconds>& time) {
  return time ? to_string(*time) : "-";
}

bool print_attempts(const std::vector<AttemptEntry>& attempts, Instant began) {
  if (!put_out(fmt::format("{:<24} {:>7} {:>18} {:>19} {:>10} {:>10}\n", "TRIAL", "ATTEMPT",
                           "WAITING FOR OTHERS", "WAITING FOR A PLACE", "STARTING", "RUNNING")))
    return false;
  return std::ranges::all_of(attempts, [&](const AttemptEntry& entry) {
    const Stretches times = stretches_of(entry, began);
    return put_out(fmt::format("{:<24} {:>7} {:>18} {:>19} {:>10} {:>10}\n", entry.trial, entry.attempt,
                               text_of(times[0]), text_of(times[1]), text_of(times[2]), text_of(times[3])));
  });
}

bool print_attempts_json(const std::vector<AttemptEntry>& attempts, Instant began) {
  return std::ranges::all_of(attempts, [&](const AttemptEntry& entry) {
    const Stretches times = stretches_of(entry, began);
    nlohmann::ordered_json object{{"trial", entry.trial}, {"attempt", entry.attempt}};
    for (std::size_t i = 0; i < times.size(); ++i)
      if (times[i]) object[k_keys[i]] = times[i]->count();
    return put_out(object.dump() + "\n");
  });
}

bool print_sum(const RunEntry& entry, const std::vector<AttemptEntry>& attempts) {
  const Seconds whole(entry.ended_at.value_or(real_clock().now()) - entry.began_at);
  if (!put_out(fmt::format("run {}: {} attempts in {}\n{:<20} {:>10} {:>10} {:>10} {:>10}\n", entry.id.text(),
                           attempts.size(), to_string(whole), "", "MEDIAN", "90 %", "MOST", "SUM")))
    return false;
  for (std::size_t i = 0; i < k_stretches.size(); ++i) {
    std::vector<Seconds> times;
    Seconds sum{0};
    for (const AttemptEntry& attempt : attempts) {
      const auto time = stretches_of(attempt, entry.began_at)[i];
      if (!time) continue;
      times.push_back(*time);
      sum += *time;
    }
    if (times.empty()) continue;
    std::ranges::sort(times);
    if (!put_out(fmt::format("{:<20} {:>10} {:>10} {:>10} {:>10}\n", k_stretches[i],
                             to_string(times[times.size() / 2]), to_string(times[times.size() * 9 / 10]),
                             to_string(times.back()), to_string(sum))))
      return false;
  }
  return true;
}

int times(const Invocation& invocation, const TimesOptions& options) {
  Record record = open_record(invocation);
  const RunEntry entry = find_run(record, invocation, options.run);
  const std::vector<AttemptEntry> attempts = record.attempts(entry.id, options.trial);
  if (attempts.empty() && !options.trial.empty())
    throw Error(ErrorKind::not_found, options.trial, "has no attempt in run " + entry.id.text());
  if (options.json) {
    (void)print_attempts_json(attempts, entry.began_at);
  } else if (!options.trial.empty()) {
    (void)print_attempts(attempts, entry.began_at);
  } else {
    (void)print_sum(entry, attempts);
  }
  return 0;
}

}  // namespace

void add_times(CLI::App& app, const Invocation& invocation, Action& action) {
  CLI::App* command = app.add_subcommand("times", "Tell where the last run's time has gone, from the record");
  const auto options = std::make_shared<TimesOptions>();
  add_run_option(*command, options->run);
  command->add_flag("--json", options->json, "Each attempt's times in seconds, one JSON object a line");
  command->add_option("TRIAL", options->trial, "Of this trial's attempts")->type_name("");
  command->footer("Example:\n  combu -f experiment.jsonnet times");
  command->callback([&invocation, &action, options] {
    action = [&invocation, options] { return times(invocation, *options); };
  });
}

}  // namespace combu
