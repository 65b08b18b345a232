#pragma once
// The report of an API server about one Pod, as an Observation. Pure functions.

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "combu/engine.hpp"

namespace combu::kubernetes {

// If a deleted Pod still exists this long after its grace period, its node counts as silent, and the attempt
// as ended.
inline constexpr std::chrono::seconds k_host_grace{30};

struct PodReport {
  Observation observation;  // Observation::id is the name of the Pod
  std::string uid;
  bool is_kept = false;  // the annotation `combu.keep`: combu does not delete the ended Pod
  // The attempt is lost because its Pod was deleted: Kubernetes reports no disruption, and the Pod has no
  // mark of combu (k_stopped). The run may have the mark.
  bool is_deleted = false;
  // The Pod waits for its container, and its status has no reason, or only a part of the reason. Warnings
  // (Events) may have the reason.
  bool lacks_reason = false;
  // The moment from which on the report changes although the API server reports no change: the trial counts
  // as unhealthy, or the attempt counts as lost because its node is silent. nullopt: none.
  std::optional<Instant> changes_at;
};

// Reads a Pod object. `now`: the present, by the API server's clock. `is_gone`: the Pod no longer exists, and
// the object is its last state. Returns nullopt if combu did not create the Pod: labels are missing or
// invalid. Absent and malformed members of the status count as not set.
[[nodiscard]] std::optional<PodReport> read_pod(const nlohmann::json& pod, Instant now, bool is_gone = false);

// Returns the reason in an Event object (reason and message, as one line) for an Event of type Warning about
// a Pod that does not start, and sets `pod_uid` to the Pod's uid. Returns an empty string for all other
// Events.
[[nodiscard]] std::string read_warning(const nlohmann::json& event, std::string& pod_uid);

}  // namespace combu::kubernetes
