#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "combu/json.hpp"
#include "combu/text.hpp"
#include "combu/view.hpp"

namespace combu {
namespace {

struct Stretch {
  const char* title;
  const char* head;  // heading of the column for this part of an attempt in print_attempt_times()
  const char* key;
};
// Indexed by AttemptPart.
constexpr std::array<Stretch, k_attempt_part_count> k_stretches{
    {{"waiting for dependencies", "DEPENDS", "needs"},
     {"waiting to retry", "RETRY", "retry"},
     {"waiting for slots", "SLOTS", "place"},
     {"combu itself", "COMBU", "combu"},
     {"creating", "CREATING", "creating"},
     {"starting", "STARTING", "starting"},
     {"running", "RUNNING", "running"},
     {"collecting outputs", "COLLECT", "home"}}};

std::string time_text(const std::optional<Seconds>& time) {
  return time ? to_string(*time) : "-";
}

using StretchTexts = std::array<std::string, k_stretches.size()>;

// Returns the width of each column. On a narrow terminal, a column is only as wide as its heading and its
// texts; otherwise it has at least the usual width.
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

// Returns the title: the run's id, the number of attempts and the duration of the run. If known, the
// durations of the evaluation of the file and of the preparation of images and networks follow.
std::string times_title(const RunEntry& entry, std::size_t attempts, Instant now) {
  const Seconds whole(entry.ended_at.value_or(now) - entry.began_at);
  std::string text = fmt::format("run {}: {} in {}", entry.id.text(), number_of(attempts, "attempt"),
                                 to_string(std::max(whole, Seconds(0))));
  if (entry.evaluated_in && entry.prepared_in)
    text += fmt::format("; before the run, evaluated in {}, images and networks prepared in {}",
                        to_string(*entry.evaluated_in), to_string(*entry.prepared_in));
  return text;
}

}  // namespace

void print_times(std::ostream& out, const RunEntry& run, std::span<const TimedAttempt> attempts,
                 Instant now) {
  out << times_title(run, attempts.size(), now) << '\n'
      << fmt::format("{:<24} {:>10} {:>10} {:>10} {:>10}\n", "", "MEDIAN", "90 %", "MOST", "SUM");
  const TimesByPart parts = times_by_part(attempts);
  for (std::size_t i = 0; i < k_stretches.size(); ++i) {
    const auto& part = parts.at(i);
    if (!part) continue;
    out << fmt::format("{:<24} {:>10} {:>10} {:>10} {:>10}\n", k_stretches.at(i).title,
                       to_string(part->median), to_string(part->most_of_90_percent), to_string(part->most),
                       to_string(part->sum));
  }
}

void print_attempt_times(std::ostream& out, std::span<const TimedAttempt> attempts, const TableForm& form) {
  constexpr std::size_t k_name = 24;
  const std::size_t shown = form.shown(attempts.size());
  std::vector<StretchTexts> rows;
  for (const TimedAttempt& attempt : attempts.first(shown)) {
    std::ranges::transform(attempt.times, rows.emplace_back().begin(),
                           [](const std::optional<Seconds>& time) { return time_text(time); });
  }
  const auto widths = stretch_widths(rows, form);
  // `others` is the width of all columns except the trial's name. The initial value 8 is the width of the
  // attempt's number and of the space before the number.
  std::size_t others = 8;
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
  out << line_of("TRIAL", "ATTEMPT", [](std::size_t i) { return k_stretches.at(i).head; });
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const AttemptEntry& entry = attempts[row].entry;
    const auto text_in = [&](std::size_t i) { return std::string_view(rows[row].at(i)); };
    out << line_of(entry.trial, std::to_string(entry.attempt), text_in);
  }
  if (shown < attempts.size()) out << more_text(attempts.size() - shown) << '\n';
}

void print_attempt_times_json(std::ostream& out, std::span<const TimedAttempt> attempts,
                              const TableForm& form) {
  for (const TimedAttempt& attempt : attempts.first(form.shown(attempts.size()))) {
    const AttemptTimes& times = attempt.times;
    nlohmann::ordered_json object{{"trial", attempt.entry.trial}, {"attempt", attempt.entry.attempt}};
    for (std::size_t i = 0; i < times.size(); ++i)
      if (times.at(i)) object[k_stretches.at(i).key] = times.at(i)->count();
    out << json_text(object) << '\n';
  }
}

}  // namespace combu
