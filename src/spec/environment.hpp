#pragma once
// Names with values: env, env_file, labels, params.

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>

#include "combu/spec.hpp"
#include "spec/json.hpp"
#include "spec/report.hpp"

namespace combu::spec {

// Pairs in the order of their first coming, no name twice.
class PairMap {
 public:
  [[nodiscard]] bool has(const std::string& name) const { return find(name) != k_absent; }
  // A value that is there already is replaced.
  void put(const std::string& name, std::string value);
  void put_all(const Pairs& pairs);
  [[nodiscard]] const Pairs& pairs() const { return pairs_; }
  [[nodiscard]] Pairs take() { return std::move(pairs_); }

 private:
  static constexpr std::size_t k_absent = static_cast<std::size_t>(-1);
  [[nodiscard]] std::size_t find(const std::string& name) const;

  Pairs pairs_;
  std::unordered_map<std::string, std::size_t> index_;  // only once there are many
};

struct EnvFile {
  Pairs pairs;
  std::string fault;  // why it cannot be read, where that is no error
};

// Files named by env_file: each is read once, and its faults are told once.
class EnvFiles {
 public:
  // In docker's format; it lives as long as this does.
  const EnvFile& read(const std::string& path, const Caller& caller, const Place& place, Report& report);

 private:
  std::unordered_map<std::string, EnvFile> files_;
};

[[nodiscard]] PairMap read_env(const Json& value, const Caller& caller, const Place& place, Report& report);
[[nodiscard]] PairMap read_labels(const Json& value, const Place& place, Report& report);

// "lr-max" is COMBU_PARAM_LR_MAX in the container.
[[nodiscard]] std::string param_variable(std::string_view param);
// Tells params of one object whose variables would be the same; those of `told` among themselves are passed
// over.
void check_params(const Json& params, const Json& told, const Place& place, Report& report);
// Gives each param as its variable, except where the person has set that one.
void put_params(const Json& params, PairMap& env);

}  // namespace combu::spec
