#include "app/trial_choice.hpp"

#include <map>
#include <utility>

#include "combu/session.hpp"

namespace combu {
namespace {

std::optional<std::string> value_of(const RunEntry& run, const TrialRow& row, std::string_view name,
                                    std::string_view wanted) {
  if (name == "experiment") return run.experiment;
  if (name == "run") return run.id.text();
  if (name == "health" && row.health != Health::none) return std::string(to_string(row.health));
  if (auto value = trial_value(row.entry, name, wanted)) return value;
  return param_of(row.entry.params, name);
}

std::optional<std::string> value_of(const Observation& observation, std::string_view name) {
  if (name == "experiment") return observation.experiment;
  if (name == "run") return observation.key.run.text();
  if (name == "trial") return observation.key.trial;
  if (name == "attempt") return std::to_string(observation.key.attempt);
  if (name == "state") return std::string(to_string(observation.phase));
  if (name == "image") return observation.image;
  if (name == "id") return observation.id;
  if (name == "health" && observation.health != Health::none)
    return std::string(to_string(observation.health));
  if (name == "exit_code" && observation.exit_code) return std::to_string(*observation.exit_code);
  return std::nullopt;
}

}  // namespace

TrialChoice::TrialChoice(std::vector<std::string> names, const std::string& where)
    : names_(std::move(names)) {
  if (!where.empty()) where_.emplace(where);
}

std::string TrialChoice::single() const {
  return names_.size() == 1 && !is_pattern(names_.front()) ? names_.front() : "";
}

std::vector<std::string> TrialChoice::unmatched(const std::vector<TrialRow>& rows,
                                                const std::vector<Observation>& containers) const {
  std::vector<std::string> unmatched = names_;
  for (const TrialRow& row : rows) drop_matching(unmatched, row.entry.name);
  for (const Observation& seen : containers) drop_matching(unmatched, seen.key.trial);
  return unmatched;
}

std::set<std::string> TrialChoice::apply(const RunEntry& run, std::vector<TrialRow>& rows) const {
  std::map<std::string, bool, std::less<>> has_value;
  const auto value_in = [&](const TrialRow& row, std::string_view name, std::string_view wanted) {
    auto value = value_of(run, row, name, wanted);
    const auto known = has_value.find(name);
    if (known == has_value.end()) {
      has_value.emplace(name, value.has_value());
    } else if (value) {
      known->second = true;
    }
    return value;
  };
  std::erase_if(rows, [&](const TrialRow& row) {
    return !is_chosen(names_, row.entry.name) ||
           (where_ && !where_->matches([&](std::string_view name, std::string_view wanted) {
             return value_in(row, name, wanted);
           }));
  });
  std::set<std::string> valueless;
  for (const auto& [name, has] : has_value)
    if (!has) valueless.insert(name);
  return valueless;
}

void TrialChoice::apply(std::vector<Observation>& containers) const {
  std::erase_if(containers, [&](const Observation& seen) {
    return !is_chosen(names_, seen.key.trial) ||
           (where_ && !where_->matches([&](std::string_view name, std::string_view /*wanted*/) {
             return value_of(seen, name);
           }));
  });
}

}  // namespace combu
