#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "app/history.hpp"
#include "cli/commands.hpp"
#include "cli/options.hpp"
#include "cli/output.hpp"
#include "combu/analysis.hpp"
#include "combu/json.hpp"
#include "combu/text.hpp"

namespace combu {
namespace {

struct TimesOptions {
  HistoryOptions history;
  std::int64_t limit = -1;
  bool json = false;
};

struct Stretch {
  const char* title;
  const char* head;  // of its column
  const char* key;
};
// By AttemptPart.
constexpr std::array<Stretch, k_attempt_part_count> k_stretches{{{"waiting for others", "OTHERS", "needs"},
                                                                 {"waiting to retry", "RETRY", "retry"},
                                                                 {"waiting for a place", "PLACE", "place"},
                                                                 {"combu itself", "COMBU", "combu"},
                                                                 {"creating", "CREATING", "creating"},
                                                                 {"starting", "STARTING", "starting"},
                                                                 {"running", "RUNNING", "running"},
                                                                 {"taking home", "HOME", "home"}}};

std::string text_of(const std::optional<Seconds>& time) {
  return time ? to_string(*time) : "-";
}

using StretchTexts = std::array<std::string, k_stretches.size()>;

// Usual widths, or where a line of these does not fit the terminal, the least that the texts need.
std::array<std::size_t, k_stretches.size()> stretch_widths(const std::vector<StretchTexts>& rows,
                                                           const TableForm& form) {
  constexpr std::size_t k_usual = 9;
  constexpr std::size_t k_usual_line = 112;
  const bool is_narrow = form.columns > 0 && form.columns < k_usual_line;
  std::array<std::size_t, k_stretches.size()> widths{};
  for (std::size_t i = 0; i < widths.size(); ++i) {
    widths.at(i) = is_narrow ? std::string_view(k_stretches.at(i).head).size() : k_usual;
    for (const StretchTexts& row : rows) widths.at(i) = std::max(widths.at(i), row.at(i).size());
  }
  return widths;
}

// `attempts`: of one trial. Its name is the widest column.
void print_attempts(std::span<const TimedAttempt> attempts, const TableForm& form) {
  constexpr std::size_t k_name = 24;
  const std::size_t shown = form.shown(attempts.size());
  std::vector<StretchTexts> rows;
  for (const TimedAttempt& attempt : attempts.first(shown)) {
    std::ranges::transform(attempt.times, rows.emplace_back().begin(),
                           [](const std::optional<Seconds>& time) { return text_of(time); });
  }
  const auto widths = stretch_widths(rows, form);
  std::size_t others = 8;  // the attempt, and the blank before it
  for (const std::size_t width : widths) others += width + 1;
  std::size_t name = k_name;
  if (form.columns > 0) {
    constexpr std::size_t k_name_least = 8;
    name = std::max(form.columns > others ? form.columns - others : 0, k_name_least);
    name = std::min(name, std::max(k_name, attempts.front().entry.trial.size()));
  }
  const auto line_of = [&](const std::string& trial, std::string_view attempt, const auto& text_in) {
    std::string line =
        fmt::format("{:<{}} {:>7}", form.columns > 0 ? fit_line(trial, name) : trial, name, attempt);
    for (std::size_t i = 0; i < widths.size(); ++i) line += fmt::format(" {:>{}}", text_in(i), widths.at(i));
    return fit_line(line, form.columns) + "\n";
  };
  if (!put_out(line_of("TRIAL", "ATTEMPT", [](std::size_t i) { return k_stretches.at(i).head; }))) return;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const AttemptEntry& entry = attempts[row].entry;
    const auto text_in = [&](std::size_t i) { return std::string_view(rows[row].at(i)); };
    if (!put_out(line_of(entry.trial, std::to_string(entry.attempt), text_in))) return;
  }
  if (shown < attempts.size()) (void)put_out(more_text(attempts.size() - shown) + "\n");
}

bool print_attempts_json(std::span<const TimedAttempt> attempts) {
  return std::ranges::all_of(attempts, [](const TimedAttempt& attempt) {
    const AttemptTimes& times = attempt.times;
    nlohmann::ordered_json object{{"trial", attempt.entry.trial}, {"attempt", attempt.entry.attempt}};
    for (std::size_t i = 0; i < times.size(); ++i)
      if (times.at(i)) object[k_stretches.at(i).key] = times.at(i)->count();
    return put_out(json_text(object) + "\n");
  });
}

// What came before the first start, and then the attempts.
std::string title_of(const RunEntry& entry, std::size_t attempts) {
  const Seconds whole(entry.ended_at.value_or(real_clock().now()) - entry.began_at);
  std::string text = fmt::format("run {}: {} in {}", entry.id.text(), number_of(attempts, "attempt"),
                                 to_string(std::max(whole, Seconds(0))));
  if (entry.evaluated_in && entry.prepared_in)
    text += fmt::format("; evaluated before in {}, images and networks prepared in {}",
                        to_string(*entry.evaluated_in), to_string(*entry.prepared_in));
  return text;
}

bool print_sum(const RunEntry& entry, const std::vector<TimedAttempt>& attempts) {
  if (!put_out(fmt::format("{}\n{:<20} {:>10} {:>10} {:>10} {:>10}\n", title_of(entry, attempts.size()), "",
                           "MEDIAN", "90 %", "MOST", "SUM")))
    return false;
  const TimesByPart parts = times_by_part(attempts);
  for (std::size_t i = 0; i < k_stretches.size(); ++i) {
    const auto& part = parts.at(i);
    if (!part) continue;
    if (!put_out(fmt::format("{:<20} {:>10} {:>10} {:>10} {:>10}\n", k_stretches.at(i).title,
                             to_string(part->median), to_string(part->most_of_90_percent),
                             to_string(part->most), to_string(part->sum))))
      return false;
  }
  return true;
}

int times(const Invocation& invocation, const TimesOptions& options) {
  const auto [run, attempts] = read_times(invocation, options.history);
  if (options.json) {
    (void)print_attempts_json(std::span(attempts).first(json_form(options.limit).shown(attempts.size())));
  } else if (!options.history.trial.empty()) {
    print_attempts(attempts, table_form(options.limit));
  } else {
    (void)print_sum(run, attempts);
  }
  return 0;
}

}  // namespace

void add_times(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command = line.add_command("times", "Tell where the last run's time has gone, from the record");
  const auto options = std::make_shared<TimesOptions>();
  add_run_option(command, options->history.run);
  add_limit(command, options->limit);
  command.add_flag("--json", options->json, "Each attempt's times in seconds, one JSON object a line");
  command.add_option("TRIAL", options->history.trial, "Of this trial's attempts").type_name("");
  command.footer("Example:\n  combu -f experiment.jsonnet times");
  command.callback([&invocation, &action, options] {
    action = [&invocation, options] { return times(invocation, *options); };
  });
}

}  // namespace combu
