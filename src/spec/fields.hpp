#pragma once
// The names of fields: a trial's and the whole file's, their aliases, and those that are known but not built
// yet.

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
  deploy,
  docker,
};
constexpr std::size_t k_field_count = static_cast<std::size_t>(Field::docker) + 1;

// A spelling of a trial's field, or nullopt.
[[nodiscard]] std::optional<Field> find_field(std::string_view spelling);
// The name by which messages and docs/experiment.md know a field.
[[nodiscard]] std::string_view field_name(Field field);
// Whether the docs name it as a field of a trial or of the whole, and combu cannot do it yet.
[[nodiscard]] bool planned_field(std::string_view spelling);
// A field of the whole file: "experiment", "defaults", "trials", "parallel", …
[[nodiscard]] bool top_field(std::string_view spelling);
[[nodiscard]] const std::vector<std::string_view>& top_fields();
// "x-…": the person's own, never read.
[[nodiscard]] bool own_field(std::string_view spelling);

// The field of a trial that an unknown spelling is likely to mean, also one that is only planned.
[[nodiscard]] std::optional<std::string_view> meant_field(std::string_view spelling);

[[nodiscard]] std::string unknown_field(std::string_view spelling, std::optional<std::string_view> meant);

struct Spelling {
  std::string_view spelling;
  std::string_view name;  // the same for all spellings of one field
};
// The fields of a small object, by their names; unknown and repeated ones are reported. nullptr: not given,
// or null.
class Section {
 public:
  Section(const Json& object, std::span<const Spelling> known, const Place& place, Report& report);
  [[nodiscard]] const Json* find(std::string_view name) const;
  // Neither given nor, as has been reported, misspelt.
  [[nodiscard]] bool lacks(std::string_view name) const;
  // As the file spells it, for a place; `name` itself when it is not given.
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
