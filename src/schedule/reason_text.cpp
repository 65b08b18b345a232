// Builds text for users that explains an attempt's end, from the reason and the details of the end.

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "combu/schedule.hpp"

namespace combu {
namespace {

std::string_view lead_of(Stopper stopper) {
  switch (stopper) {
    case Stopper::none:
      return "";
    case Stopper::person:
    case Stopper::outside:
      return "stopped ";
    case Stopper::run:
      return "stopped: ";
  }
  return "";
}

std::string next_text(const EndDetails& details, int attempt) {
  switch (details.next) {
    case Next::none:
      return "";
    case Next::attempt:
      return fmt::format("; attempt {} in {}", attempt + 1, to_string(details.pause));
    case Next::due:
      return fmt::format("; attempt {} waits to be started", attempt + 1);
    case Next::verdict:
      return "; retried if the engine is being restarted";
    case Next::collect:
      return fmt::format("; its outputs are not collected yet: {}", details.next_why);
    case Next::spent:
      return fmt::format(", after {} attempts", attempt);
    case Next::given_up:
      return fmt::format("; not retried: {}", details.next_why);
    case Next::lost:
      return "; removed by `combu kill` before its outputs were collected";
  }
  return "";
}

std::string with_details(std::string text, const EndDetails& details, int attempt) {
  if (details.outputs_fault.empty() && details.next == Next::none) return text;
  if (!details.outputs_fault.empty()) text += fmt::format("; outputs: {}", details.outputs_fault);
  std::string next = next_text(details, attempt);
  constexpr std::string_view k_between = "; ";
  if (text.empty() && next.starts_with(k_between)) next.erase(0, k_between.size());
  return text + next;
}

}  // namespace

std::string_view to_string(Stopper stopper) {
  switch (stopper) {
    case Stopper::none:
      return "none";
    case Stopper::person:
      return "person";
    case Stopper::outside:
      return "outside";
    case Stopper::run:
      return "run";
  }
  return "unknown";
}

std::string_view to_string(Next next) {
  switch (next) {
    case Next::none:
      return "none";
    case Next::attempt:
      return "attempt";
    case Next::due:
      return "due";
    case Next::verdict:
      return "verdict";
    case Next::collect:
      return "collect";
    case Next::spent:
      return "spent";
    case Next::given_up:
      return "given_up";
    case Next::lost:
      return "lost";
  }
  return "unknown";
}

std::string reason_text(const std::string& reason, const EndDetails& details, int attempt) {
  std::string text(lead_of(details.stopper));
  return with_details(std::move(text += reason), details, attempt);
}

std::string reason_text_beside(TrialState state, const std::string& reason, const EndDetails& details,
                               int attempt) {
  return state == TrialState::stopped ? with_details(reason, details, attempt)
                                      : reason_text(reason, details, attempt);
}

}  // namespace combu
