#include <fmt/format.h>

#include <algorithm>

#include "combu/json.hpp"
#include "combu/text.hpp"
#include "combu/view.hpp"
#include "view/table.hpp"

namespace combu {
namespace {

std::string state_text(const Sighting& sighting) {
  std::string text(to_string(sighting.phase));
  if (sighting.phase == Phase::ended && sighting.exit_code) text += fmt::format(" ({})", *sighting.exit_code);
  if (sighting.phase == Phase::running && sighting.health != Health::none)
    text += fmt::format(" ({})", to_string(sighting.health));
  if (sighting.key.attempt > 1) text += fmt::format(", attempt {}", sighting.key.attempt);
  return text;
}

// As many as are shown, in order.
std::vector<const Sighting*> first_sorted(std::span<const Sighting> sightings, const TableForm& form) {
  std::vector<const Sighting*> order;
  order.reserve(sightings.size());
  for (const Sighting& sighting : sightings) order.push_back(&sighting);
  std::ranges::sort(order, [](const Sighting* left, const Sighting* right) {
    if (left->experiment != right->experiment) return left->experiment < right->experiment;
    if (left->key.run != right->key.run) return left->key.run < right->key.run;
    if (left->key.trial != right->key.trial) return is_before(left->key.trial, right->key.trial);
    return left->key.attempt < right->key.attempt;
  });
  order.resize(form.shown(order.size()));
  return order;
}

}  // namespace

void print_sightings(std::ostream& out, std::span<const Sighting> sightings, const TableForm& form) {
  Table<5> table({"EXPERIMENT", "RUN", "TRIAL", "STATE", "IMAGE"}, {0, 2, 4});
  for (const Sighting* sighting : first_sorted(sightings, form))
    table.add({sighting->experiment, sighting->key.run.text(), sighting->key.trial, state_text(*sighting),
               sighting->image});
  table.print(out, form.columns);
  const std::size_t shown = form.shown(sightings.size());
  if (shown < sightings.size()) out << more_text(sightings.size() - shown) << '\n';
}

void print_sightings_json(std::ostream& out, std::span<const Sighting> sightings, const TableForm& form) {
  for (const Sighting* sighting : first_sorted(sightings, form)) {
    nlohmann::ordered_json object{{"experiment", sighting->experiment},
                                  {"run", sighting->key.run.text()},
                                  {"trial", sighting->key.trial},
                                  {"attempt", sighting->key.attempt},
                                  {"state", to_string(sighting->phase)},
                                  {"health", nullptr},
                                  {"exit_code", nullptr},
                                  {"image", sighting->image},
                                  {"id", sighting->id},
                                  {"created_at", nullptr}};
    if (sighting->health != Health::none) object["health"] = to_string(sighting->health);
    if (sighting->exit_code) object["exit_code"] = *sighting->exit_code;
    if (sighting->created_at != Instant{}) object["created_at"] = rfc3339(sighting->created_at);
    out << json_text(object) << '\n';
  }
}

}  // namespace combu
