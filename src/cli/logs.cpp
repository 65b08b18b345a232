#include "app/logs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "cli/commands.hpp"
#include "cli/options.hpp"
#include "cli/output.hpp"
#include "cli/session.hpp"
#include "cli/timestamp_option.hpp"
#include "combu/json.hpp"

namespace combu {
namespace {

constexpr std::size_t k_line_max = std::size_t{1} << 20U;

struct LogsArguments {
  SelectionOptions selection;
  bool follow = false;
  std::int64_t tail = -1;
  std::string since;
  int attempt = 0;  // number of the attempt; 0 for the last attempt
  bool json = false;
};

// Prints log lines in one of three forms: unchanged (plain), with the trial's name before each line (named),
// or as JSON objects (json). Named and JSON lines have at most k_line_max bytes, so longer lines are split.
// put() and note() return false if the reader of the output has closed the pipe.
class Printer : public LogSink {
 public:
  enum class Form { plain, named, json };
  Printer(Form form, std::string trial)
      : form_(form),
        trial_(std::move(trial)),
        prefix_(form == Form::named ? escape_controls(trial_) + " | " : ""),
        out_(LogOutput::File::out, prefix_),
        err_(LogOutput::File::err, prefix_) {}

  bool put(LogStream stream, std::string_view piece) override {
    if (form_ == Form::plain) return output(stream).put(piece);
    std::string& line = lines_.at(stream == LogStream::out ? 0 : 1);
    while (!piece.empty()) {
      const std::string_view part = piece.substr(0, std::min(piece.find('\n'), k_line_max - line.size()));
      line += part;
      piece.remove_prefix(part.size());
      if (piece.empty()) break;
      const bool is_end = piece.front() == '\n';
      std::string rest = is_end ? "" : line.substr(whole_characters(line));
      line.resize(line.size() - rest.size());
      if (is_end) piece.remove_prefix(1);
      if (!print(stream, std::exchange(line, std::move(rest)))) return false;
    }
    return true;
  }

  void flush() override {
    if (!lines_[0].empty()) (void)print(LogStream::out, std::exchange(lines_[0], {}));
    if (!lines_[1].empty()) (void)print(LogStream::err, std::exchange(lines_[1], {}));
    (void)out_.end();
    (void)err_.end();
  }

  bool note(const std::string& text) override {
    return put_err(fmt::format("combu: {}: {}\n", trial_, text));
  }

 private:
  bool print(LogStream stream, const std::string& line) {
    if (form_ == Form::named) return output(stream).put(fmt::format("{}{}\n", prefix_, line));
    const nlohmann::ordered_json object{
        {"trial", trial_}, {"stream", stream == LogStream::out ? "stdout" : "stderr"}, {"line", line}};
    return put_out(json_text(object) + "\n");
  }

  LogOutput& output(LogStream stream) { return stream == LogStream::out ? out_ : err_; }

  Form form_;
  std::string trial_;
  std::string prefix_;                // prefix of a line in the form `named`
  std::array<std::string, 2> lines_;  // the incomplete line of each stream
  LogOutput out_;
  LogOutput err_;
};

LogsOptions logs_options(const LogsArguments& arguments) {
  LogsOptions options{
      .selection = arguments.selection, .wanted = {}, .attempt = arguments.attempt, .open_sink = {}};
  options.wanted.follow = arguments.follow;
  if (arguments.tail >= 0) options.wanted.tail = arguments.tail;
  if (!arguments.since.empty())
    options.wanted.since = timestamp_option("--since", arguments.since, real_clock().now());
  options.open_sink = [json = arguments.json](const std::string& trial, LogsOf of) {
    const Printer::Form text = of == LogsOf::one_trial ? Printer::Form::plain : Printer::Form::named;
    return std::make_unique<Printer>(json ? Printer::Form::json : text, trial);
  };
  return options;
}

// Throws Error(invalid) for `logs -f FILE TRIAL`: the program's option -f must precede `logs`.
void expect_no_file(const Invocation& invocation, const LogsArguments& options) {
  for (const std::string& name : options.selection.trials)
    if (options.follow && invocation.file.empty() && name.ends_with("sonnet"))
      throw Error(ErrorKind::invalid, name,
                  fmt::format("is not a trial: after `logs`, -f means --follow; put -f FILE before `logs`: "
                              "combu -f {} logs",
                              name));
}

}  // namespace

void add_logs(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command = line.add_command("logs", "Print the logs of trials");
  const auto options = std::make_shared<LogsArguments>();
  command
      .add_option("TRIAL", options->selection.trials,
                  "Only trials with these names, such as solver-a-*; default: all trials of the run")
      .type_name("");
  add_selection(command, options->selection);
  command.add_flag("-f,--follow", options->follow,
                   "Continue until the trial ends (put -f FILE before `logs`)");
  command.add_option("--tail", options->tail, "Only the last N lines").type_name("N").count_of("lines");
  command
      .add_option("--since", options->since,
                  "Only lines since this moment, such as 10m (ago) or 2026-01-31T12:00:00Z")
      .type_name("TIME");
  command.add_option("--attempt", options->attempt, "The log of attempt N; default: the last attempt")
      .type_name("N")
      .positive();
  command.add_flag("--json", options->json, "Print one JSON object for each line of the log");
  command.footer("Example:\n  combu -f experiment.jsonnet logs -f --tail 100 solver-a-1");
  command.callback([&invocation, &action, options] {
    action = [&invocation, options] {
      expect_no_file(invocation, *options);
      const Invocation meant = for_logs(invocation, options->selection);
      return in_session(meant,
                        [&](Session& session) { return logs(session, meant, logs_options(*options)); });
    };
  });
}

}  // namespace combu
