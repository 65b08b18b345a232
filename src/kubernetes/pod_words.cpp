#include "kubernetes/pod_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "combu/base.hpp"

namespace combu::kubernetes {
namespace {

using Words = std::string_view;

constexpr int k_exit_made_up = 255;  // containerd's exit code for a container that it has lost

constexpr std::array k_disruptions{Words("Evicted"),  Words("Preempting"),   Words("Terminated"),
                                   Words("Shutdown"), Words("NodeShutdown"), Words("NodeLost")};
constexpr std::array k_evictions{Words("Evicted"), Words("EvictionByEvictionAPI"),
                                 Words("DeletionByTaintManager"), Words("DeletionByDeviceTaintManager")};
constexpr std::array k_shutdowns{Words("Terminated"), Words("Shutdown"), Words("NodeShutdown")};
constexpr std::array k_start_failures{Words("StartError"), Words("ContainerCannotRun"),
                                      Words("RunContainerError")};
constexpr std::array k_create_failures{Words("InvalidImageName"), Words("ErrImageNeverPull"),
                                       Words("CreateContainerConfigError"), Words("CreateContainerError")};
// Parts of messages about failures that end by themselves: the kubelet has not read a ConfigMap or Secret
// yet, or the runtime is slow.
constexpr std::array k_passing{Words("failed to sync "), Words("timed out waiting for the condition"),
                               Words("context deadline exceeded"), Words("is reserved for")};
// Beginnings of messages that name only the layer through which the message has passed.
constexpr std::array k_layers{Words("failed to create containerd task: "),
                              Words("failed to create task for container: "),
                              Words("failed to create shim task: "),
                              Words("OCI runtime create failed: "),
                              Words("container create failed: "),
                              Words("runc create failed: "),
                              Words("runc run failed: "),
                              Words("unable to start container process: "),
                              Words("error during container init: "),
                              Words("Error response from daemon: ")};

template <std::size_t count>
bool is_any(Words word, const std::array<Words, count>& words) {
  return std::ranges::find(words, word) != words.end();
}

bool has(Words text, Words part) {
  return text.find(part) != Words::npos;
}

// Returns the message without the names of the layers through which it has passed.
std::string plain_message(Words message) {
  const auto skip = [&](Words beginning) {
    if (!message.starts_with(beginning)) return false;
    message.remove_prefix(beginning.size());
    return true;
  };
  while (std::ranges::any_of(k_layers, skip)) {
  }
  constexpr Words k_end = ": unknown";
  if (message.ends_with(k_end)) message.remove_suffix(k_end.size());
  constexpr Words k_call = "rpc error: code = ";
  constexpr Words k_description = " desc = ";
  std::string plain(message);
  for (std::size_t at = plain.find(k_call); at != std::string::npos; at = plain.find(k_call, at)) {
    const std::size_t description = plain.find(k_description, at);
    if (description == std::string::npos) break;
    plain.erase(at, description + k_description.size() - at);
  }
  return plain;
}

std::string with_message(std::string text, Words message) {
  if (const Words words = trimmed(message); !words.empty()) {
    if (!text.empty()) text += ": ";
    text += words;
  }
  text = one_line(text);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string node_text(const std::string& node) {
  return node.empty() ? "its node" : "the node " + node;
}

bool is_pull_reason(Words reason) {
  return reason == "ErrImagePull" || reason == "ImagePullBackOff";
}

// True for a taint that Kubernetes sets while a node is not usable. No Pod should tolerate such a taint.
bool is_node_condition(Words key) {
  return key.starts_with("node.kubernetes.io/") || key.starts_with("node.cloudprovider.kubernetes.io/");
}

bool is_taint_word(Words text) {
  return std::ranges::all_of(text, [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
           (letter >= '0' && letter <= '9') || has("-_./", Words(&letter, 1));
  });
}

// Removes the end of a scheduler's message: why ending other Pods would not help.
Words without_preemption(Words message) {
  for (const Words end : {". no new claims to deallocate", ". preemption: "})
    message = message.substr(0, message.find(end));
  return message;
}

std::string toleration_advice(Words message) {
  if (const std::string toleration = toleration_for(message); !toleration.empty())
    return fmt::format("; to allow it, write kubernetes: {{pod: {{tolerations: [{}]}}}}", toleration);
  if (!has(message, "untolerated taint(s)") && !has(message, "taints that the pod didn't tolerate"))
    return {};
  return "; to allow a taint, write kubernetes: {pod: {tolerations: [{key: \"KEY\", operator: \"Exists\"}]}}"
         " (`kubectl describe nodes` shows the taints)";
}

}  // namespace

bool is_disruption(Words reason) {
  return is_any(reason, k_disruptions);
}

// https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/eviction/eviction_manager.go
bool is_own_limit(const Sign& sign) {
  return sign.reason == "Evicted" &&
         (sign.message.starts_with("Usage of EmptyDir volume ") ||
          sign.message.starts_with("Pod ephemeral local storage usage exceeds ") ||
          sign.message.find(" exceeded its local ephemeral storage limit ") != Words::npos);
}

std::string lost_text(const Sign& sign, const std::string& node) {
  const std::string place = node_text(node);
  if (is_any(sign.reason, k_evictions))
    return with_message("the pod was evicted from " + place, sign.message);
  if (sign.reason == "Preempting" || sign.reason == "PreemptionByScheduler")
    return with_message("the pod was preempted on " + place, sign.message);
  if (is_any(sign.reason, k_shutdowns)) return with_message(place + " was shut down", sign.message);
  if (sign.reason == "NodeLost") return with_message(silent_node_text(node), sign.message);
  if (sign.reason == "DeletionByPodGC") return with_message("the pod was lost with " + place, sign.message);
  if (sign.reason == k_deleted) return "the pod was deleted, but not by combu";
  return with_message(fmt::format("the pod was ended on {}: {}", place, sign.reason), sign.message);
}

std::string rejection_text(const Sign& sign, const std::string& node) {
  Words message = sign.message;
  constexpr Words k_rejected = "Pod was rejected: ";
  if (message.starts_with(k_rejected)) message.remove_prefix(k_rejected.size());
  return with_message(fmt::format("{} rejected the pod: {}", node_text(node), sign.reason), message);
}

std::string silent_node_text(const std::string& node) {
  return node_text(node) + " does not answer";
}

bool is_lost_container(Words reason, std::optional<int> exit_code) {
  return reason == "ContainerStatusUnknown" || (reason == "Unknown" && exit_code == k_exit_made_up);
}

std::string lost_container_text(const Sign& sign, const std::string& node) {
  return with_message(node_text(node) + " lost the container", sign.message);
}

bool is_start_error(const Sign& sign) {
  if (is_any(sign.reason, k_start_failures)) return true;
  return is_any(sign.reason, k_create_failures) &&
         std::ranges::none_of(k_passing, [&](Words part) { return has(sign.message, part); });
}

std::string start_error_text(const Sign& sign) {
  const std::string message = plain_message(sign.message);
  if (is_any(sign.reason, k_start_failures) && !message.empty()) return one_line(message);
  return with_message(std::string(sign.reason), message);
}

bool is_start_warning(const Sign& sign) {
  return sign.reason.starts_with("Failed") || sign.reason == "NetworkNotReady";
}

std::string waiting_text(const Sign& sign, Words image) {
  const std::string message = plain_message(sign.message);
  std::string text(sign.reason);
  if (is_pull_reason(sign.reason) && !image.empty() && !has(message, image))
    text += fmt::format(": {}", image);
  return with_message(std::move(text), message);
}

bool is_part_of_reason(const Sign& sign) {
  return is_pull_reason(sign.reason) && !has(sign.message, ": ");
}

std::string scheduling_text(const Sign& sign) {
  const Words message = without_preemption(sign.message);
  const bool is_unschedulable = sign.reason.empty() || sign.reason == "Unschedulable";
  if (!is_unschedulable) return with_message(std::string(sign.reason), message);
  return with_message(message.empty() ? "Unschedulable" : "", message) + toleration_advice(message);
}

std::string toleration_for(Words message) {
  constexpr Words k_begin = "taint {";
  for (std::size_t at = message.find(k_begin); at != Words::npos; at = message.find(k_begin, at)) {
    at += k_begin.size();
    const std::size_t end = message.find('}', at);
    if (end == Words::npos) break;
    const Words taint = message.substr(at, end - at);
    const std::size_t colon = std::min(taint.find(':'), taint.size());
    const Words key = trimmed(taint.substr(0, colon));
    const Words value = trimmed(taint.substr(std::min(colon + 1, taint.size())));
    if (key.empty() || !is_taint_word(key) || !is_taint_word(value) || is_node_condition(key)) continue;
    if (value.empty()) return fmt::format(R"({{key: "{}", operator: "Exists"}})", key);
    return fmt::format(R"({{key: "{}", operator: "Equal", value: "{}"}})", key, value);
  }
  return {};
}

std::string digest_of(Words image_id) {
  const std::size_t scheme = image_id.find("://");
  if (scheme != Words::npos) image_id.remove_prefix(scheme + 3);
  return std::string(has(image_id, "sha256:") ? image_id : Words());
}

}  // namespace combu::kubernetes
