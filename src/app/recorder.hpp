#pragma once

#include <string>
#include <vector>

#include "combu/progress.hpp"
#include "combu/record.hpp"

namespace combu {

// Records the facts of a run. If the record cannot be written, the run continues and `progress` shows one
// error. The recorder keeps the unwritten facts and writes them with the next facts.
class Recorder final : public Journal {
 public:
  Recorder(Progress& progress, Record& record, RunId run);
  void fact(const Fact& fact) override;
  void started(TrialIndex trial, const Observation& seen) override;
  void outputs_collected(TrialIndex trial, int attempt, const CollectionResult& collection) override;
  void cache_result(const CacheResult& result) override;
  void commit() override;

  // Records the end of the run.
  void end();

 private:
  template <class Write>
  bool write(const Write& write);

  Progress& progress_;
  Record& record_;
  RunId run_;
  std::vector<Fact> pending_;
  std::vector<Started> started_;
  std::vector<CollectedOutputs> collected_outputs_;
  std::vector<CacheResult> cache_results_;
  bool failing_ = false;
};

}  // namespace combu
