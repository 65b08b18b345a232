#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "app/reconcile.hpp"
#include "app/runs.hpp"
#include "app/selection.hpp"
#include "cli/commands.hpp"
#include "cli/options.hpp"
#include "cli/output.hpp"
#include "cli/session.hpp"
#include "combu/control.hpp"
#include "combu/json.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

constexpr std::size_t k_stops_in_flight = 128;  // each takes its grace

struct StopOptions {
  SelectionOptions selection;
  std::string grace;
  bool json = false;
};

struct Stopped {
  std::size_t count = 0;
  std::map<RunId, TrialNames> trials;
  std::vector<Error> errors;
};

std::string json_line(const Sighting& sighting, const std::optional<Error>& error) {
  nlohmann::ordered_json object{{"experiment", sighting.experiment},
                                {"run", sighting.key.run.text()},
                                {"trial", sighting.key.trial},
                                {"attempt", sighting.key.attempt},
                                {"stopped", !error}};
  if (error) object["error"] = error->message();
  return json_text(object) + "\n";
}

// The processes that are at work on them put it on record.
void announce(Session& session, const Invocation& invocation, const std::vector<Sighting>& attempts) {
  constexpr std::size_t k_named_max = 200;  // a request has its bounds
  const Caller caller = caller_for(invocation);
  std::map<RunId, TrialNames> names;
  for (const Sighting& seen : attempts) names[seen.key.run].push_back(seen.key.trial);
  for (const auto& [run, trials] : names) {
    if (!process_at_work(run, caller)) continue;
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
      // Its process has just ended, or will tell that they were stopped, but not by whom.
    }
  }
}

Stopped stop_all(Session& session, const std::vector<Sighting>& attempts, std::optional<Seconds> grace,
                 bool json) {
  Stopped stopped;
  std::mutex mutex;
  in_parallel(attempts.size(), k_stops_in_flight, [&](std::size_t i) {
    std::optional<Error> failed;
    try {
      session.engine().stop(attempts[i].key, grace, session.stop());
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
    if (json) (void)put_out(json_line(attempts[i], failed));
  });
  return stopped;
}

Result stop(Session& session, const Invocation& invocation, const StopOptions& options) {
  std::optional<Seconds> grace;
  if (!options.grace.empty()) grace = duration_option("--grace", options.grace);
  auto [attempts, missing] = choose_attempts(session, invocation, options.selection);
  const bool any_chosen = !attempts.empty() || missing.empty();
  // Also what waits for its next attempt.
  announce(session, invocation, attempts);
  std::erase_if(attempts, [](const Sighting& seen) { return seen.phase != Phase::running; });
  const Stopped stopped = stop_all(session, attempts, grace, options.json);
  session.progress().end();
  take_in_all(session, invocation, stopped.trials);
  for (const Error& error : stopped.errors)
    session.progress().error(fmt::format("not stopped: {}", error.what()));
  if (any_chosen)
    session.progress().note(
        attempts.empty() ? "nothing runs" : fmt::format("stopped {} of {}", stopped.count, attempts.size()));
  for (const Error& error : missing) session.progress().error(error_line(error, session.engine_source()));
  return std::max(result_of(stopped.errors), result_of(missing));
}

}  // namespace

void add_stop(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command =
      line.add_command("stop", "Ask trials to end, and end them when their grace is over; keep them");
  const auto options = std::make_shared<StopOptions>();
  command.add_option("TRIAL", options->selection.trials, "Only trials of these names (solver-a-*); else all")
      .type_name("");
  add_selection(command, options->selection);
  command.add_option("--grace", options->grace, "From its stop signal to its end: 10s (else the trial's own)")
      .type_name("TIME");
  command.add_flag("--json", options->json, "One JSON object a line");
  command.footer("Example:\n  combu -f experiment.jsonnet stop --grace 30s 'solver-a-*'");
  command.callback([&invocation, &action, options] {
    action = [&invocation, options] {
      const Invocation meant = for_selection(invocation, options->selection);
      return in_session(meant, [&](Session& session) { return stop(session, meant, *options); });
    };
  });
}

}  // namespace combu
