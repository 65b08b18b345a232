#include <fmt/format.h>

#include <algorithm>

#include "combu/json.hpp"
#include "combu/text.hpp"
#include "combu/view.hpp"
#include "view/table.hpp"

namespace combu {
namespace {

std::string state_text(const Observation& observation) {
  std::string text(to_string(observation.phase));
  if (observation.phase == Phase::ended && observation.exit_code)
    text += fmt::format(" ({})", *observation.exit_code);
  if (observation.phase == Phase::running && observation.health != Health::none)
    text += fmt::format(" ({})", to_string(observation.health));
  if (observation.key.attempt > 1) text += fmt::format(", attempt {}", observation.key.attempt);
  return text;
}

// Returns the sorted rows, up to the row limit of `form`.
std::vector<const Observation*> first_sorted(std::span<const Observation> observations,
                                             const TableForm& form) {
  std::vector<const Observation*> order;
  order.reserve(observations.size());
  for (const Observation& observation : observations) order.push_back(&observation);
  std::ranges::sort(order, [](const Observation* left, const Observation* right) {
    if (left->experiment != right->experiment) return left->experiment < right->experiment;
    if (left->key.run != right->key.run) return left->key.run < right->key.run;
    if (left->key.trial != right->key.trial) return is_before(left->key.trial, right->key.trial);
    return left->key.attempt < right->key.attempt;
  });
  order.resize(form.shown(order.size()));
  return order;
}

}  // namespace

void print_observations(std::ostream& out, std::span<const Observation> observations, const TableForm& form) {
  Table<5> table({"EXPERIMENT", "RUN", "TRIAL", "STATE", "IMAGE"}, {0, 2, 4});
  for (const Observation* observation : first_sorted(observations, form))
    table.add({observation->experiment, observation->key.run.text(), observation->key.trial,
               state_text(*observation), observation->image});
  table.print(out, form.columns);
  const std::size_t shown = form.shown(observations.size());
  if (shown < observations.size()) out << more_text(observations.size() - shown) << '\n';
}

void print_observations_json(std::ostream& out, std::span<const Observation> observations,
                             const TableForm& form) {
  for (const Observation* observation : first_sorted(observations, form)) {
    nlohmann::ordered_json object{{"experiment", observation->experiment},
                                  {"run", observation->key.run.text()},
                                  {"trial", observation->key.trial},
                                  {"attempt", observation->key.attempt},
                                  {"state", to_string(observation->phase)},
                                  {"health", nullptr},
                                  {"exit_code", nullptr},
                                  {"image", observation->image},
                                  {"id", observation->id},
                                  {"created_at", nullptr}};
    if (observation->health != Health::none) object["health"] = to_string(observation->health);
    if (observation->exit_code) object["exit_code"] = *observation->exit_code;
    if (observation->created_at != Instant{}) object["created_at"] = rfc3339(observation->created_at);
    out << json_text(object) << '\n';
  }
}

}  // namespace combu
