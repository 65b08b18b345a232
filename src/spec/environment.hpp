#pragma once
// Fields that map names to values: env, env_file, labels, params.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "combu/spec.hpp"
#include "spec/json.hpp"
#include "spec/report.hpp"

namespace combu::spec {

// Pairs with unique names, in the order in which the names were first added.
class PairMap {
 public:
  [[nodiscard]] bool has(const std::string& name) const { return find(name) != k_absent; }
  // Replaces the value if the name exists.
  void put(const std::string& name, std::string value);
  void put_all(const Pairs& pairs);
  [[nodiscard]] const Pairs& pairs() const { return pairs_; }
  [[nodiscard]] Pairs take() { return std::move(pairs_); }

 private:
  static constexpr std::size_t k_absent = static_cast<std::size_t>(-1);
  [[nodiscard]] std::size_t find(const std::string& name) const;

  Pairs pairs_;
  // index of each name in `pairs_`; empty while there are few pairs
  std::unordered_map<std::string, std::size_t> index_;
};

struct EnvFile {
  Pairs pairs;
  std::string fault;  // why the file cannot be read; set only if Caller::may_lack_env_files is true
};

// The files that env_file names. Reads each file once and reports its faults once.
class EnvFiles {
 public:
  // Reads a file in the format of `docker run --env-file`. The result lives as long as this object.
  const EnvFile& read(const std::string& path, const Caller& caller, const Place& place, Report& report);

 private:
  std::unordered_map<std::string, EnvFile> files_;
};

// Returns the fault of the name of a variable for a message, or nullopt if the name is valid.
[[nodiscard]] std::optional<std::string> fault_of_variable(std::string_view name);
[[nodiscard]] PairMap read_env(const Json& value, const Caller& caller, const Place& place, Report& report);
[[nodiscard]] PairMap read_labels(const Json& value, const Place& place, Report& report);

// Returns the name of the variable that passes a param to the container, for example COMBU_PARAM_LR_MAX for
// the param "lr-max".
[[nodiscard]] std::string param_variable(std::string_view param);
// Reports params that would have the same variable name. Does not report two params that are both in
// `reported`, because an earlier call has reported them.
void check_params(const Json& params, const Json& reported, const Place& place, Report& report);
// Adds each param to `env` as a variable, unless `env` already has this variable.
void put_params(const Json& params, PairMap& env);

}  // namespace combu::spec
