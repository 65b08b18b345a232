#pragma once
// The fields of one object: of a trial, or of `defaults`; and how a trial is laid on the defaults.

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
  Trial trial;                         // all but what stands below
  std::bitset<k_field_count> given;    // also when null or wrong: the defaults are not taken
  std::bitset<k_field_count> cleared;  // null: nor are they merged
  PairMap env;
  PairMap labels;
  std::vector<const Pairs*> env_files;  // they live in the EnvFiles
  Json params = Json::object();
  Json docker = Json::object();
  std::string shell_syntax;  // in a `cmd` that is a string: see find_shell_syntax()
};

enum class LayerKind { trial, defaults };

class LayerReader {
 public:
  LayerReader(LayerKind kind, const Caller& caller, EnvFiles& env_files, Report& report)
      : kind_(kind), caller_(caller), env_files_(env_files), report_(report) {}

  // `object` is an object; its `params` and `docker` are moved out of it.
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
  const Json* deploy_ = nullptr;  // read when all else has been
};

// Lays a trial on the defaults: env, labels and params are merged by name, `docker` at every depth (its
// sections are the engine's own, and one option of HostConfig must not take away the others); every other
// field is the trial's, or else the defaults'. Reports what only shows then.
[[nodiscard]] Trial combine(Layer&& own, const Layer& defaults, const Place& place, Report& report);

}  // namespace combu::spec
