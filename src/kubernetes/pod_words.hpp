#pragma once
// The words of the API about Pods: their meaning, and the texts that combu makes of them for users. Pure
// functions. The sources of the words are kubernetes: pkg/kubelet, pkg/scheduler, pkg/controller and
// pkg/registry/core/pod, and containerd: internal/cri.

#include <optional>
#include <string>
#include <string_view>

namespace combu::kubernetes {

// A reason, which is one word, and a message for people.
struct Sign {
  std::string_view reason;
  std::string_view message;
};

// combu's own reason, for which the API has none: a person or another program has deleted the Pod.
inline constexpr std::string_view k_deleted = "Deleted";

// True if status.reason of a Pod says that its node or the control plane has ended the Pod.
[[nodiscard]] bool is_disruption(std::string_view reason);
// True if `sign`, the status of a Pod, says that the kubelet has evicted the Pod because it used more of the
// node's disk than its own limit. Another try would end in the same way.
[[nodiscard]] bool is_own_limit(const Sign& sign);
// Returns the text of Observation::lost for a disrupted Pod. `sign`: status.reason, or the reason of the
// condition DisruptionTarget. `node`: the name of the Pod's node; may be empty.
[[nodiscard]] std::string lost_text(const Sign& sign, const std::string& node);
// Returns the text of Observation::lost for a Pod that a kubelet has rejected.
[[nodiscard]] std::string rejection_text(const Sign& sign, const std::string& node);
[[nodiscard]] std::string silent_node_text(const std::string& node);

// True for the end of a container that the node no longer has, for example because the node was restarted.
// The exit code is then made up.
[[nodiscard]] bool is_lost_container(std::string_view reason, std::optional<int> exit_code);
[[nodiscard]] std::string lost_container_text(const Sign& sign, const std::string& node);

// True if a waiting or terminated container cannot be started, and another try would fail, too.
[[nodiscard]] bool is_start_error(const Sign& sign);
[[nodiscard]] std::string start_error_text(const Sign& sign);

// True for the Events that say why a Pod does not start.
[[nodiscard]] bool is_start_warning(const Sign& sign);
// Returns "REASON: MESSAGE" for a container that waits. `image`: the container's image, which the text names
// if the image cannot be pulled; may be empty.
[[nodiscard]] std::string waiting_text(const Sign& sign, std::string_view image);
// True if the message does not say why the image cannot be pulled. Kubelets before 1.32 say so in Events
// only.
[[nodiscard]] bool is_part_of_reason(const Sign& sign);
// Returns "REASON: MESSAGE" for a Pod without a node. If a taint is the reason, the text ends with the
// toleration to write.
[[nodiscard]] std::string scheduling_text(const Sign& sign);

// Returns the toleration to write for the first taint that a scheduler's message names ("0/3 nodes are
// available: 3 node(s) had untolerated taint {gpu: true}"), as text of the experiment file. Skips taints that
// report the condition of a node, such as node.kubernetes.io/not-ready. Returns an empty string if the
// message names no other taint. From Kubernetes 1.35 on, the message names none.
[[nodiscard]] std::string toleration_for(std::string_view message);

// Returns "NAME@sha256:…", or the runtime's own id of an image without a registry, for an imageID.
[[nodiscard]] std::string digest_of(std::string_view image_id);

}  // namespace combu::kubernetes
