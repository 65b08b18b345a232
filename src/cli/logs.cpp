#include <algorithm>
#include <memory>
#include <stop_token>

#include "cli/commands.hpp"
#include "cli/moment.hpp"
#include "cli/output.hpp"
#include "cli/selection.hpp"

namespace combu {
namespace {

struct LogsOptions {
  SelectionOptions selection;
  std::string trial;
  bool follow = false;
  std::int64_t tail = -1;
  std::string since;
};

// Of several runs and attempts of a trial the newest is meant.
bool is_older(const Sighting& left, const Sighting& right) {
  if (left.created_at != right.created_at) return left.created_at < right.created_at;
  return left.key.attempt < right.key.attempt;
}

LogOptions log_options(const LogsOptions& options) {
  LogOptions out{.follow = options.follow, .tail = std::nullopt, .since = std::nullopt};
  if (options.tail >= 0) out.tail = options.tail;
  if (!options.since.empty()) out.since = parse_moment(options.since, real_clock().now());
  return out;
}

int logs(Session& session, const Invocation& invocation, const LogsOptions& options) {
  const LogOptions wanted = log_options(options);
  SelectionOptions selection = options.selection;
  selection.trials = {options.trial};
  const auto attempts = chosen_attempts(session, invocation, selection);
  const Key& key = std::max_element(attempts.begin(), attempts.end(), is_older)->key;

  std::stop_source enough;
  const std::stop_callback on_stop(session.stop(), [&enough] { enough.request_stop(); });
  bool reader_has_gone = false;
  const auto tell = [&](LogStream stream, std::string_view piece) {
    if (reader_has_gone || (stream == LogStream::out ? put_out(piece) : put_err(piece))) return;
    reader_has_gone = true;
    enough.request_stop();
  };
  try {
    session.engine().logs(key, wanted, tell, enough.get_token());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::cancelled || !reader_has_gone) throw;
  }
  return 0;
}

}  // namespace

void add_logs(CLI::App& app, const Invocation& invocation, Action& action) {
  CLI::App* command = app.add_subcommand("logs", "Show what a trial has written");
  const auto options = std::make_shared<LogsOptions>();
  command->add_option("TRIAL", options->trial, "The trial's name")->required()->type_name("");
  add_selection(*command, options->selection);
  command->add_flag("-f,--follow", options->follow,
                    "Go on until it ends (the experiment's -f stands before `logs`)");
  command->add_option("--tail", options->tail, "Only its last lines")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--since", options->since, "Only what came since then: 10m, or 2026-01-31T12:00:00Z")
      ->type_name("TIME");
  command->footer("Example:\n  combu -f experiment.jsonnet logs -f --tail 100 solver-a-1");
  command->callback([&invocation, &action, options] {
    action = [&invocation, options] {
      return in_session(invocation, [&](Session& session) { return logs(session, invocation, *options); });
    };
  });
}

}  // namespace combu
