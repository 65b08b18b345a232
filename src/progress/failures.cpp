#include "progress/failures.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <ranges>
#include <tuple>
#include <utility>

#include "combu/progress.hpp"
#include "combu/text.hpp"
#include "progress/forms.hpp"

namespace combu {
namespace {

constexpr std::size_t k_shown_of_a_kind = 2;
// Maximum number of kinds of failures that are counted. A further kind replaces the kind whose first failure
// is the oldest.
constexpr std::size_t k_kinds_max = 100;
constexpr std::size_t k_counted_max = 3;
constexpr std::size_t k_ranges_max = 5;
constexpr std::size_t k_last_line_max = 200;
constexpr int k_exit_not_found = 127;

// Returns the details of a failure without the parts that differ between attempts.
EndDetails details_of_kind(EndDetails details) {
  if (details.next == Next::attempt || details.next == Next::due || details.next == Next::spent)
    details.next = Next::none;
  return details;
}

std::string failure_text(TrialState state, std::string_view what, std::string_view why) {
  return clean_line(fmt::format("{}: {}{}{}", to_string(state), what, why.empty() ? "" : ": ", why));
}

std::string_view after_last(std::string_view text, std::string_view mark) {
  const std::size_t at = text.rfind(mark);
  return at == std::string_view::npos ? text : text.substr(at + mark.size());
}

// Returns the command that, according to `last_line`, a shell or `env` did not find; "" if the line has
// another form. Recognizes lines such as "sh: 1: pyhton: not found", "bash: line 1: pyhton: command not
// found" and "env: 'pyhton': No such file or directory".
std::string command_not_found(std::string_view last_line) {
  for (const std::string_view end : {": command not found", ": not found"})
    if (last_line.ends_with(end))
      return std::string(after_last(last_line.substr(0, last_line.size() - end.size()), ": "));
  constexpr std::string_view k_env = "env: ";
  constexpr std::string_view k_no_file = ": No such file or directory";
  if (!last_line.starts_with(k_env) || !last_line.ends_with(k_no_file)) return "";
  std::string command(last_line.substr(k_env.size(), last_line.size() - k_env.size() - k_no_file.size()));
  for (const std::string_view quote : {"'", "‘", "’"})
    for (std::size_t at = command.find(quote); at != std::string::npos; at = command.find(quote))
      command.erase(at, quote.size());
  return command;
}

}  // namespace

Failure failure_of(std::string_view trial, TrialState state, const std::string& reason,
                   const EndDetails& details, int attempt, std::optional<int> exit_code,
                   std::string_view last_line) {
  const auto text = [&](const EndDetails& shown) {
    return with_last_line(reason_text_beside(state, reason, shown, attempt), exit_code, last_line);
  };
  return {.trial = trial,
          .state = state,
          .reason = text(details),
          .kind = text(details_of_kind(details)),
          .stopper = state == TrialState::stopped ? details.stopper : Stopper::none};
}

std::string reason_of(const FailureGroup& group) {
  return reason_text(group.reason, {.stopper = group.stopper}, 1);
}

std::string with_last_line(std::string_view reason, std::optional<int> exit_code,
                           std::string_view last_line) {
  std::string text(reason);
  const auto add = [&](std::string_view more) {
    text += fmt::format("{}{}", text.empty() ? "" : ": ", more);
  };
  if (exit_code != k_exit_not_found) {
    if (!last_line.empty()) add(last_line);
    return text;
  }
  const std::string command = command_not_found(last_line);
  add("command not found");
  if (!command.empty()) {
    add(command);
  } else if (!last_line.empty()) {
    add(last_line);
  }
  return text;
}

std::string last_line_of(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = text.rfind('\n');
    const std::string line = clean_line(text.substr(end == std::string_view::npos ? 0 : end + 1));
    if (const std::size_t first = line.find_first_not_of(' '); first != std::string::npos)
      return cut_line(line.substr(first), k_last_line_max);
    text = text.substr(0, end == std::string_view::npos ? 0 : end);
  }
  return "";
}

std::vector<FailureGroup> group_failures(std::span<const Failure> failures) {
  std::vector<FailureGroup> groups;
  std::map<std::tuple<TrialState, Stopper, std::string>, std::size_t> places;
  for (const Failure& failure : failures) {
    const bool has_root = !failure.root.empty();
    const std::string kind = has_root               ? "root " + std::string(failure.root)
                             : failure.kind.empty() ? failure.reason
                                                    : failure.kind;
    const auto [place, is_new] = places.try_emplace({failure.state, failure.stopper, kind}, groups.size());
    if (is_new)
      groups.push_back(
          {.state = failure.state, .reason = failure.reason, .stopper = failure.stopper, .trials = {}});
    FailureGroup& group = groups[place->second];
    if (group.reason != failure.reason)
      group.reason = has_root ? fmt::format("depend on `{}`", failure.root) : kind;
    group.trials.push_back(failure.trial);
  }
  std::ranges::stable_partition(groups,
                                [](const FailureGroup& group) { return group.state != TrialState::blocked; });
  return groups;
}

std::string trials_text(std::span<const std::string_view> trials) {
  if (trials.size() == 1) return std::string(trials.front());
  std::vector<std::string> names = ranges({trials.begin(), trials.end()});
  const std::size_t count = names.size();
  if (count > k_ranges_max) {
    names.resize(k_ranges_max);
    names.emplace_back("…");
  }
  return fmt::format("{} trials ({})", trials.size(), fmt::join(names, ", "));
}

std::string group_line(const FailureGroup& group) {
  return failure_text(group.state, trials_text(group.trials), group.reason);
}

namespace {

std::string failure_line(const Run& run, const Fact& fact) {
  std::string reason = reason_text_beside_state(fact);
  if (reason.empty() && fact.exit_code) reason = fmt::format("exit code {}", *fact.exit_code);
  return failure_text(fact.state, run.experiment.trials[fact.trial].name, reason);
}

}  // namespace

FailureFeed::Shown FailureFeed::add(const Run& run, const Fact& fact, const std::vector<std::string>& tail) {
  const std::string reason =
      failure_of({}, fact, last_line_of(fmt::format("{}", fmt::join(tail, "\n")))).kind;
  auto newest_first = kinds_ | std::views::reverse;
  const auto found = std::ranges::find_if(
      newest_first, [&](const Kind& kind) { return kind.state == fact.state && kind.reason == reason; });
  if (found != newest_first.end()) {
    if (++found->count > k_shown_of_a_kind) return {};
  } else {
    if (kinds_.size() == k_kinds_max) kinds_.erase(kinds_.begin());
    kinds_.push_back({.state = fact.state, .reason = reason, .count = 1});
  }
  return {.line = failure_line(run, fact), .tail = tail_lines(run, fact.trial, tail)};
}

std::vector<std::string> FailureFeed::counted() const {
  std::vector<const Kind*> counted;
  for (const Kind& kind : kinds_)
    if (kind.count > k_shown_of_a_kind) counted.push_back(&kind);
  std::ranges::stable_sort(counted, std::greater(), &Kind::count);
  if (counted.size() > k_counted_max) counted.resize(k_counted_max);
  std::vector<std::string> lines;
  lines.reserve(counted.size());
  for (const Kind* kind : counted) {
    const std::size_t more = kind->count - k_shown_of_a_kind;
    const std::string_view what = kind->state == TrialState::retrying ? "more attempt" : "more trial";
    lines.push_back(failure_text(kind->state, number_of(more, what), kind->reason));
  }
  return lines;
}

}  // namespace combu
