#include "view/failures.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <ranges>
#include <tuple>

#include "combu/view.hpp"
#include "view/forms.hpp"
#include "view/line.hpp"
#include "view/names.hpp"

namespace combu {
namespace {

constexpr std::size_t k_shown_of_a_kind = 2;
constexpr std::size_t k_kinds_max = 100;  // further kinds are shown, and not remembered
constexpr std::size_t k_counted_max = 3;
constexpr std::size_t k_ranges_max = 5;
constexpr std::size_t k_last_line_max = 200;

// Without what differs from attempt to attempt.
std::string_view reason_of_kind(std::string_view reason) {
  return reason.substr(0, reason.find("; attempt "));
}

std::string joined(std::string_view reason, std::string_view last_line) {
  if (last_line.empty()) return std::string(reason);
  return fmt::format("{}{}{}", reason, reason.empty() ? "" : ": ", last_line);
}

std::string with_reason(std::string_view what, std::string_view reason, std::string_view last_line) {
  const std::string why = joined(reason, last_line);
  return clean_line(fmt::format("{}{}{}", what, why.empty() ? "" : ": ", why));
}

}  // namespace

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
  std::map<std::tuple<TrialState, std::string_view, std::string_view>, std::size_t> places;
  for (const Failure& failure : failures) {
    const auto [place, is_new] =
        places.try_emplace({failure.state, failure.reason, failure.last_line}, groups.size());
    if (is_new)
      groups.push_back(
          {.state = failure.state, .reason = failure.reason, .last_line = failure.last_line, .trials = {}});
    groups[place->second].trials.push_back(failure.trial);
  }
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
  return with_reason(fmt::format("{}: {}", to_string(group.state), trials_text(group.trials)), group.reason,
                     group.last_line);
}

FailureFeed::Kind& FailureFeed::kind_of(const Fact& fact, const std::string& last_line) {
  const std::string_view reason = reason_of_kind(fact.reason);
  // The last lines are not read of all: a failure without them is counted with the newest of its reason.
  const auto is_equal = [&](const Kind& kind) {
    return kind.state == fact.state && kind.reason == reason &&
           (kind.last_line == last_line || last_line.empty());
  };
  auto newest_first = kinds_ | std::views::reverse;
  const auto found = std::ranges::find_if(newest_first, is_equal);
  if (found != newest_first.end()) return *found;
  if (kinds_.size() == k_kinds_max) kinds_.erase(kinds_.begin());
  return kinds_.emplace_back(
      Kind{.state = fact.state, .reason = std::string(reason), .last_line = last_line});
}

FailureFeed::Shown FailureFeed::add(const Run& run, const Fact& fact, const std::vector<std::string>& tail) {
  if (++kind_of(fact, last_line_of(fmt::format("{}", fmt::join(tail, "\n")))).count > k_shown_of_a_kind)
    return {};
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
    const std::string_view what = kind->state == TrialState::retrying ? "attempt" : "trial";
    lines.push_back(
        with_reason(fmt::format("{}: {} more {}{}", to_string(kind->state), more, what, more == 1 ? "" : "s"),
                    kind->reason, kind->last_line));
  }
  return lines;
}

}  // namespace combu
