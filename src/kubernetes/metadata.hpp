#pragma once
// The metadata of the objects that a run creates in a cluster.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "combu/engine.hpp"

namespace combu::kubernetes {

// Where the objects of a run are created.
struct Home {
  std::string name_space;
  std::string anchor_uid;  // uid of the run's anchor; empty: the objects get no owner
};

// Sets a label to label_value(text). If the label's value is not `text` itself, also sets the annotation with
// the same name to `text`.
void put_label(nlohmann::json& metadata, const char* label, std::string_view text);

// Sets the labels that all objects of a run have.
void put_run_labels(nlohmann::json& metadata, const Run& run);

// Returns an object of the run without content: with its name, its namespace, its owner, and the labels of
// the run.
[[nodiscard]] nlohmann::json run_object(const char* version, const char* kind, const std::string& name,
                                        const Run& run, const Home& home);

}  // namespace combu::kubernetes
