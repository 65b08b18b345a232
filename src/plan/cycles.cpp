#include "plan/cycles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "plan/inputs.hpp"
#include "plan/names.hpp"

namespace combu::plan {

namespace {

constexpr std::uint32_t k_none = ~std::uint32_t{0};

// Finds strongly connected components with Tarjan's algorithm (Depth-first search and linear graph
// algorithms, 1972). An explicit stack replaces the recursion.
class Components {
 public:
  explicit Components(const Plan& plan)
      : plan_(plan),
        order_(plan.nodes.size(), k_none),
        low_(plan.nodes.size()),
        component_(plan.nodes.size(), k_none) {
    for (TrialIndex at = 0; at < plan.nodes.size(); ++at) {
      if (order_[at] == k_none) walk_from(at);
    }
  }
  [[nodiscard]] std::uint32_t of(TrialIndex at) const { return component_[at]; }
  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(sizes_.size()); }
  [[nodiscard]] std::uint32_t size(std::uint32_t component) const { return sizes_[component]; }

 private:
  struct Visit {
    TrialIndex trial;
    std::size_t next_edge = 0;
  };

  void enter(TrialIndex at) {
    order_[at] = low_[at] = entered_++;
    open_.push_back(at);
    path_.push_back({at});
  }
  void walk_from(TrialIndex root) {
    enter(root);
    while (!path_.empty()) {
      Visit& visit = path_.back();
      const auto& needs = plan_.nodes[visit.trial].needs;
      if (visit.next_edge == needs.size()) {
        leave(visit.trial);
        continue;
      }
      const TrialIndex needed = needs[visit.next_edge++].trial;
      if (order_[needed] == k_none) {
        enter(needed);
      } else if (component_[needed] == k_none) {
        low_[visit.trial] = std::min(low_[visit.trial], order_[needed]);
      }
    }
  }
  void leave(TrialIndex at) {
    path_.pop_back();
    if (!path_.empty()) low_[path_.back().trial] = std::min(low_[path_.back().trial], low_[at]);
    if (low_[at] != order_[at]) return;
    std::uint32_t size = 0;
    TrialIndex member = k_none;
    do {
      member = open_.back();
      open_.pop_back();
      component_[member] = count();
      ++size;
    } while (member != at);
    sizes_.push_back(size);
  }

  const Plan& plan_;
  std::vector<std::uint32_t> order_;
  std::vector<std::uint32_t> low_;
  std::vector<std::uint32_t> component_;
  std::vector<std::uint32_t> sizes_;
  std::vector<TrialIndex> open_;
  std::vector<Visit> path_;
  std::uint32_t entered_ = 0;
};

// Returns a shortest cycle through `start`, found by a breadth-first search along `needs` within the
// component of `start`. All calls share `came_from`, because components do not overlap.
std::vector<TrialIndex> shortest_cycle(const Plan& plan, const Components& components, TrialIndex start,
                                       std::vector<TrialIndex>& came_from) {
  std::vector<TrialIndex> queue{start};
  for (std::size_t next = 0; next < queue.size(); ++next) {
    for (const Edge& edge : plan.nodes[queue[next]].needs) {
      if (edge.trial == start) {
        std::vector<TrialIndex> cycle;
        for (TrialIndex at = queue[next]; at != start; at = came_from[at]) cycle.push_back(at);
        cycle.push_back(start);
        std::ranges::reverse(cycle);
        return cycle;
      }
      if (components.of(edge.trial) != components.of(start) || came_from[edge.trial] != k_none) continue;
      came_from[edge.trial] = queue[next];
      queue.push_back(edge.trial);
    }
  }
  return {};
}

std::string with_thousands(std::size_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, 1, ',');
  return text;
}

std::string cycle_text(const std::vector<TrialIndex>& cycle, const Experiment& experiment) {
  constexpr std::size_t k_whole_max = 8;
  constexpr std::size_t k_head = 3;
  std::string text;
  const auto append = [&](std::size_t i) { text += shortened(experiment.trials[cycle[i]].name) + " → "; };
  if (cycle.size() <= k_whole_max) {
    for (std::size_t i = 0; i < cycle.size(); ++i) append(i);
  } else {
    for (std::size_t i = 0; i < k_head; ++i) append(i);
    text += fmt::format("… ({} more) … → ", with_thousands(cycle.size() - k_head - 1));
    append(cycle.size() - 1);
  }
  return text + shortened(experiment.trials[cycle.front()].name);
}

// Returns where the evaluated file says that trial `at` depends on trial `needed`: a path such as
// "[1].depends".
std::string path_of_edge(const Experiment& experiment, TrialIndex at, TrialIndex needed) {
  const Trial& trial = experiment.trials[at];
  const auto found = std::ranges::find(trial.depends, experiment.trials[needed].name, &Depend::trial);
  if (found != trial.depends.end() && is_of_input(trial, *found)) return found->path;
  return path_of(trial, at) + ".depends";
}

}  // namespace

std::string self_message(const Trial& trial) {
  return fmt::format("`{}` depends on itself", shortened(trial.name));
}

void report_cycles(const Plan& plan, const Experiment& experiment, std::vector<Error>& errors) {
  const Components components(plan);
  std::vector<bool> reported(components.count(), false);
  std::vector<TrialIndex> came_from(plan.nodes.size(), k_none);
  for (TrialIndex at = 0; at < plan.nodes.size(); ++at) {
    const std::uint32_t component = components.of(at);
    if (reported[component] || components.size(component) < 2) continue;
    reported[component] = true;
    const auto cycle = shortest_cycle(plan, components, at, came_from);
    errors.emplace_back(
        ErrorKind::invalid, path_of_edge(experiment, at, cycle.size() > 1 ? cycle[1] : at),
        fmt::format("the dependencies form a cycle, so none of its trials can start first: {}",
                    cycle_text(cycle, experiment)));
  }
}

}  // namespace combu::plan
