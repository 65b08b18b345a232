#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "combu/simulated.hpp"

namespace combu {

namespace {

double number(std::string_view name, std::string_view text, double most) {
  const auto value = parse_number<double>(text);
  if (!value || !(*value >= 0 && *value <= most)) {
    throw Error(ErrorKind::invalid, "simulated",
                fmt::format("option `{}` must be a number from 0 to {}, not `{}`", name, most, text));
  }
  return *value;
}

}  // namespace

SimulationOptions parse_simulation(std::string_view address) {
  SimulationOptions options;
  Faults& faults = options.faults;
  using Set = std::function<void(std::string_view, std::string_view)>;
  const auto seconds = [](Seconds& field) -> Set {
    return
        [&field](std::string_view name, std::string_view text) { field = Seconds(number(name, text, 1e9)); };
  };
  const auto share = [](double& field) -> Set {
    return [&field](std::string_view name, std::string_view text) { field = number(name, text, 1); };
  };
  const std::map<std::string, Set, std::less<>> known = {
      {"seed",
       [&](auto name, auto text) { options.seed = static_cast<std::uint64_t>(number(name, text, 1e15)); }},
      {"speed", [&](auto name, auto text) { options.speed = number(name, text, 1e9); }},
      {"live_restore", [&](auto name, auto text) { faults.live_restore = number(name, text, 1) != 0; }},
      {"start", seconds(options.start_takes)},
      {"trial", seconds(options.trial_takes)},
      {"crash_for", seconds(faults.crash_for)},
      {"refused", share(faults.refused)},
      {"cut_before", share(faults.cut_before)},
      {"answer_lost", share(faults.answer_lost)},
      {"change_dropped", share(faults.change_dropped)},
      {"change_repeated", share(faults.change_repeated)},
      {"change_held", share(faults.change_held)},
      {"out_of_memory", share(faults.out_of_memory)},
      {"slots_taken", share(faults.slots_taken)},
      {"places", [&](auto name, auto text) { options.places = number(name, text, 1) > 0; }},
      {"attempts_max",
       [&](auto name, auto text) {
         options.attempts_max = static_cast<std::size_t>(number(name, text, 1e9));
       }},
      {"gpus",
       [&](auto name, auto text) { options.gpus = static_cast<std::size_t>(number(name, text, 1024)); }},
      {"crash", share(faults.crash)},
      {"agent_stream_cut", share(faults.agent_stream_cut)},
      {"agent_garbage", share(faults.agent_garbage)},
      {"agent_killed", share(faults.agent_killed)},
  };
  const std::size_t question = address.find('?');
  std::string_view rest = question == std::string_view::npos ? "" : address.substr(question + 1);
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
    const std::size_t equals = pair.find('=');
    const auto option = known.find(pair.substr(0, equals));
    if (option == known.end() || equals == std::string_view::npos) {
      std::vector<std::string_view> names;
      names.reserve(known.size());
      for (const auto& [name, set] : known) names.push_back(name);
      throw Error(
          ErrorKind::invalid, "simulated",
          fmt::format("`{}` must be NAME=VALUE, with one of these names: {}", pair, fmt::join(names, ", ")));
    }
    option->second(option->first, pair.substr(equals + 1));
  }
  return options;
}

}  // namespace combu
