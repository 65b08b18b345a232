#include "control/messages.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <limits>

#include "combu/base.hpp"
#include "combu/json.hpp"

namespace combu::control {
namespace {

using nlohmann::json;

constexpr std::size_t k_parallel_max = 1'000'000;
constexpr std::size_t k_starts_max = 1000;

std::string line_of(const json& object) {
  return json_text(object) + "\n";
}

std::optional<std::size_t> number_of(const json& request, const char* name, std::size_t least,
                                     std::size_t most) {
  const auto found = request.find(name);
  if (found == request.end()) return std::nullopt;
  if (!found->is_number_unsigned() || *found < least || *found > most)
    throw Error(ErrorKind::invalid, name, fmt::format("must be a whole number from {} to {}", least, most));
  return found->get<std::size_t>();
}

std::string string_of(const json& value, const char* name) {
  if (!value.is_string()) throw Error(ErrorKind::invalid, name, "must be a string, or an array of strings");
  return value.get<std::string>();
}

}  // namespace

std::string follow_line() {
  return line_of({{"ask", "follow"}});
}

std::string adjust_line(const Adjust& adjust) {
  json object{{"ask", "adjust"}};
  if (adjust.parallel_max) object["parallel"] = *adjust.parallel_max;
  if (adjust.starts_in_flight_max) object["starts_in_flight"] = *adjust.starts_in_flight_max;
  if (adjust.paused) object["paused"] = *adjust.paused;
  if (!adjust.interrupter.empty()) object["interrupter"] = adjust.interrupter;
  if (!adjust.stopping.empty()) object["stopping"] = adjust.stopping;
  if (!adjust.stopper.empty()) object["stopper"] = adjust.stopper;
  return line_of(object);
}

std::string hand_over_line() {
  return line_of({{"ask", "hand_over"}});
}

std::string handed_over_line() {
  return line_of({{"answer", "handed_over"}});
}

std::string settings_line(const Settings& settings) {
  return line_of({{"answer", "settings"},
                  {"parallel", settings.parallel_max},
                  {"starts_in_flight", settings.starts_in_flight_max},
                  {"paused", settings.paused}});
}

std::string error_line(const std::string& text) {
  return line_of({{"answer", "error"}, {"text", text}});
}

std::string done_line(int exit_code) {
  return line_of({{"event", "done"}, {"exit_code", exit_code}});
}

Ask ask_of(const json& request) {
  if (!request.is_object() || !request.contains("ask"))
    throw Error(ErrorKind::invalid, "", "a request must be a JSON object with `ask`");
  const json& ask = request["ask"];
  if (ask == "follow") return Ask::follow;
  if (ask == "adjust") return Ask::adjust;
  if (ask == "hand_over") return Ask::hand_over;
  throw Error(ErrorKind::invalid, "ask", "must be `follow`, `adjust` or `hand_over`");
}

Adjust adjust_of(const json& request) {
  Adjust adjust{.parallel_max = number_of(request, "parallel", 0, k_parallel_max),
                .starts_in_flight_max = number_of(request, "starts_in_flight", 1, k_starts_max),
                .paused = std::nullopt};
  if (const auto paused = request.find("paused"); paused != request.end()) {
    if (!paused->is_boolean()) throw Error(ErrorKind::invalid, "paused", "must be true or false");
    adjust.paused = paused->get<bool>();
  }
  if (const auto stopping = request.find("stopping"); stopping != request.end()) {
    if (!stopping->is_array())
      throw Error(ErrorKind::invalid, "stopping", "must be an array of names of trials");
    for (const json& name : *stopping) adjust.stopping.push_back(string_of(name, "stopping"));
  }
  if (const auto stopper = request.find("stopper"); stopper != request.end())
    adjust.stopper = string_of(*stopper, "stopper");
  if (const auto interrupter = request.find("interrupter"); interrupter != request.end())
    adjust.interrupter = string_of(*interrupter, "interrupter");
  for (const auto& [name, value] : request.items())
    if (name != "ask" && name != "parallel" && name != "starts_in_flight" && name != "paused" &&
        name != "stopping" && name != "stopper" && name != "interrupter")
      throw Error(ErrorKind::invalid, name, "is not a field of this request");
  return adjust;
}

Settings settings_of(const json& answer) {
  constexpr std::int64_t k_number_max = std::numeric_limits<std::int64_t>::max();
  return {.parallel_max = static_cast<std::size_t>(integer_of(answer.at("parallel"), 0, k_number_max)),
          .starts_in_flight_max =
              static_cast<std::size_t>(integer_of(answer.at("starts_in_flight"), 0, k_number_max)),
          .paused = answer.at("paused").get<bool>()};
}

}  // namespace combu::control
