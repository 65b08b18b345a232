#include "app/run_options.hpp"

#include "combu/json.hpp"

namespace combu {

Until until_of(const RunOptions& options) {
  return options.wait ? Until::ended : Until::started;
}

std::string to_json(const RunOptions& options) {
  return json_text(
      nlohmann::json{{"wait", options.wait},
                     {"starts_in_flight", options.starts_in_flight},
                     {"parallel", options.parallel ? nlohmann::json(*options.parallel) : nlohmann::json()},
                     {"reserve", options.reserve},
                     {"cache", options.cache},
                     {"watched", options.monitored}});
}

RunOptions run_options_of(const std::string& json) {
  const auto object = parse_json(json);
  RunOptions options;
  options.wait = object.value("wait", options.wait);
  options.starts_in_flight = object.value("starts_in_flight", options.starts_in_flight);
  if (const auto parallel = object.find("parallel"); parallel != object.end() && parallel->is_number())
    options.parallel = parallel->get<std::size_t>();
  options.reserve = object.value("reserve", options.reserve);
  options.cache = object.value("cache", options.cache);
  options.monitored = object.value("watched", options.wait);
  return options;
}

RunOptions adjusted_options(const RunEntry& entry, const AdjustOptions& adjust) {
  RunOptions options = run_options_of(entry.options);
  if (adjust) adjust(options);
  return options;
}

void change_options(Record& record, const RunId& run, const AdjustOptions& change) {
  for (const RunEntry& entry : record.runs({.id = run}, 1)) {
    const RunOptions before = run_options_of(entry.options);
    const RunOptions after = adjusted_options(entry, change);
    if (after != before) record.set_options(run, to_json(after));
  }
}

void record_parallel(Record& record, const RunId& run, std::optional<std::size_t> parallel) {
  change_options(record, run, [&](RunOptions& options) { options.parallel = parallel; });
}

void override_fields(Experiment& experiment, const RunOptions& options) {
  if (options.parallel) experiment.parallel_max = *options.parallel;
}

}  // namespace combu
