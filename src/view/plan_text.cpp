#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "combu/json.hpp"
#include "combu/text.hpp"
#include "combu/view.hpp"

namespace combu {
namespace {

constexpr std::size_t k_waves_shown = 20;
constexpr std::size_t k_columns = 100;

std::vector<std::vector<std::string_view>> waves_of(const Experiment& experiment, const Plan& plan) {
  std::vector<std::vector<std::string_view>> waves(plan.wave_count);
  for (std::size_t i = 0; i < plan.nodes.size(); ++i)
    waves[plan.nodes[i].wave].push_back(experiment.trials[i].name);
  return waves;
}

std::size_t edge_count(const Plan& plan) {
  std::size_t count = 0;
  for (const Plan::Node& node : plan.nodes) count += node.needs.size();
  return count;
}

struct ImageUse {
  std::string_view image;
  std::size_t trials = 0;
};

std::vector<ImageUse> images_of(const Experiment& experiment) {
  std::vector<ImageUse> images;
  std::unordered_map<std::string_view, std::size_t> places;
  for (const Trial& trial : experiment.trials) {
    const auto [place, is_new] = places.try_emplace(trial.image, images.size());
    if (is_new) images.push_back({trial.image});
    ++images[place->second].trials;
  }
  return images;
}

// Returns the networks that combu creates, without the engine's built-in ones.
std::set<std::string_view> networks_of(const Experiment& experiment) {
  constexpr std::array<std::string_view, 4> k_own{"host", "none", "bridge", "default"};
  std::set<std::string_view> networks;
  for (const Trial& trial : experiment.trials)
    for (const std::string& network : trial.container.networks)
      if (std::ranges::find(k_own, network) == k_own.end()) networks.insert(network);
  return networks;
}

// Returns as many names as fit the line, and the number of the other names.
std::string wave_text(const std::vector<std::string_view>& names, std::size_t columns_max) {
  const std::vector<std::string> groups = ranges(names);
  std::string text;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::string group = clean_line(groups[i]);
    if (i > 0 && columns_of(text) + columns_of(group) + 1 > columns_max)
      return fmt::format("{} … and {} more", text, groups.size() - i);
    if (i > 0) text += ' ';
    text += group;
  }
  return text;
}

// How many containers the trials need.
struct Containers {
  std::size_t own = 0;         // number of trials with a container of their own
  std::size_t in_workers = 0;  // number of trials in workers
  // Maximum number of workers at once; nullopt: it depends on the host's CPUs or slots.
  std::optional<std::size_t> workers_max = 0;
};

Containers containers_of(const Experiment& experiment) {
  struct Shape {
    std::size_t trials = 0;
    WorkerSettings worker;
  };
  std::map<std::string, Shape> shapes;
  Containers containers;
  for (const Trial& trial : experiment.trials) {
    if (trial.has_own_container()) {
      ++containers.own;
      continue;
    }
    ++containers.in_workers;
    Shape& shape = shapes[worker_shape(trial)];
    ++shape.trials;
    shape.worker = *trial.worker;
  }
  for (const auto& [key, shape] : shapes) {
    if (shape.worker.count == 0) {
      containers.workers_max.reset();
      break;
    }
    *containers.workers_max += std::min(
        shape.worker.count, (shape.trials + shape.worker.concurrency - 1) / shape.worker.concurrency);
  }
  return containers;
}

// Returns a line with the number of containers, if trials share containers.
std::string containers_text(const Experiment& experiment) {
  const auto [own, in_workers, workers_max] = containers_of(experiment);
  if (in_workers == 0) return "";
  const std::string shared = workers_max
                                 ? fmt::format("at most {} at once", number_of(*workers_max, "worker"))
                                 : std::string("as many workers at once as the host has CPUs or slots for");
  return fmt::format("{} in workers: {}{}\n", number_of(in_workers, "trial"), shared,
                     own == 0 ? "" : fmt::format("; {} in containers of their own", number_of(own, "trial")));
}

}  // namespace

void print_plan(std::ostream& out, const Experiment& experiment, const Plan& plan) {
  const auto waves = waves_of(experiment, plan);
  out << fmt::format(
      "{} in {}, {}, {}, {}\n", number_of(experiment.trials.size(), "trial"), number_of(waves.size(), "wave"),
      number_of(edge_count(plan), "dependency", "dependencies"),
      number_of(images_of(experiment).size(), "image"), number_of(networks_of(experiment).size(), "network"));
  out << containers_text(experiment);
  const std::size_t shown = std::min(waves.size(), k_waves_shown);
  std::size_t most = 0;
  for (const auto& wave : waves) most = std::max(most, wave.size());
  const std::size_t wave_digits = fmt::format("{}", shown).size();
  const std::size_t count_width = fmt::format("{} trials", most).size();
  for (std::size_t i = 0; i < shown; ++i) {
    const std::string head = fmt::format("wave {:>{}}: {:<{}}  ", i + 1, wave_digits,
                                         number_of(waves[i].size(), "trial"), count_width);
    out << head << wave_text(waves[i], k_columns - head.size()) << '\n';
  }
  if (shown < waves.size()) out << fmt::format("… and {} more waves\n", waves.size() - shown);
}

void print_plan_json(std::ostream& out, const Experiment& experiment, const Plan& plan) {
  using nlohmann::ordered_json;
  ordered_json images = ordered_json::array();
  for (const ImageUse& use : images_of(experiment))
    images.push_back({{"image", use.image}, {"trials", use.trials}});

  // `needs` is an unordered object, because ordered_json searches all members at each insertion and would
  // take quadratic time.
  nlohmann::json needs = nlohmann::json::object();
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    nlohmann::json edges = nlohmann::json::array();
    for (const Edge& edge : plan.nodes[i].needs)
      edges.push_back(
          {{"trial", experiment.trials[edge.trial].name}, {"condition", to_string(edge.condition)}});
    if (!edges.empty()) needs[experiment.trials[i].name] = std::move(edges);
  }

  const Containers containers = containers_of(experiment);
  const ordered_json workers_max =
      containers.workers_max ? ordered_json(*containers.workers_max) : ordered_json();
  const ordered_json head{
      {"experiment", experiment.name},
      {"file", experiment.file},
      {"trials", experiment.trials.size()},
      {"edges", edge_count(plan)},
      {"images", images},
      {"networks", networks_of(experiment)},
      {"containers",
       {{"own", containers.own}, {"in_workers", containers.in_workers}, {"workers_max", workers_max}}},
      {"waves", waves_of(experiment, plan)}};
  std::string text = json_text(head);
  text.pop_back();  // removes the closing brace, so that "needs" can follow
  out << text << ",\"needs\":" << json_text(needs) << "}\n";
}

}  // namespace combu
