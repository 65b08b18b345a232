#pragma once
// Names and aliases of the fields of a trial and of the file, and names of fields that are planned but not
// implemented.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "spec/json.hpp"
#include "spec/report.hpp"

namespace combu::spec {

enum class Field {
  name,
  image,
  ports,
  volumes,
  networks,
  depends,
  cmd,
  entrypoint,
  env,
  env_file,
  workdir,
  user,
  init,
  service,
  labels,
  params,
  params_file,
  pull,
  platform,
  healthcheck,
  stop_signal,
  stop_grace,
  cpus,
  memory,
  shm_size,
  gpus,
  priority,
  retries,
  timeout,
  start_deadline,
  outputs,
  metrics,
  logs,
  cache,
  inputs,
  secrets,
  deploy,
  docker,
  kubernetes,
  worker,
};
constexpr std::size_t k_field_count = static_cast<std::size_t>(Field::worker) + 1;

// Returns the trial field with this name or alias, or nullopt.
[[nodiscard]] std::optional<Field> find_field(std::string_view spelling);
// Returns the field's name in messages and in docs/experiment.md.
[[nodiscard]] std::string_view field_name(Field field);
// True if the documentation names this field of a trial or of the file, but combu does not support the field
// yet.
[[nodiscard]] bool planned_field(std::string_view spelling);
// True for a top-level field of the file, for example "experiment" or "trials".
[[nodiscard]] bool top_field(std::string_view spelling);
[[nodiscard]] const std::vector<std::string_view>& top_fields();
// True for a name that begins with "x-". Fields with such names belong to the user, and combu never reads
// them.
[[nodiscard]] bool own_field(std::string_view spelling);

// Returns the field of a trial that an unknown spelling probably means, or nullopt. Includes planned fields.
[[nodiscard]] std::optional<std::string_view> meant_field(std::string_view spelling);

[[nodiscard]] std::string unknown_field(std::string_view spelling, std::optional<std::string_view> meant);

struct Spelling {
  std::string_view spelling;
  std::string_view name;  // name of the field, the same for all its spellings
};
// The fields of a small JSON object within a trial or the file. The constructor reports unknown and repeated
// fields.
class Section {
 public:
  Section(const Json& object, std::span<const Spelling> known, const Place& place, Report& report);
  [[nodiscard]] const Json* find(std::string_view name) const;
  // True if the field is absent, and no reported unknown field is probably a misspelling of it.
  [[nodiscard]] bool lacks(std::string_view name) const;
  // Returns the field's spelling in the file for use in a Place, or `name` if the field is absent.
  [[nodiscard]] std::string_view spelling(std::string_view name) const;

 private:
  struct Given {
    Spelling field;
    const Json* value;
  };
  std::vector<Given> given_;
  std::vector<std::string_view> misspelt_;
};

}  // namespace combu::spec
