#include <fmt/format.h>

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "combu/schedule.hpp"
#include "schedule/gpus.hpp"

namespace combu {

std::vector<Error> check_slots(const Experiment& experiment, const Slots& capacity,
                               std::span<const Gpu> gpus) {
  std::vector<Error> errors;
  struct Refusal {
    const Trial* first;
    std::size_t more;
  };
  std::map<std::string, std::size_t> place_of;  // by its words: thousands may want the same
  std::vector<std::pair<std::string, Refusal>> refusals;
  const auto refuse = [&](const Trial& trial, const std::string& wanted, const std::string& given) {
    std::string why = fmt::format("wants {}, but the engine has {} to give", wanted, given);
    const auto [at, is_new] = place_of.try_emplace(why, refusals.size());
    if (is_new) {
      refusals.emplace_back(std::move(why), Refusal{&trial, 0});
    } else {
      ++refusals[at->second].second.more;
    }
  };
  std::unordered_map<std::string_view, const Trial*> services;
  for (const Trial& trial : experiment.trials)
    if (trial.service && (!trial.slots.empty() || !trial.gpus.empty())) services.emplace(trial.name, &trial);
  // What it needs to run beside it must fit, too.
  const auto check_with_services = [&](const Trial& trial) {
    Slots together = trial.slots;
    std::size_t gpus_together = trial.gpus.count;
    std::string names;
    for (const Depend& depend : trial.depends) {
      const auto service = services.find(depend.trial);
      if (service == services.end()) continue;
      together += service->second->slots;
      gpus_together += service->second->gpus.count;
      names += fmt::format("{}`{}`", names.empty() ? "" : ", ", depend.trial);
    }
    if (names.empty() || (together.fit(capacity) && gpus_together <= capacity.gpus.size())) return;
    const auto text = [](const Slots& slots, const std::string& of_gpus) {
      if (of_gpus.empty()) return to_string(slots);
      return slots.empty() ? of_gpus : fmt::format("{} and {}", to_string(slots), of_gpus);
    };
    const bool of_gpus = gpus_together > 0;
    const std::string wanted_gpus =
        of_gpus ? fmt::format("{} GPU{}", gpus_together, gpus_together == 1 ? "" : "s") : "";
    refuse(trial, fmt::format("{} together with {}, which it needs", text(together, wanted_gpus), names),
           text({.cpus = capacity.cpus, .memory = capacity.memory, .gpus = {}},
                of_gpus ? schedule::gpus_text(gpus) : ""));
  };
  for (const Trial& trial : experiment.trials) {
    if (!trial.slots.fit(capacity)) refuse(trial, to_string(trial.slots), to_string(capacity));
    if (!trial.gpus.empty() && !schedule::choose(trial.gpus, gpus, capacity.gpus, {})) {
      refuse(trial, to_string(trial.gpus), schedule::gpus_text(gpus));
    } else if (trial.slots.fit(capacity)) {
      check_with_services(trial);
    }
  }
  errors.reserve(refusals.size());
  for (const auto& [why, refusal] : refusals)
    errors.emplace_back(ErrorKind::invalid, refusal.first->name,
                        refusal.more == 0 ? why
                                          : fmt::format("{}, and {} more want{} the same", why, refusal.more,
                                                        refusal.more == 1 ? "s" : ""));
  return errors;
}

}  // namespace combu
