#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "app/runs.hpp"
#include "cli/commands.hpp"
#include "cli/options.hpp"
#include "cli/output.hpp"
#include "combu/json.hpp"

namespace combu {
namespace {

struct TimesOptions {
  std::string run;
  std::string trial;
  std::int64_t limit = -1;
  bool json = false;
};

// Where an attempt's time has gone, in order.
struct Stretch {
  const char* title;
  const char* head;  // of its column
  const char* key;
};
constexpr std::array<Stretch, 8> k_stretches{{{"waiting for others", "OTHERS", "needs"},
                                              {"waiting to retry", "RETRY", "retry"},
                                              {"waiting for a place", "PLACE", "place"},
                                              {"combu itself", "COMBU", "combu"},
                                              {"creating", "CREATING", "creating"},
                                              {"starting", "STARTING", "starting"},
                                              {"running", "RUNNING", "running"},
                                              {"taking home", "HOME", "home"}}};
using Stretches = std::array<std::optional<Seconds>, k_stretches.size()>;

Seconds at_least_none(Seconds time) {
  return std::max(time, Seconds(0));
}

// An attempt, and since when it waited: a first one since the run began, or was reopened with a file that has
// added or changed its trial; one that waited to retry since the end of the one before. The first one that
// `retry` begins has waited for neither.
struct Placed {
  AttemptEntry entry;
  Instant since{};
};

// False for the first attempt, and for the first one that `retry` begins.
bool waits_to_retry(const AttemptEntry& entry) {
  return entry.attempt > 1 && entry.attempt != entry.first_attempt;
}

std::vector<Placed> placed(std::vector<AttemptEntry> attempts, const RunEntry& run) {
  std::vector<Placed> all;
  all.reserve(attempts.size());
  for (AttemptEntry& entry : attempts) {
    Instant since = entry.ready_at;
    if (entry.attempt == 1) since = entry.revision > 1 ? run.working_since : run.began_at;
    if (waits_to_retry(entry) && !all.empty() && all.back().entry.trial == entry.trial)
      since = all.back().entry.collected_at.value_or(all.back().entry.ended_at.value_or(since));
    all.push_back({std::move(entry), since});
  }
  return all;
}

Stretches stretches_of(const Placed& attempt) {
  const AttemptEntry& entry = attempt.entry;
  const auto between = [](Instant from, Instant to) { return at_least_none(to - from); };
  std::optional<Seconds> needs;
  std::optional<Seconds> retry;
  // A trial that waits for no other is ready from the beginning.
  if (waits_to_retry(entry)) {
    retry = between(attempt.since, entry.ready_at);
  } else if (entry.ready_at > attempt.since) {
    needs = between(attempt.since, entry.ready_at);
  }
  std::optional<Seconds> combu;
  std::optional<Seconds> starting = entry.started_in;
  std::optional<Seconds> running;
  std::optional<Seconds> home;
  if (entry.ran_at) {
    const Seconds whole = between(entry.started_at, *entry.ran_at);
    if (entry.created_in && entry.started_in)
      combu = at_least_none(whole - *entry.created_in - *entry.started_in);
    if (!starting) starting = whole;
    if (entry.ended_at) running = between(*entry.ran_at, *entry.ended_at);
    if (entry.ended_at && entry.collected_at) home = between(*entry.ended_at, *entry.collected_at);
  }
  return {needs,   retry, between(entry.ready_at, entry.started_at), combu, entry.created_in, starting,
          running, home};
}

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
void print_attempts(std::span<const Placed> attempts, const TableForm& form) {
  constexpr std::size_t k_name = 24;
  const std::size_t shown = form.shown(attempts.size());
  std::vector<StretchTexts> rows;
  for (const Placed& attempt : attempts.first(shown)) {
    const Stretches times = stretches_of(attempt);
    std::ranges::transform(times, rows.emplace_back().begin(),
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

bool print_attempts_json(std::span<const Placed> attempts) {
  return std::ranges::all_of(attempts, [](const Placed& attempt) {
    const Stretches times = stretches_of(attempt);
    nlohmann::ordered_json object{{"trial", attempt.entry.trial}, {"attempt", attempt.entry.attempt}};
    for (std::size_t i = 0; i < times.size(); ++i)
      if (times.at(i)) object[k_stretches.at(i).key] = times.at(i)->count();
    return put_out(json_text(object) + "\n");
  });
}

// What came before the first start, and then the attempts.
std::string title_of(const RunEntry& entry, std::size_t attempts) {
  const Seconds whole(entry.ended_at.value_or(real_clock().now()) - entry.began_at);
  std::string text = fmt::format("run {}: {} attempt{} in {}", entry.id.text(), attempts,
                                 attempts == 1 ? "" : "s", to_string(at_least_none(whole)));
  if (entry.evaluated_in && entry.prepared_in)
    text += fmt::format("; evaluated before in {}, images and networks prepared in {}",
                        to_string(*entry.evaluated_in), to_string(*entry.prepared_in));
  return text;
}

bool print_sum(const RunEntry& entry, const std::vector<Placed>& attempts) {
  if (!put_out(fmt::format("{}\n{:<20} {:>10} {:>10} {:>10} {:>10}\n", title_of(entry, attempts.size()), "",
                           "MEDIAN", "90 %", "MOST", "SUM")))
    return false;
  std::vector<Stretches> stretches;
  stretches.reserve(attempts.size());
  for (const Placed& attempt : attempts) stretches.push_back(stretches_of(attempt));
  for (std::size_t i = 0; i < k_stretches.size(); ++i) {
    std::vector<Seconds> times;
    Seconds sum{0};
    for (const Stretches& one : stretches) {
      if (!one.at(i)) continue;
      times.push_back(*one.at(i));
      sum += *one.at(i);
    }
    if (times.empty()) continue;
    std::ranges::sort(times);
    if (!put_out(fmt::format("{:<20} {:>10} {:>10} {:>10} {:>10}\n", k_stretches.at(i).title,
                             to_string(times[times.size() / 2]), to_string(times[times.size() * 9 / 10]),
                             to_string(times.back()), to_string(sum))))
      return false;
  }
  return true;
}

int times(const Invocation& invocation, const TimesOptions& options) {
  Record record = open_record(invocation, Record::Use::reading);
  const RunEntry entry = find_run(record, invocation, options.run);
  const std::vector<Placed> attempts = placed(record.attempts(entry.id, options.trial), entry);
  if (attempts.empty() && !options.trial.empty())
    throw Error(ErrorKind::not_found, options.trial, "has no attempt in run " + entry.id.text());
  if (options.json) {
    (void)print_attempts_json(std::span(attempts).first(json_form(options.limit).shown(attempts.size())));
  } else if (!options.trial.empty()) {
    print_attempts(attempts, table_form(options.limit));
  } else {
    (void)print_sum(entry, attempts);
  }
  return 0;
}

}  // namespace

void add_times(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command = line.add_command("times", "Tell where the last run's time has gone, from the record");
  const auto options = std::make_shared<TimesOptions>();
  add_run_option(command, options->run);
  add_limit(command, options->limit);
  command.add_flag("--json", options->json, "Each attempt's times in seconds, one JSON object a line");
  command.add_option("TRIAL", options->trial, "Of this trial's attempts").type_name("");
  command.footer("Example:\n  combu -f experiment.jsonnet times");
  command.callback([&invocation, &action, options] {
    action = [&invocation, options] { return times(invocation, *options); };
  });
}

}  // namespace combu
