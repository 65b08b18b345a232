#pragma once

#include <string>
#include <vector>

#include "combu/progress.hpp"
#include "combu/record.hpp"

namespace combu {

// Puts a run's facts on record. If the record cannot be written the run goes on: `progress` shows this once,
// and what has not been written is kept and tried again with the next facts.
class Recorder final : public Journal {
 public:
  Recorder(Progress& progress, Record& record, RunId run);
  void fact(const Fact& fact) override;
  void started(TrialIndex trial, const Observation& seen) override;
  void outputs_collected(TrialIndex trial, int attempt, const CollectionResult& taken) override;
  void cache_result(const CacheResult& result) override;
  void commit() override;

  // The run is over.
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
