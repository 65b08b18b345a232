#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <stop_token>
#include <utility>

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
  bool json = false;
};

// Where a log goes. False when the reader has gone.
using LogOut = std::function<bool(LogStream, std::string_view)>;

bool put_as_it_is(LogStream stream, std::string_view piece) {
  return stream == LogStream::out ? put_out(piece) : put_err(piece);
}

// One JSON object a line of the log; a last line without an end of line is told by flush().
class JsonLog {
 public:
  explicit JsonLog(std::string trial) : trial_(std::move(trial)) {}

  bool put(LogStream stream, std::string_view piece) {
    std::string& line = lines_.at(stream == LogStream::out ? 0 : 1);
    for (std::size_t end = piece.find('\n'); end != std::string_view::npos; end = piece.find('\n')) {
      line += piece.substr(0, end);
      piece.remove_prefix(end + 1);
      if (!tell(stream, line)) return false;
      line.clear();
    }
    line += piece;
    return true;
  }

  void flush() {
    if (!lines_[0].empty()) (void)tell(LogStream::out, lines_[0]);
    if (!lines_[1].empty()) (void)tell(LogStream::err, lines_[1]);
  }

 private:
  bool tell(LogStream stream, const std::string& line) {
    const nlohmann::ordered_json object{
        {"trial", trial_}, {"stream", stream == LogStream::out ? "stdout" : "stderr"}, {"line", line}};
    return put_out(object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  }

  std::string trial_;
  std::array<std::string, 2> lines_;  // not ended yet, by stream
};

// Of several runs and attempts of a trial the newest is meant.
bool is_older(const Sighting& left, const Sighting& right) {
  if (left.created_at != right.created_at) return left.created_at < right.created_at;
  return left.key.attempt < right.key.attempt;
}

LogOptions log_options(const LogsOptions& options) {
  LogOptions out{.follow = options.follow, .tail = std::nullopt, .since = std::nullopt};
  if (options.tail >= 0) out.tail = options.tail;
  if (!options.since.empty()) out.since = moment_option("--since", options.since, real_clock().now());
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
  JsonLog json(options.trial);
  const LogOut put = options.json
                         ? LogOut([&json](auto stream, auto piece) { return json.put(stream, piece); })
                         : LogOut(put_as_it_is);
  const auto tell = [&](const LogPiece& piece) {
    if (reader_has_gone || put(piece.stream, piece.text)) return;
    reader_has_gone = true;
    enough.request_stop();
  };
  try {
    session.engine().logs(key, wanted, tell, enough.get_token());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::cancelled || !reader_has_gone) throw;
  }
  if (!reader_has_gone) json.flush();
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
      ->check([](const std::string& text) {
        return text.empty() || text.find_first_not_of("0123456789") != std::string::npos || text.size() > 9
                   ? "must be a number of lines, not " + text
                   : std::string();
      });
  command->add_option("--since", options->since, "Only what came since then: 10m, or 2026-01-31T12:00:00Z")
      ->type_name("TIME");
  command->add_flag("--json", options->json, "One JSON object for each line of it");
  command->footer("Example:\n  combu -f experiment.jsonnet logs -f --tail 100 solver-a-1");
  command->callback([&invocation, &action, options] {
    action = [&invocation, options] {
      return in_session(invocation, [&](Session& session) { return logs(session, invocation, *options); });
    };
  });
}

}  // namespace combu
