#pragma once
// The field `secrets` of the file and of a trial. This code never reads the value of a secret.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "combu/spec.hpp"
#include "spec/json.hpp"
#include "spec/report.hpp"

namespace combu::spec {

// Reads a trial's field `secrets`: names, {source, target} or {source, env}.
[[nodiscard]] std::vector<Secret> read_secrets(const Json& value, const Place& place, Report& report);

// The sources of the file, and the checks of the secrets of its trials. Call read() if the file has the field
// `secrets`, then take() for each trial in the order of the file, then finish().
class SecretChecks {
 public:
  void read(const Json& value, const Caller& caller, const Place& place, Report& report);
  // Sets Secret::is_in_cluster. Reports each fault of an element of `secrets` once, even if several trials
  // have the element from the defaults. `trial`: merged with the defaults.
  void take(Trial& trial, Report& report);
  // Warns of sources that no trial uses, and returns all sources.
  [[nodiscard]] std::vector<SecretSource> finish(Report& report);

 private:
  [[nodiscard]] std::string unknown_source(const std::string& name) const;

  std::vector<SecretSource> sources_;
  std::map<std::string, std::size_t> index_;  // of each source in `sources_`
  std::set<std::string> names_;               // of all sources, also of those with faults
  std::set<std::string> used_;
  std::set<std::string> reported_;  // values of Secret::path
};

}  // namespace combu::spec
