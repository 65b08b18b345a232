#include "cli/kept_logs.hpp"

#include <fmt/format.h>

#include <mutex>
#include <unordered_map>

#include "cli/load.hpp"

namespace combu {
namespace {

constexpr std::size_t k_width = 8;

}  // namespace

std::unique_ptr<Telemetry> open_telemetry(Session& session, const std::string& folder, const RunId& run) {
  try {
    return std::make_unique<Telemetry>(folder, run);
  } catch (const Error& error) {
    session.progress().error(fmt::format("logs and metrics are not kept: {}", error.what()));
    return nullptr;
  }
}

void keep_logs(Session& session, Record& record, const std::string& folder, const RunId& run,
               const std::vector<Sighting>& attempts, Containers containers) {
  std::vector<const Sighting*> missing;
  for (const Sighting& seen : attempts)
    if (seen.key.run == run && (seen.phase == Phase::running || seen.phase == Phase::ended))
      missing.push_back(&seen);
  if (missing.empty()) return;
  Telemetry telemetry(folder, run);
  std::erase_if(missing, [&](const Sighting* seen) {
    const auto kept = telemetry.log(seen->key.trial, seen->key.attempt);
    return kept && kept->complete;
  });
  if (missing.empty()) return;
  const Loaded loaded = load(record, run);
  std::unordered_map<std::string_view, const Trial*> trials;
  for (const Trial& trial : loaded.run.experiment.trials) trials.emplace(trial.name, &trial);
  std::mutex telling;
  const auto take_all = [&] {
    in_parallel(missing.size(), k_width, [&](std::size_t index) {
      const Sighting& seen = *missing[index];
      const auto trial = trials.find(seen.key.trial);
      if (trial == trials.end()) return;
      const bool is_last = containers == Containers::about_to_go || seen.phase == Phase::ended;
      try {
        for (const std::string& note :
             take_logs(session.engine(), seen.key, *trial->second, is_last ? LogEnd::complete : LogEnd::open,
                       telemetry, session.stop())) {
          const std::scoped_lock lock(telling);
          session.progress().note(fmt::format("{}: {}", seen.key.trial, note));
        }
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::not_found) throw;
      }
    });
  };
  take_all();
  if (containers == Containers::about_to_go) return;
  // The last lines of what still writes are sure to be in order when they are seen for the second time.
  std::erase_if(missing, [](const Sighting* seen) { return seen->phase == Phase::ended; });
  if (missing.empty()) return;
  real_clock().wait(2 * k_log_disorder_max, session.stop());
  take_all();
}

}  // namespace combu
