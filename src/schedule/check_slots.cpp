#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "combu/schedule.hpp"
#include "schedule/gpus.hpp"

namespace combu {

namespace {

// What of a kind there is to give; where none is left of one that is asked for, that is said.
std::string given_text(const Slots& asked, const Slots& capacity) {
  std::string text;
  if (capacity.cpus > Cpus{}) {
    text = to_string(Slots{.cpus = capacity.cpus, .memory = {}, .gpus = {}});
  } else if (asked.cpus > Cpus{}) {
    text = "no CPUs";
  }
  const std::string_view joint = text.empty() ? "" : ", ";
  if (capacity.memory > Bytes{}) {
    text += fmt::format("{}{}", joint,
                        to_string(Slots{.cpus = {}, .memory = capacity.memory, .gpus = {}}, asked));
  } else if (asked.memory > Bytes{}) {
    text += fmt::format("{}no memory", joint);
  }
  return text.empty() ? "nothing" : text;
}

// A UUID that is not known may be of any of them.
std::string given_text(const GpuWish& asked, std::span<const Gpu> gpus) {
  const bool all_called = std::ranges::all_of(asked.ids, [&](const std::string& id) {
    return std::ranges::any_of(gpus, [&](const Gpu& gpu) { return is_called(gpu, id); });
  });
  const bool any_uuid = std::ranges::any_of(gpus, [](const Gpu& gpu) { return !gpu.uuid.empty(); });
  return schedule::gpus_text(gpus) +
         (all_called || any_uuid || gpus.empty() ? "" : ", whose UUIDs are not known,");
}

// Those with slots, as they run beside trials.
class Services {
 public:
  explicit Services(const Experiment& experiment) {
    std::unordered_set<std::string_view> needed;
    for (const Trial& trial : experiment.trials)
      for (const Depend& depend : trial.depends) needed.insert(depend.trial);
    for (const Trial& trial : experiment.trials) {
      if (!trial.service) continue;
      services_.emplace(trial.name, &trial);
      if (!needed.contains(trial.name)) standing_.push_back(&trial);
    }
  }

  // What it depends on, what that depends on, and what stands as long as the run does.
  [[nodiscard]] std::vector<const Trial*> beside(const Trial& trial) const {
    if (services_.empty()) return {};
    std::vector<const Trial*> company;
    std::vector<const Trial*> open{&trial};
    while (!open.empty()) {
      const Trial* next = open.back();
      open.pop_back();
      for (const Depend& depend : next->depends) {
        const auto found = services_.find(depend.trial);
        if (found == services_.end() || std::ranges::find(company, found->second) != company.end()) continue;
        company.push_back(found->second);
        open.push_back(found->second);
      }
    }
    for (const Trial* service : standing_)
      if (service != &trial) company.push_back(service);
    std::erase_if(company, [](const Trial* one) { return one->slots.empty() && one->gpus.empty(); });
    return company;
  }

 private:
  std::unordered_map<std::string_view, const Trial*> services_;
  std::vector<const Trial*> standing_;
};

// Whether each can have its own; those that want certain ones are the first to choose.
bool have_gpus(const Trial& trial, const std::vector<const Trial*>& company, const Slots& capacity,
               std::span<const Gpu> gpus) {
  std::vector<const Trial*> all = company;
  all.push_back(&trial);
  std::ranges::stable_sort(all, {}, [](const Trial* one) { return one->gpus.ids.empty(); });
  Slots left = capacity;
  return std::ranges::all_of(all, [&](const Trial* one) {
    if (one->gpus.empty()) return true;
    const auto chosen = schedule::choose(one->gpus, gpus, left.gpus, {});
    if (chosen) left -= {.cpus = {}, .memory = {}, .gpus = *chosen};
    return chosen.has_value();
  });
}

}  // namespace

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
  const Services services(experiment);
  // What it needs to run beside it must fit, too.
  const auto check_with_services = [&](const Trial& trial) {
    const std::vector<const Trial*> company = services.beside(trial);
    Slots together = trial.slots;
    std::size_t gpus_together = trial.gpus.count;
    std::string names;
    for (const Trial* service : company) {
      together += service->slots;
      gpus_together += service->gpus.count;
      names += fmt::format("{}`{}`", names.empty() ? "" : ", ", service->name);
    }
    if (company.empty() || (together.fit(capacity) && have_gpus(trial, company, capacity, gpus))) return;
    const auto text = [](const std::string& slots, const std::string& of_gpus) {
      if (of_gpus.empty()) return slots;
      return slots == "nothing" ? of_gpus : fmt::format("{} and {}", slots, of_gpus);
    };
    const bool of_gpus = gpus_together > 0;
    const std::string wanted_gpus =
        of_gpus ? fmt::format("{} GPU{}", gpus_together, gpus_together == 1 ? "" : "s") : "";
    refuse(
        trial,
        fmt::format("{} together with {}, which run{} beside it",
                    text(to_string(together, capacity), wanted_gpus), names, company.size() == 1 ? "s" : ""),
        text(given_text(together, capacity), of_gpus ? schedule::gpus_text(gpus) : ""));
  };
  for (const Trial& trial : experiment.trials) {
    if (!trial.slots.fit(capacity))
      refuse(trial, to_string(trial.slots, capacity), given_text(trial.slots, capacity));
    if (!trial.gpus.empty() && !schedule::choose(trial.gpus, gpus, capacity.gpus, {})) {
      refuse(trial, to_string(trial.gpus), given_text(trial.gpus, gpus));
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
