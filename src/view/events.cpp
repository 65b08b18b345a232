#include <fmt/format.h>

#include <chrono>

#include "combu/json.hpp"
#include "combu/text.hpp"
#include "combu/view.hpp"

namespace combu {

std::string event_line(const EventEntry& event, std::size_t columns_max) {
  const auto whole = std::chrono::floor<std::chrono::seconds>(event.at);
  const auto milli = std::chrono::duration_cast<std::chrono::milliseconds>(event.at - whole).count();
  std::string text = fmt::format("{}.{:03} {} ", local_time(whole), milli, event.trial);
  if (event.attempt) text += fmt::format("#{} ", *event.attempt);
  text += event.state;
  if (!event.reason.empty()) {
    text += ": " + event.reason;
  } else if (event.exit_code) {
    text += fmt::format(": exit code {}", *event.exit_code);
  } else if (event.collection) {
    text += ": " + outputs_text(*event.collection);
  }
  return fit_line(text, columns_max);
}

std::string event_json(const EventEntry& event) {
  nlohmann::ordered_json object{{"time", rfc3339(event.at)}, {"trial", event.trial}};
  if (event.attempt) object["attempt"] = *event.attempt;
  object["state"] = event.state;
  if (event.exit_code) object["exit_code"] = *event.exit_code;
  if (!event.cause.empty() && event.cause != "none") object["cause"] = event.cause;
  if (!event.reason.empty()) object["reason"] = event.reason;
  if (event.collection) {
    object["files"] = event.collection->files;
    object["bytes"] = event.collection->size.count;
  }
  return json_text(object);
}

}  // namespace combu
