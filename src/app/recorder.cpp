#include "app/recorder.hpp"

#include <fmt/format.h>

#include <utility>

namespace combu {

Recorder::Recorder(Progress& progress, Record& record, RunId run)
    : progress_(progress), record_(record), run_(std::move(run)) {}

void Recorder::fact(const Fact& fact) {
  pending_.push_back(fact);
}

void Recorder::started(TrialIndex trial, const Observation& seen) {
  Started started{
      .trial = trial, .attempt = seen.key.attempt, .inputs = seen.inputs, .digest = digest_in(seen.digest)};
  if (seen.start_took) {
    started.created_in = seen.start_took->created;
    started.started_in = seen.start_took->started;
  } else if (seen.digest.empty()) {
    return;
  }
  started_.push_back(std::move(started));
}

void Recorder::cache_result(const CacheResult& result) {
  cache_results_.push_back(result);
}

void Recorder::outputs_collected(TrialIndex trial, int attempt, const CollectionResult& collection) {
  collected_outputs_.push_back({.trial = trial, .attempt = attempt, .collection = collection});
}

void Recorder::commit() {
  if (pending_.empty() && started_.empty() && collected_outputs_.empty() && cache_results_.empty()) return;
  if (!write([this] { record_.append(run_, pending_, started_, collected_outputs_, cache_results_); }))
    return;
  pending_.clear();
  started_.clear();
  collected_outputs_.clear();
  cache_results_.clear();
}

void Recorder::end() {
  commit();
  if (pending_.empty()) (void)write([this] { record_.end(run_, real_clock().now()); });
  if (failing_)
    progress_.error(
        "the record lacks the end of this run; `combu run --resume` adds what the engine still knows");
}

template <class Write>
bool Recorder::write(const Write& write) {
  try {
    write();
    if (std::exchange(failing_, false))
      progress_.note("the record can be written again, and nothing is missing");
    return true;
  } catch (const Error& error) {
    if (!std::exchange(failing_, true))
      progress_.error(fmt::format("the run continues, but the record cannot be written: {}", error.what()));
    return false;
  }
}

}  // namespace combu
