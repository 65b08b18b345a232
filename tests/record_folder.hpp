#pragma once
// A record for a simulated run.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "combu/record.hpp"

namespace combu::test {

// A folder for one test.
class Folder {
 public:
  explicit Folder(const std::string& name)
      : path_(testing::TempDir() + name + "." + std::to_string(getpid())) {}
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline RunEntry entry_of(const combu::Run& run) {
  RunEntry entry;
  entry.id = run.id;
  entry.experiment = run.experiment.name;
  entry.file = run.experiment.file;
  return entry;
}

// Records that these trials wait again, each for a new attempt.
inline std::vector<Fact> reopened(const std::vector<TrialIndex>& trials) {
  std::vector<Fact> facts;
  for (const TrialIndex trial : trials)
    facts.push_back({.trial = trial, .state = TrialState::waiting, .is_reset = true});
  return facts;
}

}  // namespace combu::test
