#pragma once
// The names that a word of the command line may become: those on record, or in a file that has never been
// run.

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

// Everything throws Error if the record cannot be read. The run that is meant is that of --run, else the
// newest one of the file, else the newest one.
class Candidates {
 public:
  // `run`: as --run. `progress` gets the errors in the file. It and `invocation` must outlive the object.
  Candidates(const Invocation& invocation, std::string run, Progress& progress);

  // Of the run that is meant; without one those in the file.
  [[nodiscard]] std::vector<std::string> trials();
  // Of the file, or of all files; the newest first.
  [[nodiscard]] std::vector<std::string> runs();
  [[nodiscard]] std::vector<std::string> experiments();
  // Of what is known of a trial that has been run: fields, params and metrics.
  [[nodiscard]] std::vector<std::string> names();
  // Of what is known of a trial before it is run, as trials_meant() compares it.
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
