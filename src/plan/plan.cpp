#include "combu/plan.hpp"

#include <fmt/format.h>

#include "plan/cycles.hpp"
#include "plan/inputs.hpp"
#include "plan/names.hpp"
#include "plan/ports.hpp"

namespace combu {

namespace {

// True if a trial would wait for ever for the end of the service `needed`. The reason: combu stops a service
// only after the trials that depend on it have ended. A service with a `timeout` ends by itself.
bool waits_for_ever(const Trial& needed, Condition condition) {
  return needed.service && needed.timeout == Seconds(0) &&
         (condition == Condition::succeeded || condition == Condition::finished);
}

// Adds an edge to `plan` for each dependency. If the file repeats a dependency with the same condition, adds
// only one edge. Dependencies on unknown names are added to `unknown`; other faulty dependencies add an
// error.
void join(Plan& plan, const Experiment& experiment, const plan::Names& names, plan::UnknownNames& unknown,
          std::vector<Error>& errors) {
  constexpr TrialIndex k_nobody = ~TrialIndex{0};
  std::vector<TrialIndex> last_asked_by(plan.nodes.size(), k_nobody);
  std::vector<std::uint8_t> conditions(plan.nodes.size(), 0);
  for (TrialIndex at = 0; at < plan.nodes.size(); ++at) {
    const Trial& trial = experiment.trials[at];
    for (const Depend& depend : trial.depends) {
      const auto found = names.find(depend.trial);
      if (!found) {
        unknown.add(trial, depend);
        continue;
      }
      if (*found == at || depend.trial == trial.name) {
        errors.emplace_back(ErrorKind::invalid, depend.path, plan::self_message(trial));
        continue;
      }
      if (waits_for_ever(experiment.trials[*found], depend.condition)) {
        errors.emplace_back(
            ErrorKind::invalid, depend.path,
            fmt::format("would wait forever: `{}` is a service, which combu stops only after every trial "
                        "that depends on it has ended{} (trial `{}`)",
                        depend.trial, plan::is_of_input(trial, depend) ? "" : "; use the condition `healthy`",
                        trial.name));
        continue;
      }
      if (last_asked_by[*found] != at) {
        last_asked_by[*found] = at;
        conditions[*found] = 0;
      }
      const auto mark = static_cast<std::uint8_t>(1U << static_cast<unsigned>(depend.condition));
      if ((conditions[*found] & mark) != 0) continue;
      conditions[*found] |= mark;
      plan.nodes[at].needs.push_back({*found, depend.condition});
      plan.nodes[*found].needed_by.push_back({at, depend.condition});
    }
  }
}

// Sets Plan::Node::wave of each trial, in Kahn's topological order. Returns the number of trials that the
// order contains: all except trials on a cycle and trials that depend on a cycle.
std::size_t number_waves(Plan& plan) {
  std::vector<std::uint32_t> open(plan.nodes.size());
  std::vector<TrialIndex> ready;
  ready.reserve(plan.nodes.size());
  for (TrialIndex at = 0; at < plan.nodes.size(); ++at) {
    open[at] = static_cast<std::uint32_t>(plan.nodes[at].needs.size());
    if (open[at] == 0) ready.push_back(at);
  }
  for (std::size_t next = 0; next < ready.size(); ++next) {
    const Plan::Node& node = plan.nodes[ready[next]];
    plan.wave_count = std::max(plan.wave_count, node.wave + 1);
    for (const Edge& edge : node.needed_by) {
      Plan::Node& later = plan.nodes[edge.trial];
      later.wave = std::max(later.wave, node.wave + 1);
      if (--open[edge.trial] == 0) ready.push_back(edge.trial);
    }
  }
  return ready.size();
}

}  // namespace

Planning make_plan(const Experiment& experiment) {
  Planning planning;
  planning.plan.nodes.resize(experiment.trials.size());
  const plan::Names names(experiment, planning.errors);
  plan::UnknownNames unknown(names);
  join(planning.plan, experiment, names, unknown, planning.errors);
  unknown.report(planning.errors);
  if (number_waves(planning.plan) < planning.plan.nodes.size()) {
    plan::report_cycles(planning.plan, experiment, planning.errors);
  }
  plan::report_inputs(experiment, names, planning.errors);
  plan::report_shared_ports(experiment, planning.errors);
  return planning;
}

}  // namespace combu
