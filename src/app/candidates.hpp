#pragma once
// Candidates for the completion of a command line: names of trials, runs, experiments and fields. The
// candidates come from the record or, if the file has never been run, from the file.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "combu/progress.hpp"
#include "combu/record.hpp"
#include "combu/session.hpp"

namespace combu {

// All methods throw Error if the record cannot be read. The methods read the run that --run names; without
// --run, the newest run of the file; without a file, the newest run on record.
class Candidates {
 public:
  // `run`: the value of --run. `progress` shows the errors in the file. `invocation` and `progress` must
  // outlive this object.
  Candidates(const Invocation& invocation, std::string run, Progress& progress);

  // Returns the names of the run's trials; if no run is on record, the names of the file's trials.
  [[nodiscard]] std::vector<std::string> trials();
  // Returns the ids of the file's runs, the newest first. Without a file, returns the ids of all runs.
  [[nodiscard]] std::vector<std::string> runs();
  // Returns the names of all experiments on record.
  [[nodiscard]] std::vector<std::string> experiments();
  // Returns the names that a condition on recorded trials may use: fields, params and metrics.
  [[nodiscard]] std::vector<std::string> names();
  // Returns the names that a condition for trials_meant() may use: `trial`, `image` and the params.
  [[nodiscard]] std::vector<std::string> names_before();

 private:
  [[nodiscard]] const std::vector<Trial>& trials_of_file();
  [[nodiscard]] std::vector<RunEntry> entries(std::size_t count_max);
  [[nodiscard]] std::optional<RunEntry> entry_meant();

  const Invocation& invocation_;
  std::string folder_;
  std::string run_;
  Progress& progress_;
  std::unique_ptr<Record> record_;
  std::optional<std::vector<Trial>> of_file_;
};

}  // namespace combu
