#include "app/run_telemetry.hpp"

#include <fmt/format.h>

#include <mutex>
#include <unordered_map>

#include "app/load.hpp"

namespace combu {
namespace {

constexpr std::size_t k_width = 8;
constexpr std::size_t k_last_lines_max = 20'000;
constexpr std::size_t k_lines_looked_at = 5;
constexpr std::size_t k_text_looked_at_max = std::size_t{64} << 10U;

}  // namespace

std::unique_ptr<Telemetry> open_telemetry(Session& session, const std::string& folder, const RunId& run) {
  try {
    return std::make_unique<Telemetry>(folder, run);
  } catch (const Error& error) {
    session.progress().error(fmt::format("logs and metrics are not stored: {}", error.what()));
    return nullptr;
  }
}

std::unique_ptr<Telemetry> open_telemetry_to_read(const RunId& run, const std::string& folder) {
  try {
    if (Telemetry::exists(folder, run))
      return std::make_unique<Telemetry>(folder, run, Telemetry::Use::reading);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): a reader works without logs
  }
  return nullptr;
}

LastLine last_lines_in(Telemetry* telemetry) {
  if (telemetry == nullptr) return {};
  return [telemetry, left = k_last_lines_max](const std::string& trial, int attempt) mutable -> std::string {
    if (left == 0) return "";
    --left;
    std::string text;
    const auto add = [&](const LogPiece& piece) {
      append_to_tail(text, piece.text, k_text_looked_at_max);
      return true;
    };
    try {
      telemetry->read_log(trial, attempt, k_lines_looked_at, add);
    } catch (const Error&) {
      return "";
    }
    return last_line_of(text);
  };
}

int telemetry_attempt(const TrialEntry& entry) {
  return entry.state == TrialState::skipped ? k_adopted : entry.attempt;
}

void note_silent_trials(Session& session, const Experiment& experiment, const Outcome& outcome,
                        Telemetry& telemetry) {
  std::unordered_map<std::string_view, const Trial*> expected;
  for (const Trial& trial : experiment.trials)
    if (trial.metrics) expected.emplace(trial.name, &trial);
  for (const Fact& fact : outcome.unsuccessful) expected.erase(experiment.trials[fact.trial].name);
  for (const TrialIndex running : outcome.running) expected.erase(experiment.trials[running].name);
  if (expected.empty()) return;
  try {
    std::vector<std::string> silent = telemetry.silent();
    std::erase_if(silent, [&](const std::string& trial) { return !expected.contains(trial); });
    if (silent.empty()) return;
    const std::string others = silent.size() == 1 ? "" : fmt::format(", nor did {} more", silent.size() - 1);
    session.progress().note(fmt::format("{} reported no metric{}: {}", silent.front(), others,
                                        words_of_none(*expected.at(silent.front())->metrics)));
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the read error has been reported
  }
}

Uncollected save_logs(Session& session, Record& record, const std::string& folder, const RunId& run,
                      const std::vector<Observation>& attempts, Containers containers) {
  Uncollected failed;
  std::vector<const Observation*> missing;
  for (const Observation& seen : attempts)
    if (seen.key.run == run && (seen.phase == Phase::running || seen.phase == Phase::ended))
      missing.push_back(&seen);
  if (missing.empty()) return failed;
  Telemetry telemetry(folder, run);
  std::erase_if(missing, [&](const Observation* seen) {
    const auto kept = telemetry.log(seen->key.trial, seen->key.attempt);
    return kept && kept->complete;
  });
  if (missing.empty()) return failed;
  const Loaded loaded = load(record, run);
  std::unordered_map<std::string_view, const Trial*> trials;
  for (const Trial& trial : loaded.run.experiment.trials) trials.emplace(trial.name, &trial);
  std::mutex telling;
  const auto take_all = [&] {
    in_parallel(missing.size(), k_width, [&](std::size_t index) {
      const Observation& seen = *missing[index];
      const auto trial = trials.find(seen.key.trial);
      if (trial == trials.end()) return;
      const bool is_last = containers == Containers::about_to_go || seen.phase == Phase::ended;
      try {
        for (const std::string& note :
             ingest_logs(session.engine(), seen.key, *trial->second,
                         is_last ? LogEnd::complete : LogEnd::open, telemetry, session.stop())) {
          const std::scoped_lock lock(telling);
          session.progress().note(fmt::format("{}: {}", seen.key.trial, note));
        }
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::cancelled) throw;
        if (error.kind() == ErrorKind::not_found) return;
        const std::scoped_lock lock(telling);
        failed.insert_or_assign(seen.key, fmt::format("the log cannot be stored: {}", error.what()));
      }
    });
  };
  take_all();
  if (containers == Containers::about_to_go) return failed;
  // The reading above may have stored the last lines of a running attempt in the wrong order. The reading
  // below stores them in the right order.
  std::erase_if(missing, [](const Observation* seen) { return seen->phase == Phase::ended; });
  if (missing.empty()) return failed;
  real_clock().wait(2 * k_log_disorder_max, session.stop());
  for (const Observation* seen : missing) failed.erase(seen->key);
  take_all();
  return failed;
}

void note_unsaved_logs(Session& session, const Uncollected& unkept) {
  if (unkept.empty()) return;
  const auto& [key, why] = *unkept.begin();
  const std::size_t others = unkept.size() - 1;
  session.progress().note(
      fmt::format("{}: {}{}", key.trial, why, others == 0 ? "" : fmt::format(" (and {} more)", others)));
}

}  // namespace combu
