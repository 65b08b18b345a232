#pragma once
// Reads the fields of one object (a trial or `defaults`), and merges a trial with the defaults.

#include <array>
#include <bitset>
#include <string>
#include <string_view>
#include <vector>

#include "combu/spec.hpp"
#include "spec/environment.hpp"
#include "spec/fields.hpp"
#include "spec/json.hpp"
#include "spec/report.hpp"

namespace combu::spec {

struct Layer {
  Trial trial;                         // the trial without the fields that other members of Layer hold
  std::bitset<k_field_count> given;    // fields that replace the defaults, even if null or invalid
  std::bitset<k_field_count> cleared;  // fields that are null: they do not get the value of `defaults`
  PairMap env;
  PairMap labels;
  // the variables of each file in env_file; the EnvFiles object owns them
  std::vector<const Pairs*> env_files;
  Json params = Json::object();
  Json docker = Json::object();
  Json kubernetes = Json::object();  // members may be null; see read_kubernetes()
  std::string shell_syntax;          // shell syntax in a `cmd` that is a string; see find_shell_syntax()
};

enum class LayerKind { trial, defaults };

class LayerReader {
 public:
  LayerReader(LayerKind kind, const Caller& caller, EnvFiles& env_files, Report& report)
      : kind_(kind), caller_(caller), env_files_(env_files), report_(report) {}

  // Reads `object`, which must be a JSON object. Moves the values of `params` and `docker` out of `object`.
  [[nodiscard]] Layer read(Json& object, const Place& place);

 private:
  void read_unknown(const std::string& spelling, const Json& value, const Place& place);
  void read_field(Field field, Json& value, const Place& place);
  void read_name(const Json& value, const Place& place);
  void read_checked(const Json& value, std::optional<std::string> (*fault_of)(std::string_view),
                    const Place& place, std::string& target);
  void read_env_files(const Json& value, const Place& place);
  void read_workdir(const Json& value, const Place& place);
  void read_user(const Json& value, const Place& place);
  void lay_deploy(const Place& place);
  void read_pull(const Json& value, const Place& place);
  void read_object(Json& value, const Place& place, Json& target);

  LayerKind kind_;
  const Caller& caller_;
  EnvFiles& env_files_;
  Report& report_;
  Layer layer_;
  const Json* deploy_ = nullptr;  // value of the field `deploy`, which is read after all other fields
};

// Merges a trial with the defaults, and reports faults that only the merged trial shows. Merges env, labels
// and params by name. Merges `docker` and `kubernetes` recursively, so that one option of HostConfig does not
// remove the other options. Every other field comes from the trial if the trial has the field, else from the
// defaults.
[[nodiscard]] Trial combine(Layer&& own, const Layer& defaults, const Place& place, Report& report);

}  // namespace combu::spec
