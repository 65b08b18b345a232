#include "kubernetes/metadata.hpp"

#include <utility>

#include "combu/json.hpp"
#include "kubernetes/names.hpp"

namespace combu::kubernetes {

using nlohmann::json;

void put_label(json& metadata, const char* label, std::string_view text) {
  std::string value = label_value(text);
  if (value != text) metadata["annotations"][label] = text;
  metadata["labels"][label] = std::move(value);
}

void put_run_labels(json& metadata, const Run& run) {
  put_label(metadata, k_experiment, run.experiment.name);
  put_label(metadata, k_file, run.experiment.file);
  put_label(metadata, k_run, run.id.text());
}

json run_object(const char* version, const char* kind, const std::string& name, const Run& run,
                const Home& home) {
  json metadata = {{"name", name}};
  if (!home.name_space.empty()) metadata["namespace"] = home.name_space;
  if (!home.anchor_uid.empty())
    metadata["ownerReferences"] = json::array({{{"apiVersion", "v1"},
                                                {"kind", "ConfigMap"},
                                                {"name", anchor_name(run.id)},
                                                {"uid", home.anchor_uid}}});
  put_run_labels(metadata, run);
  return {{"apiVersion", version}, {"kind", kind}, {"metadata", std::move(metadata)}};
}

}  // namespace combu::kubernetes
