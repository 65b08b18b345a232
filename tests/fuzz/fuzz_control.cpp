// Reads lines of the channel to a run's owner: requests to the owner, its answers, and events for a follower.
// Each line must give a result, or throw Error or an exception of the JSON library.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "combu/json.hpp"
#include "control/messages.hpp"
#include "control/replay.hpp"

namespace {

using namespace combu;

void read_request(std::string_view line) {
  const auto request = parse_json_or_discard(line);
  if (control::ask_of(request) == control::Ask::adjust)
    (void)control::adjust_line(control::adjust_of(request));
}

template <class Body>
void unless_refused(const Body& body) {
  try {
    body();
  } catch (const Error&) {
  } catch (const nlohmann::json::exception&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto progress = make_json_progress([](std::string_view, std::string_view) {});
  Run run;
  unless_refused([&] {
    control::Replay replay(*progress, run);
    for (std::string_view left = text; !left.empty();) {
      const std::size_t end = std::min(left.find('\n'), left.size());
      const std::string_view line = left.substr(0, end);
      left.remove_prefix(std::min(end + 1, left.size()));
      unless_refused([&] { read_request(line); });
      unless_refused([&] { (void)control::settings_of(parse_json(line)); });
      if (replay.show(parse_json(line))) return;
    }
  });
  return 0;
}
