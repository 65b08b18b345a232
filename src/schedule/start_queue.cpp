#include "schedule/start_queue.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "combu/schedule.hpp"
#include "schedule/gpus.hpp"

namespace combu::schedule {
namespace {

// Limits of one scan of the queue: the number of lines, and the number of services that are put back into the
// queue. The limits do not apply if no running attempt will free slots.
constexpr std::size_t k_lines_looked_at_max = 1000;
constexpr std::size_t k_set_aside_looked_at_max = 100;

using Kind = Explanation::Kind;

}  // namespace

StartQueue::StartQueue(const Experiment& experiment, const Plan& plan, const TrialTable& trials,
                       const SlotRequests& requests, const Holdings& holdings, const ServiceRoom& room,
                       std::span<const Gpu> gpus)
    : plan_(plan),
      trials_(trials),
      requests_(requests),
      holdings_(holdings),
      room_(room),
      gpus_(gpus.begin(), gpus.end()),
      lines_(experiment) {}

void StartQueue::push(TrialIndex trial) {
  lines_.push(trial, requests_.of(trial), trials_.limit_of(trial));
}

std::optional<StartQueue::Start> StartQueue::pop(std::size_t parallel_max, bool is_idle) {
  return pop(parallel_max, is_idle, nullptr);
}

Explanation StartQueue::explain(TrialIndex trial, std::size_t parallel_max, bool is_idle) const {
  StartQueue copy = *this;
  Asked asked{.trial = trial};
  const auto start = copy.pop(parallel_max, is_idle, &asked);
  if (start && start->trial == trial) return {.kind = Kind::nothing};
  if (asked.found && asked.found->kind != Kind::nothing)
    return {.kind = asked.found->kind, .first = asked.found->first};
  if (start) return {.kind = Kind::turn, .first = start->trial};
  return {.kind = set_aside_.contains(lines_.position_of(trial)) ? Kind::room : Kind::turn};
}

std::optional<StartQueue::Start> StartQueue::pop(std::size_t parallel_max, bool is_idle, Asked* asked) {
  auto start = scan(parallel_max, Horizon::now, asked);
  return !start && is_idle ? scan(parallel_max, Horizon::in_turn, asked) : start;
}

bool StartQueue::is_in(TrialIndex trial, const Line& line) const {
  const Trial& it = trials_.trial(trial);
  return line.service == it.service && line.slots == requests_.of(trial) && line.gpus == *it.gpus &&
         line.limit == trials_.limit_of(trial);
}

std::optional<StartQueue::Start> StartQueue::scan(std::size_t parallel_max, Horizon horizon, Asked* asked) {
  return_set_aside(horizon);
  Scan scan{.horizon = horizon, .parallel_max = parallel_max};
  std::size_t left =
      horizon == Horizon::now ? k_lines_looked_at_max : std::numeric_limits<std::size_t>::max();
  Line* started = nullptr;
  for (auto at = lines_.begin(); at != lines_.end() && left > 0 && started == nullptr;) {
    Line& line = lines_.at(at);
    const TrialIndex head = line.positions.top().trial;
    const bool is_queued = trials_.state(head) == TrialState::ready && requests_.of(head) == line.slots;
    if (!is_queued || lacks_room(line, horizon)) {
      at = lines_.drop_head(at);
      if (is_queued) set_aside(head, horizon);
      if (is_queued && asked != nullptr && asked->trial == head) asked->found = {.kind = Kind::room};
      continue;
    }
    const Obstacle obstacle = judge(line, scan);
    if (asked != nullptr && is_in(asked->trial, line)) asked->found = obstacle;
    if (obstacle.kind == Kind::nothing) {
      started = &line;
      continue;
    }
    if (obstacle.kind == Kind::slots) scan.waiting.push_back(&line);
    ++at;
    --left;
  }
  count_overtakes(scan.waiting, started, holdings_);
  if (started == nullptr) return std::nullopt;
  Start start{.trial = lines_.pop(*started), .slots = started->slots};
  start.slots.gpus = std::move(scan.gpus);
  return start;
}

StartQueue::Obstacle StartQueue::judge(const Line& line, Scan& scan) const {
  const bool has_place = line.service || scan.parallel_max == 0 || trials_.alive() < scan.parallel_max;
  if (!has_place) return {.kind = Kind::place};
  if (!trials_.has_place_in(line.limit)) return {.kind = Kind::limit};
  if (!holdings_.is_free(line)) return {.kind = Kind::slots};
  if (const Line* first = holding_back(line, scan))
    return {.kind = Kind::overtaken, .first = first->positions.top().trial};
  if (line.gpus.empty() || !holdings_.are_counted()) return {};
  auto gpus = choose_gpus(line, scan);
  if (!gpus) return {.kind = Kind::room};
  scan.gpus = std::move(*gpus);
  return {};
}

// Returns a line before `line` in the queue that has been overtaken too often, and that waits for slots that
// a start from `line` would take. Returns nullptr if there is no such line.
const StartQueue::Line* StartQueue::holding_back(const Line& line, const Scan& scan) const {
  const auto first = std::ranges::find_if(scan.waiting, [&](const Line* one) {
    return was_overtaken_enough(*one) && holdings_.is_free_in_time(*one) && holdings_.holds_up(line, *one);
  });
  return first == scan.waiting.end() ? nullptr : *first;
}

bool StartQueue::was_overtaken_enough(const Line& line) const {
  return line.overtakes == Planner::k_overtakes_max || !are_overtakes_known_;
}

void StartQueue::count_overtakes(const std::vector<Line*>& waiting, const Line* started,
                                 const Holdings& holdings) {
  for (Line* line : waiting) {
    const TrialIndex head = line->positions.top().trial;
    if (std::exchange(line->overtaken, std::optional(head)) != head) line->overtakes = 0;
    if (started != nullptr && holdings.holds_up(*started, *line))
      line->overtakes = std::min(line->overtakes + 1, Planner::k_overtakes_max);
  }
}

// GPUs that the first waiting line could use are chosen last. For a trial that may keep running, the function
// chooses GPUs that leave enough GPUs for the trials that depend on it.
std::optional<std::vector<std::string>> StartQueue::choose_gpus(const Line& line, const Scan& scan) const {
  const GpuRequest spared = scan.waiting.empty() ? GpuRequest{} : scan.waiting.front()->gpus;
  const TrialIndex head = line.positions.top().trial;
  if (trials_.is_awaited(head)) return holdings_.choose_gpus(line.gpus, spared, {});
  const Slots left = holdings_.left_in_time();
  const auto suits = [&](const std::vector<std::string>& gpus) {
    if (line.service) return room_.may_start(head, left, scan.horizon, gpus);
    Slots others = left;
    others -= {.cpus = {}, .memory = {}, .gpus = gpus};
    return std::ranges::all_of(plan_.nodes[head].needed_by, [&](const Edge& user) {
      return can_match({&*trials_.trial(user.trial).gpus}, gpus_, others.gpus);
    });
  };
  auto chosen = holdings_.choose_gpus(line.gpus, spared, suits);
  return chosen || line.service ? chosen : holdings_.choose_gpus(line.gpus, spared, {});
}

// ---- Services without room

bool StartQueue::lacks_room(const Line& line, Horizon horizon) const {
  return line.service && holdings_.are_counted() &&
         !room_.may_start(line.positions.top().trial, holdings_.left_in_time(), horizon);
}

// Takes the service out of its line, so that the service does not delay other services.
void StartQueue::set_aside(TrialIndex trial, Horizon horizon) {
  set_aside_.insert(lines_.position_of(trial));
  if (horizon == Horizon::now) room_seen_in_turn_.reset();
}

// If the free slots have changed since the last scan, puts services that were set aside back into the queue.
void StartQueue::return_set_aside(Horizon horizon) {
  if (set_aside_.empty()) return;
  std::optional<Room>& seen = horizon == Horizon::now ? room_seen_ : room_seen_in_turn_;
  Room room{.left = holdings_.left_in_time(), .changes = room_.changes()};
  if (seen == room) return;
  seen = std::move(room);
  std::size_t left = horizon == Horizon::now ? k_set_aside_looked_at_max : set_aside_.size();
  for (; left > 0 && !set_aside_.empty(); --left)
    push(set_aside_.extract(std::prev(set_aside_.end())).value().trial);
}

}  // namespace combu::schedule
