#include "app/stop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "app/reconcile.hpp"
#include "combu/control.hpp"
#include "combu/run.hpp"
#include "combu/session.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

constexpr std::size_t k_stops_in_flight = 128;  // a high limit, since each stop may take a whole grace period

constexpr Seconds k_end_patience{60};

struct Stopped {
  std::size_t count = 0;
  std::map<RunId, TrialNames> trials;
  std::vector<Error> errors;
};

// Announces the stop to the owners of the runs, so that the owners record who stopped the trials.
void announce(Session& session, const Invocation& invocation, const std::vector<Observation>& attempts) {
  constexpr std::size_t k_named_max = 200;  // the owner's channel limits the size of a request
  const Caller caller = caller_for(invocation);
  std::map<RunId, TrialNames> names;
  for (const Observation& seen : attempts) names[seen.key.run].push_back(seen.key.trial);
  for (const auto& [run, trials] : names) {
    if (!owner_pid(run, caller)) continue;
    try {
      ControlClient client(channel_path(run, caller));
      for (auto first = trials.begin(); first != trials.end();) {
        const auto count = std::min<std::ptrdiff_t>(k_named_max, trials.end() - first);
        const Adjust adjust{.stopping = {first, first + count}, .stopper = user_name()};
        (void)client.adjust(adjust, session.stop());
        first += count;
      }
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::cancelled) throw;
      // Ignore the error: the owner has just ended, or will record the stop without the user's name.
    }
  }
}

Stopped stop_all(Session& session, const std::vector<Observation>& attempts, const StopOptions& options) {
  Stopped stopped;
  std::mutex mutex;
  in_parallel(attempts.size(), k_stops_in_flight, [&](std::size_t i) {
    std::optional<Error> failed;
    try {
      session.engine().stop(attempts[i].key, options.grace, session.stop());
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::cancelled) throw;
      failed = error;
    }
    std::scoped_lock lock(mutex);
    if (failed) {
      stopped.errors.emplace_back(failed->kind(), attempts[i].key.trial, failed->message());
    } else {
      stopped.trials[attempts[i].key.run].push_back(attempts[i].key.trial);
      session.progress().counted("stopped", ++stopped.count, attempts.size());
    }
    if (options.on_stopped) options.on_stopped(attempts[i], failed);
  });
  return stopped;
}

// Waits until the stopped attempts have ended, so that the record can have their ends. Gives up after a
// minute.
void await_ends(Session& session, const Stopped& stopped) {
  const Patience patience(session.stop(), k_end_patience);
  try {
    for (const auto& [run, trials] : stopped.trials)
      (void)await_end(
          session.engine(), {.run = run, .trials = trials}, [](const Observation&) {}, patience.token());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::cancelled || session.stop().stop_requested()) throw;
  }
}

}  // namespace

Result stop(Session& session, const Invocation& invocation, const StopOptions& options) {
  auto [attempts, missing] = choose_attempts(session, invocation, options.selection);
  const bool any_chosen = !attempts.empty() || missing.empty();
  // Announce the stop also for trials that wait for a retry and have no running attempt.
  announce(session, invocation, attempts);
  std::erase_if(attempts, [](const Observation& seen) { return !is_alive(seen); });
  const Stopped stopped = stop_all(session, attempts, options);
  if (stopped.errors.empty()) await_ends(session, stopped);
  session.progress().end();
  reconcile_runs_or_note(session, invocation, stopped.trials);
  for (const Error& error : stopped.errors)
    session.progress().error(fmt::format("not stopped: {}", error.what()));
  if (any_chosen)
    session.progress().note(
        attempts.empty() ? "nothing runs" : fmt::format("stopped {} of {}", stopped.count, attempts.size()));
  if (attempts.empty())
    if (const std::string hint = note_of_other_engine(invocation, session.engine_address()); !hint.empty())
      session.progress().note(hint);
  for (const Error& error : missing) session.progress().error(fmt::format("combu: {}", error.what()));
  return std::max(result_of(stopped.errors), result_of(missing));
}

}  // namespace combu
