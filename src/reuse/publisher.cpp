#include "reuse/publisher.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <utility>

#include "combu/inputs.hpp"
#include "combu/text.hpp"

namespace combu {
namespace {

constexpr std::size_t k_requests_at_once = 16;
// consecutive failures after which the server counts as unavailable
constexpr std::size_t k_failures_max = 3;
constexpr std::size_t k_batch_max = 64;

}  // namespace

Publisher::~Publisher() {
  {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  const std::size_t count = unpublished_ + waiting_.size();
  if (count > 0)
    context_.progress.remark(fmt::format("publishing {} failed, so other runs may repeat equal trials: {}",
                                         number_of(count, "trial"), fault_));
}

void Publisher::add(const Trial& trial) {
  const std::scoped_lock lock(mutex_);
  waiting_.push_back(&trial);
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  changed_.notify_all();
}

void Publisher::work() {
  try {
    Record record(context_.state_folder, Record::Use::reading);
    for (std::size_t failures = 0; failures < k_failures_max && !context_.stop.stop_requested();) {
      const std::vector<const Trial*> trials = next();
      if (trials.empty()) return;
      const std::vector<Success> successes = successes_of(record, trials);
      std::atomic<std::size_t> failed = 0;
      in_parallel(successes.size(), k_requests_at_once, [&](std::size_t i) {
        if (!put(successes[i])) ++failed;
      });
      failures = failed < successes.size() ? 0 : failures + failed;
    }
  } catch (const std::exception& error) {
    const std::scoped_lock lock(mutex_);
    fault_ = error.what();
  }
  if (!context_.stop.stop_requested()) return;
  const std::scoped_lock lock(mutex_);
  fault_ = "interrupted";
}

std::vector<Publisher::Success> Publisher::successes_of(Record& record,
                                                        const std::vector<const Trial*>& trials) const {
  std::vector<Success> successes;
  for (const Trial* trial : trials) {
    const auto known = record.known(context_.run.id, trial->name);
    const auto entries = record.trials(context_.run.id, trial->name);
    if (known && !known->hash.empty() && !entries.empty())
      successes.push_back({.trial = trial, .hash = known->hash, .attempt = entries.front().attempt});
  }
  return successes;
}

bool Publisher::put(const Success& success) {
  const Trial& trial = *success.trial;
  const auto telemetry = [&] {
    std::string packed =
        context_.telemetry == nullptr ? "" : context_.telemetry->packed(trial.name, success.attempt);
    if (packed.empty() && trial.metrics)
      throw Error(ErrorKind::not_found, trial.name, "the trial's log and metrics are not stored");
    return packed;
  };
  try {
    cache_index_.put(
        success.hash,
        fmt::format("{}/{}", results_folder(context_.run.experiment, context_.run.id), trial.name), telemetry,
        static_cast<bool>(trial.metrics), context_.stop);
    return true;
  } catch (const std::exception& error) {
    const std::scoped_lock lock(mutex_);
    ++unpublished_;
    fault_ = error.what();
    return false;
  }
}

std::vector<const Trial*> Publisher::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ended_ || !waiting_.empty(); });
  const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(std::min(waiting_.size(), k_batch_max));
  std::vector<const Trial*> trials(waiting_.begin(), end);
  waiting_.erase(waiting_.begin(), end);
  return trials;
}

}  // namespace combu
