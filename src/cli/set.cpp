#include <fmt/format.h>

#include <memory>
#include <string_view>
#include <vector>

#include "app/adjust.hpp"
#include "cli/commands.hpp"
#include "cli/session.hpp"
#include "combu/text.hpp"

namespace combu {
namespace {

std::size_t whole_number(const std::string& setting, std::string_view text) {
  const auto number = parse_number<std::size_t>(text);
  if (!number) throw Error(ErrorKind::invalid, setting, "the value must be a whole number");
  return *number;
}

struct Wanted {
  Adjust adjust;
  std::string run;  // a run's id; empty for the last run of the file
};

// Parses words of the form "parallel=20". A word without "=" is a run's id.
Wanted wanted_by(const std::vector<std::string>& words) {
  Wanted wanted;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    const std::string_view name = std::string_view(word).substr(0, equals);
    const std::string_view value =
        std::string_view(word).substr(equals == std::string::npos ? word.size() : equals + 1);
    if (equals == std::string::npos && wanted.run.empty()) {
      wanted.run = word;
    } else if (name == "parallel" && equals != std::string::npos) {
      wanted.adjust.parallel_max = whole_number(word, value);
    } else if (name == "starts_in_flight" && equals != std::string::npos) {
      wanted.adjust.starts_in_flight_max = whole_number(word, value);
    } else {
      throw Error(ErrorKind::invalid, word, "is not a setting; use parallel=N or starts_in_flight=N");
    }
  }
  if (!wanted.adjust.parallel_max && !wanted.adjust.starts_in_flight_max)
    throw Error(ErrorKind::invalid, "set", "a setting must be given; use parallel=N or starts_in_flight=N");
  return wanted;
}

// Sends the change to the process that owns the run. Prints the text that `line` returns for the resulting
// settings.
template <class Line>
int adjust(const Invocation& invocation, const Wanted& wanted, const Line& line) {
  const Adjusted adjusted = adjust_run(invocation, wanted.run, wanted.adjust);
  open_progress(invocation)
      ->note(fmt::format("run {} {}", adjusted.run.text(), line(adjusted.run, adjusted.settings)));
  return 0;
}

std::string settings_line(const RunId& /*run*/, const Settings& settings) {
  const std::string parallel =
      settings.parallel_max == 0 ? "0 (no limit)" : fmt::format("{}", settings.parallel_max);
  return fmt::format("has the settings parallel={}, starts_in_flight={}{}", parallel,
                     settings.starts_in_flight_max, settings.paused ? ", and is paused" : "");
}

std::string pause_line(const RunId& run, const Settings& settings) {
  return settings.paused
             ? fmt::format("is paused: nothing starts until `combu unpause {}`; running trials continue",
                           run.text())
             : "starts trials";
}

void add_pausing(CliCommand command, const Invocation& invocation, Action& action, bool paused) {
  const auto run = std::make_shared<std::string>();
  command.add_option("RUN", *run, "The run's id; default: the file's newest run that a process owns")
      .type_name("");
  command.footer(fmt::format("Example:\n  combu -f experiment.jsonnet {}", command.name()));
  command.callback([&invocation, &action, run, paused] {
    action = [&invocation, run, paused] {
      return adjust(invocation, {.adjust = {.paused = paused}, .run = *run}, pause_line);
    };
  });
}

}  // namespace

void add_set(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command = line.add_command("set", "Change the limits of a run that another combu process owns");
  const auto words = std::make_shared<std::vector<std::string>>();
  command
      .add_option(
          "SETTING", *words,
          "parallel=N (0: no limit) or starts_in_flight=N, or both; and the run's id, default: the file's "
          "newest run that a process owns")
      .required()
      .type_name("");
  command.footer("Example:\n  combu -f experiment.jsonnet set parallel=20");
  command.callback([&invocation, &action, words] {
    action = [&invocation, words] { return adjust(invocation, wanted_by(*words), settings_line); };
  });
}

void add_pause(CommandLine& line, const Invocation& invocation, Action& action) {
  add_pausing(
      line.add_command("pause", "Start no more trials of a run until `unpause`; running trials continue"),
      invocation, action, true);
}

void add_unpause(CommandLine& line, const Invocation& invocation, Action& action) {
  add_pausing(line.add_command("unpause", "Continue to start the trials of a paused run"), invocation, action,
              false);
}

}  // namespace combu
