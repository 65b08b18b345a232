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
#include "schedule/service_room.hpp"

namespace combu {

namespace {

// Returns text for a message about the CPUs and memory of `capacity`. If a requested resource is missing in
// `capacity`, the text says so, for example "no memory".
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

// Returns text for a message about the engine's GPUs. If a requested id fits no GPU and the GPUs' UUIDs are
// unknown, the text says so, because the id may be a UUID.
std::string given_text(const GpuRequest& asked, std::span<const Gpu> gpus) {
  const bool all_called = std::ranges::all_of(asked.ids, [&](const std::string& id) {
    return std::ranges::any_of(gpus, [&](const Gpu& gpu) { return is_called(gpu, id); });
  });
  const bool any_uuid = std::ranges::any_of(gpus, [](const Gpu& gpu) { return !gpu.uuid.empty(); });
  return schedule::gpus_text(gpus) +
         (all_called || any_uuid || gpus.empty() ? "" : ", whose UUIDs are not known");
}

// Holds the services that need slots, and finds those that run at the same time as a trial.
class Services {
 public:
  explicit Services(const Experiment& experiment) {
    std::unordered_set<std::string_view> needed;
    for (const Trial& trial : experiment.trials)
      for (const Depend& depend : trial.depends) needed.insert(depend.trial);
    for (const Trial& trial : experiment.trials) {
      if (!trial.service) continue;
      services_.emplace(trial.name, &trial);
      if (!needed.contains(trial.name)) permanent_.push_back(&trial);
      if (!trial.slots.empty() || trial.gpus) all_.push_back(&trial);
    }
  }

  [[nodiscard]] bool none() const { return all_.empty(); }
  [[nodiscard]] const std::vector<const Trial*>& all() const { return all_; }

  // Returns the services that run at the same time as `trial` if no service is ever stopped.
  [[nodiscard]] std::vector<const Trial*> all_beside(const Trial& trial) const {
    std::vector<const Trial*> company = all_;
    std::erase(company, &trial);
    return company;
  }

  // Returns the services that run at the same time as `trial`: its direct and indirect dependencies, and the
  // services on which no trial depends.
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
    for (const Trial* service : permanent_)
      if (service != &trial) company.push_back(service);
    std::erase_if(company, [](const Trial* one) { return one->slots.empty() && !one->gpus; });
    return company;
  }

 private:
  std::unordered_map<std::string_view, const Trial*> services_;
  std::vector<const Trial*> permanent_;
  std::vector<const Trial*> all_;
};

// The sum of the slots of several trials.
struct Together {
  Slots slots;
  std::vector<const GpuRequest*> gpus;
  std::size_t gpu_count = 0;
  explicit Together(const std::vector<const Trial*>& trials) {
    for (const Trial* trial : trials) {
      slots += trial->slots;
      gpus.push_back(&*trial->gpus);
      gpu_count += trial->gpus->count;
    }
  }
};

std::string names_of(const std::vector<const Trial*>& trials) {
  constexpr std::size_t k_names_max = 5;
  std::vector<std::string> names;
  names.reserve(trials.size());
  for (const Trial* trial : trials) names.push_back(fmt::format("`{}`", trial->name));
  return list_text(names, k_names_max);
}

std::string slots_text(const std::string& slots, const std::string& of_gpus) {
  if (of_gpus.empty()) return slots;
  return slots == "nothing" ? of_gpus : fmt::format("{} and {}", slots, of_gpus);
}

}  // namespace

std::vector<Error> check_slots(const Experiment& experiment, const Slots& capacity, std::span<const Gpu> gpus,
                               Until until) {
  std::vector<Error> errors;
  struct Refusal {
    const Trial* first;
    std::size_t more;
  };
  // The index of each message in `refusals`. Thousands of trials may have the same message.
  std::map<std::string, std::size_t> place_of;
  std::vector<std::pair<std::string, Refusal>> refusals;
  const auto refuse = [&](const Trial& trial, const std::string& wanted, const std::string& given,
                          std::string_view remedy = "") {
    std::string why = fmt::format("needs {}, but the engine has {}{}", wanted, given, remedy);
    const auto [at, is_new] = place_of.try_emplace(why, refusals.size());
    if (is_new) {
      refusals.emplace_back(std::move(why), Refusal{&trial, 0});
    } else {
      ++refusals[at->second].second.more;
    }
  };
  const Services services(experiment);
  const Together all_services(services.all());
  const auto refuse_together = [&](const Trial& trial, const std::vector<const Trial*>& company,
                                   std::string_view remedy = "") {
    std::vector<const Trial*> all = company;
    all.push_back(&trial);
    const Together together(all);
    const bool of_gpus = together.gpu_count > 0;
    const std::string wanted_gpus =
        of_gpus ? fmt::format("{} GPU{}", together.gpu_count, together.gpu_count == 1 ? "" : "s") : "";
    refuse(trial,
           fmt::format("{} together with {}, which run{} at the same time",
                       slots_text(to_string(together.slots, capacity), wanted_gpus), names_of(company),
                       company.size() == 1 ? "s" : ""),
           slots_text(given_text(together.slots, capacity), of_gpus ? schedule::gpus_text(gpus) : ""),
           remedy);
  };
  const auto fits_beside = [&](const Trial& trial, std::vector<const Trial*> all) {
    all.push_back(&trial);
    const Together together(all);
    return together.slots.fit(capacity) && schedule::can_match(together.gpus, gpus, capacity.gpus);
  };
  // Checks if the capacity suffices for the trial and the services that run at the same time.
  const auto check_with_services = [&](const Trial& trial) {
    const std::vector<const Trial*> company = services.beside(trial);
    if (!company.empty() && !fits_beside(trial, company)) return refuse_together(trial, company);
    if (until == Until::ended || services.none()) return;
    Slots slots = all_services.slots;
    std::vector<const GpuRequest*> requests = all_services.gpus;
    if (!trial.service) {
      slots += trial.slots;
      requests.push_back(&*trial.gpus);
    }
    if (!slots.fit(capacity) || !schedule::can_match(requests, gpus, capacity.gpus))
      refuse_together(trial, services.all_beside(trial), "; without `run --wait`, combu stops no service");
  };
  for (const Trial& trial : experiment.trials) {
    if (!trial.slots.fit(capacity))
      refuse(trial, to_string(trial.slots, capacity), given_text(trial.slots, capacity));
    if (trial.gpus && !schedule::choose(*trial.gpus, gpus, capacity.gpus, {})) {
      refuse(trial, to_string(*trial.gpus), given_text(*trial.gpus, gpus));
    } else if (trial.slots.fit(capacity)) {
      check_with_services(trial);
    }
  }
  if (refusals.empty()) {
    const Plan plan = make_plan(experiment).plan;
    const schedule::ServiceRoom room(experiment, plan, capacity, gpus, until);
    if (const auto stuck = room.stuck()) {
      std::vector<const Trial*> beside;
      for (const TrialIndex one : stuck->beside) beside.push_back(&experiment.trials[one]);
      refuse_together(experiment.trials[stuck->trial], beside,
                      "; combu cannot stop these services before this trial starts: in every order of "
                      "starts, other trials still need them");
    }
  }
  errors.reserve(refusals.size());
  for (const auto& [why, refusal] : refusals)
    errors.emplace_back(
        ErrorKind::invalid, refusal.first->name,
        refusal.more == 0 ? why : fmt::format("{} (and {} more like this)", why, refusal.more));
  return errors;
}

}  // namespace combu
