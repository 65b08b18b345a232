#include "kubernetes/pod_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "combu/json.hpp"
#include "kubernetes/names.hpp"
#include "kubernetes/pod_words.hpp"

namespace combu::kubernetes {
namespace {

using nlohmann::json;

constexpr int k_exit_killed = 137;
constexpr int k_exit_terminated = 143;
constexpr double k_seconds_max = 1e9;
// Kubernetes' defaults for a probe.
constexpr double k_period_default = 10;
constexpr double k_threshold_default = 3;

// ---- Members

// Returns nullopt if the member is no timestamp. A container that never ran has the timestamp 1970-01-01.
std::optional<Instant> time_of(const json& object, const char* name) {
  const std::optional<Instant> time = parse_timestamp(text_of(object, name));
  return time && *time > Instant{} ? time : std::nullopt;
}

double number_of(const json& object, const char* name, double absent) {
  const json& value = member_of(object, name);
  return value.is_number() ? std::clamp(value.get<double>(), 0.0, k_seconds_max) : absent;
}

std::optional<int> exit_code_of(const json& terminated) {
  try {
    using Limits = std::numeric_limits<int>;
    return static_cast<int>(integer_of(member_of(terminated, "exitCode"), Limits::min(), Limits::max()));
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

// Returns `at` + `duration`, or the last moment that Instant can hold. `at` must be later than the epoch.
Instant later_by(Instant at, Seconds duration) {
  if (duration >= Instant::max() - at) return Instant::max();
  return at + std::chrono::duration_cast<Instant::duration>(duration);
}

// ---- The report

// Reads one Pod object.
class PodReader {
 public:
  PodReader(const json& pod, Instant now, bool is_gone)
      : now_(now),
        is_gone_(is_gone),
        metadata_(member_of(pod, "metadata")),
        spec_(member_of(pod, "spec")),
        status_(member_of(pod, "status")),
        annotations_(member_of(metadata_, "annotations")),
        container_(element_of(member_of(spec_, "containers"), "name", k_container)),
        shown_(element_of(member_of(status_, "containerStatuses"), "name", k_container)),
        is_restarted_(text_of(annotations_, k_keep) == "volume" &&
                      member_of(member_of(shown_, "lastState"), "terminated").is_object()),
        state_(member_of(shown_, is_restarted_ ? "lastState" : "state")),
        phase_(text_of(status_, "phase")) {}

  std::optional<PodReport> read() {
    if (!read_identity()) return std::nullopt;
    read_settings();
    disruption_ = disruption_of(status_reason(), condition("DisruptionTarget"));
    if (!disruption_ && is_deleted_by_others())
      disruption_ = Disruption{.sign = {k_deleted, {}}, .began_at = deletion_began_at()};
    if (!read_end()) member_of(state_, "running").is_object() ? read_running() : read_pending();
    if (is_gone_) read_removal();
    if (seen_.phase == Phase::ended && is_own_limit(status_reason()))
      seen_.placement.limit_error = lost_text(status_reason(), seen_.placement.host);
    seen_.placement.is_restarted = is_restarted_;
    seen_.placement.keeps_files = seen_.phase == Phase::ended && text_of(annotations_, k_keep) == "volume" &&
                                  phase_ == "Running" && !deleted_at_ && !is_gone_;
    report_.is_deleted = !seen_.lost.empty() && disruption_ && disruption_->sign.reason == k_deleted;
    const bool may_have_result = seen_.phase == Phase::ended || combu::is_supervised(seen_);
    seen_.is_unacknowledged = may_have_result && (!report_.is_kept || is_started_again_);
    return std::move(report_);
  }

 private:
  // A disruption of the Pod, as Kubernetes reports it.
  struct Disruption {
    Sign sign;
    bool is_by_kubelet = false;  // the kubelet sets the sign after the container has ended
    std::optional<Instant> began_at = std::nullopt;
  };

  [[nodiscard]] const json& condition(std::string_view type) const {
    return element_of(member_of(status_, "conditions"), "type", type);
  }
  [[nodiscard]] Sign status_reason() const {
    return {text_of(status_, "reason"), text_of(status_, "message")};
  }
  // False if combu has marked the Pod, but the stop or deletion that should follow has failed.
  [[nodiscard]] bool is_stopped_by_combu() const {
    const bool is_ending = deleted_at_ || is_gone_ || number_of(spec_, "activeDeadlineSeconds", 0) == 1;
    return is_ending && !text_of(annotations_, k_stopped).empty();
  }
  [[nodiscard]] bool is_past_deadline() const { return status_reason().reason == "DeadlineExceeded"; }
  // True if the Pod was deleted before its container had ended, and combu has not marked the Pod.
  [[nodiscard]] bool is_deleted_by_others() const {
    const bool is_removed = is_gone_ && !member_of(state_, "terminated").is_object();
    return (is_removed || deletion_began_at()) && !is_stopped_by_combu() && !is_past_deadline();
  }
  [[nodiscard]] bool is_ended_by_signal() const {
    return seen_.exit_code == k_exit_killed || seen_.exit_code == k_exit_terminated;
  }
  // True if the container ended by itself, and combu stopped the Pod afterwards. The kubelet may then report
  // a passed deadline, too. The API's timestamps are whole seconds.
  [[nodiscard]] bool is_stopped_after_end() const {
    const std::optional<Instant> stopped_at = time_of(annotations_, k_stopped);
    return stopped_at && !is_ended_by_signal() && !is_node_behind() &&
           *seen_.ended_at < std::chrono::floor<std::chrono::seconds>(*stopped_at);
  }
  // True if the node's clock is behind the clocks of the control plane: the kubelet has accepted the Pod
  // before the scheduler chose the node.
  [[nodiscard]] bool is_node_behind() const {
    const std::optional<Instant> accepted_at = time_of(status_, "startTime");
    const std::optional<Instant> scheduled_at = time_of(condition("PodScheduled"), "lastTransitionTime");
    return accepted_at && scheduled_at && *accepted_at < *scheduled_at;
  }

  static std::optional<Disruption> disruption_of(const Sign& status, const json& condition) {
    if (is_own_limit(status)) return std::nullopt;
    if (is_disruption(status.reason)) return Disruption{.sign = status, .is_by_kubelet = true};
    if (text_of(condition, "status") != "True") return std::nullopt;
    const Sign sign{text_of(condition, "reason"), text_of(condition, "message")};
    return Disruption{.sign = sign,
                      .is_by_kubelet = sign.reason == "TerminationByKubelet",
                      .began_at = time_of(condition, "lastTransitionTime")};
  }

  // Returns the text of the label, or of the annotation with the same name, which has the whole text.
  [[nodiscard]] std::string_view label(const char* name) const {
    const std::string_view value = text_of(member_of(metadata_, "labels"), name);
    if (value.empty()) return value;
    const std::string_view whole = text_of(annotations_, name);
    return whole.empty() ? value : whole;
  }

  bool read_identity() {
    const auto attempt = parse_number<int>(label(k_attempt));
    if (!attempt || *attempt < 1) return false;
    seen_.key.attempt = *attempt;
    seen_.key.trial = label(k_trial);
    seen_.experiment = label(k_experiment);
    seen_.file = label(k_file);
    seen_.id = text_of(metadata_, "name");
    report_.uid = text_of(metadata_, "uid");
    if (seen_.key.trial.empty() || seen_.experiment.empty() || seen_.id.empty()) return false;
    try {
      seen_.key.run = RunId(std::string(label(k_run)));
    } catch (const Error&) {
      return false;
    }
    return true;
  }

  void read_settings() {
    seen_.image = text_of(container_, "image");
    seen_.service = text_of(annotations_, k_service) == "true";
    if (text_of(annotations_, k_supervised) == "true") seen_.placement.supervisor_report = "";
    seen_.placement.awaits_delivery = text_of(annotations_, k_awaits_delivery) == "true";
    try {
      if (const std::string_view cpus = text_of(annotations_, k_cpus); !cpus.empty())
        seen_.slots.cpus = parse_cpus(cpus);
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): counts as not set
    }
    const auto memory = parse_number<std::int64_t>(text_of(annotations_, k_memory));
    seen_.slots.memory.count = std::max<std::int64_t>(memory.value_or(0), 0);
    seen_.created_at = time_of(metadata_, "creationTimestamp").value_or(Instant{});
    seen_.digest = digest_of(text_of(shown_, "imageID"));
    seen_.placement.host = text_of(spec_, "nodeName");
    report_.is_kept = text_of(annotations_, k_keep) == "ended";
    deleted_at_ = time_of(metadata_, "deletionTimestamp");
  }

  // ---- Ends

  // Returns false if the attempt has not ended.
  bool read_end() {
    const json& terminated = member_of(state_, "terminated");
    if (terminated.is_object()) return read_terminated(terminated);
    if (phase_ == "Succeeded" || phase_ == "Failed" || phase_ == "Unknown") {
      seen_.ran_at = time_of(member_of(state_, "running"), "startedAt");
      end_without_exit_code(std::nullopt, {});
      return true;
    }
    if (const Sign waiting = waiting_sign(); is_start_error(waiting)) {
      fail_start(start_error_text(waiting), std::nullopt);
      is_started_again_ = true;
      return true;
    }
    return read_silent_node();
  }

  bool read_terminated(const json& terminated) {
    const Sign sign{text_of(terminated, "reason"), text_of(terminated, "message")};
    if (is_start_error(sign)) {
      fail_start(start_error_text(sign), time_of(terminated, "finishedAt"));
      return true;
    }
    seen_.ran_at = time_of(terminated, "startedAt");
    const std::optional<Instant> finished_at = time_of(terminated, "finishedAt");
    if (is_lost_container(sign.reason, exit_code_of(terminated))) {
      end_without_exit_code(finished_at, lost_container_text(sign, seen_.placement.host));
      return true;
    }
    if (combu::is_supervised(seen_)) seen_.placement.supervisor_report = text_of(terminated, "message");
    seen_.exit_code = exit_code_of(terminated);
    seen_.oom = sign.reason == "OOMKilled";
    end(finished_at);
    read_interruption();
    seen_.oom_likely =
        !seen_.oom && !seen_.stopped && seen_.lost.empty() && seen_.exit_code == k_exit_killed && has_limit();
    if (!seen_.lost.empty()) {
      seen_.status = seen_.lost;
    } else if (seen_.oom) {
      seen_.status = fmt::format("out of memory{}", on_node());
    } else if (seen_.exit_code) {
      seen_.status = fmt::format("exited with {}{}", *seen_.exit_code, on_node());
    } else {
      seen_.status = fmt::format("ended{}", on_node());
    }
    return true;
  }

  // Sets `lost` and `stopped` of an attempt whose container has ended.
  void read_interruption() {
    seen_.stopped = (is_stopped_by_combu() || is_past_deadline()) && !is_stopped_after_end();
    if (!is_ended_by_interruption()) return;
    seen_.stopped = true;
    if (disruption_) seen_.lost = lost_text(disruption_->sign, seen_.placement.host);
  }

  // True if a disruption or deletion of the Pod ended the attempt. False if the attempt ended by itself, and
  // the Pod was disrupted or deleted afterwards. The API's timestamps are whole seconds.
  [[nodiscard]] bool is_ended_by_interruption() const {
    // A Pod with a finalizer stays after its deletion, and the kubelet then sets a grace period of 0.
    if (!disruption_) return deleted_at_ && is_ended_by_signal();
    if (disruption_->is_by_kubelet || is_ended_by_signal()) return true;
    const std::optional<Instant> began_at = disruption_->began_at;
    return deleted_at_ && began_at && *seen_.ended_at >= *began_at;
  }

  // Returns nullopt if the Pod is not deleted, or is deleted without a grace period: the Pod was over before,
  // or its node is given up.
  [[nodiscard]] std::optional<Instant> deletion_began_at() const {
    if (!deleted_at_) return std::nullopt;
    const double grace = number_of(metadata_, "deletionGracePeriodSeconds", 0);
    if (grace == 0) return std::nullopt;
    return *deleted_at_ - std::chrono::duration_cast<Instant::duration>(Seconds{grace});
  }

  [[nodiscard]] bool has_limit() const {
    const json& limits = member_of(member_of(container_, "resources"), "limits");
    return seen_.slots.memory.count > 0 || !member_of(limits, "memory").is_null();
  }

  // The Pod has ended, but Kubernetes does not know how its container ended, or the container never ran.
  // `otherwise`: Observation::lost if there is no other sign.
  void end_without_exit_code(std::optional<Instant> at, std::string otherwise) {
    end(at);
    seen_.stopped = is_stopped_by_combu() || is_past_deadline();
    if (disruption_) {
      seen_.lost = lost_text(disruption_->sign, seen_.placement.host);
    } else if (phase_ == "Unknown") {
      seen_.lost = lost_text({"NodeLost", status_reason().message}, seen_.placement.host);
    } else if (!seen_.stopped && !status_reason().reason.empty() && !is_own_limit(status_reason())) {
      seen_.lost = rejection_text(status_reason(), seen_.placement.host);
    } else if (deleted_at_) {
      seen_.stopped = true;
    } else if (!seen_.stopped) {
      if (std::string error = init_container_error(); !error.empty())
        return fail_start(std::move(error), std::nullopt);
      seen_.lost = std::move(otherwise);
    }
    seen_.status = seen_.lost.empty() ? fmt::format("ended{} without an exit code", on_node()) : seen_.lost;
  }

  [[nodiscard]] std::string init_container_error() const {
    const json& list = member_of(status_, "initContainerStatuses");
    if (!list.is_array()) return {};
    for (const json& init : list) {
      const json& terminated = member_of(member_of(init, "state"), "terminated");
      const std::optional<int> exit_code = exit_code_of(terminated);
      if (exit_code && exit_code != 0)
        return one_line(
            fmt::format("the init container {} ended with exit code {}", text_of(init, "name"), *exit_code));
    }
    return {};
  }

  void fail_start(std::string error, std::optional<Instant> at) {
    seen_.ran_at.reset();
    end(at);
    seen_.placement.start_error = std::move(error);
    seen_.stopped = is_stopped_by_combu();
    seen_.status = fmt::format("could not be started: {}", seen_.placement.start_error);
  }

  // A kubelet ends a deleted Pod within the Pod's grace period. If it does not, its node is silent.
  bool read_silent_node() {
    if (!deleted_at_) return false;
    const Instant silent_at = later_by(*deleted_at_, k_host_grace);
    if (now_ < silent_at) {
      report_.changes_at = silent_at;
      return false;
    }
    seen_.ran_at = time_of(member_of(state_, "running"), "startedAt");
    end(silent_at);
    seen_.status = silent_node_text(seen_.placement.host);
    if (disruption_) {
      seen_.lost = fmt::format("{}; {}", seen_.status, lost_text(disruption_->sign, seen_.placement.host));
    } else {
      seen_.stopped = true;
    }
    return true;
  }

  // The Pod was removed before an end of its container was reported.
  void read_removal() {
    if (seen_.phase == Phase::ended || !disruption_) return;
    end(now_);
    seen_.placement.pending_reason.clear();
    report_.lacks_reason = false;
    report_.changes_at.reset();
    seen_.lost = lost_text(disruption_->sign, seen_.placement.host);
    seen_.status = seen_.lost;
  }

  // `at`: nullopt if unknown; the last change of the Pod's conditions is then the closest known moment.
  void end(std::optional<Instant> at) {
    seen_.phase = Phase::ended;
    seen_.ended_at = at;
    if (at) return;
    Instant last = std::max(seen_.created_at, time_of(status_, "startTime").value_or(Instant{}));
    if (const json& conditions = member_of(status_, "conditions"); conditions.is_array()) {
      for (const json& change : conditions)
        last = std::max(last, time_of(change, "lastTransitionTime").value_or(Instant{}));
    }
    seen_.ended_at = std::max(last, seen_.ran_at.value_or(last));
  }

  // ---- Attempts that have not ended

  void read_running() {
    seen_.phase = Phase::running;
    seen_.ran_at = time_of(member_of(state_, "running"), "startedAt");
    seen_.status = fmt::format("running{}", on_node());
    read_health();
  }

  void read_health() {
    const json& probe = member_of(container_, "readinessProbe");
    if (!probe.is_object() || !seen_.ran_at) return;
    if (const json& ready = member_of(shown_, "ready"); ready.is_boolean() && ready.get<bool>()) {
      seen_.health = Health::healthy;
      return;
    }
    seen_.health = Health::unhealthy;
    // A container that was ready becomes not ready after `failureThreshold` failed probes in a row. So the
    // container is unhealthy already.
    const std::optional<Instant> changed_at = time_of(condition("ContainersReady"), "lastTransitionTime");
    if (changed_at && *changed_at > *seen_.ran_at) return;
    const double start_period = parse_number<double>(text_of(annotations_, k_start_period)).value_or(0);
    const double failing = number_of(probe, "failureThreshold", k_threshold_default) *
                           number_of(probe, "periodSeconds", k_period_default);
    const double wait =
        failing + (std::isfinite(start_period) ? std::clamp(start_period, 0.0, k_seconds_max) : 0);
    const Instant unhealthy_at = later_by(*seen_.ran_at, Seconds{wait});
    if (now_ >= unhealthy_at) return;
    seen_.health = Health::starting;
    report_.changes_at = std::min(report_.changes_at.value_or(unhealthy_at), unhealthy_at);
  }

  void read_pending() {
    seen_.phase = Phase::pending;
    seen_.placement.pending_reason = pending_reason();
    seen_.status = fmt::format("pending{}", seen_.placement.pending_reason.empty()
                                                ? on_node()
                                                : ": " + seen_.placement.pending_reason);
  }

  std::string pending_reason() {
    if (deleted_at_) return "the pod is being deleted";
    const json& scheduled = condition("PodScheduled");
    if (text_of(scheduled, "status") == "False")
      return scheduling_text({text_of(scheduled, "reason"), text_of(scheduled, "message")}) + gates();
    if (seen_.placement.host.empty()) return "no node is chosen yet";
    const Sign waiting = waiting_sign();
    report_.lacks_reason = waiting.reason.empty() || is_part_of_reason(waiting);
    return waiting.reason.empty() ? "" : waiting_text(waiting, seen_.image);
  }

  // Returns the reason for which the container, or the init container before it, waits. Returns an empty
  // reason if there is none, or if it only says that the kubelet is at work.
  [[nodiscard]] Sign waiting_sign() const {
    const auto sign_of = [](const json& shown) -> Sign {
      const json& waiting = member_of(member_of(shown, "state"), "waiting");
      const std::string_view reason = text_of(waiting, "reason");
      if (reason == "ContainerCreating" || reason == "PodInitializing") return {};
      return {reason, text_of(waiting, "message")};
    };
    if (const Sign sign = sign_of(shown_); !sign.reason.empty()) return sign;
    const json& list = member_of(status_, "initContainerStatuses");
    if (!list.is_array()) return {};
    for (const json& init : list)
      if (const Sign sign = sign_of(init); !sign.reason.empty()) return sign;
    return {};
  }

  // Returns the names of the scheduling gates, such as " (example.com/queue)"; empty if there is none.
  [[nodiscard]] std::string gates() const {
    const json& list = member_of(spec_, "schedulingGates");
    std::string names;
    if (!list.is_array()) return names;
    for (const json& gate : list) {
      if (!names.empty()) names += ", ";
      names += text_of(gate, "name");
    }
    return names.empty() ? names : fmt::format(" ({})", one_line(names));
  }

  [[nodiscard]] std::string on_node() const {
    return seen_.placement.host.empty() ? std::string() : " on " + seen_.placement.host;
  }

  const Instant now_;
  const bool is_gone_;
  const json& metadata_;
  const json& spec_;
  const json& status_;
  const json& annotations_;
  const json& container_;    // the container `main` in the specification
  const json& shown_;        // the container `main` in the status
  const bool is_restarted_;  // the container has died before, and the attempt has ended by that
  const json& state_;        // of the attempt's container, from `shown_`
  const std::string_view phase_;
  PodReport report_;
  Observation& seen_ = report_.observation;
  std::optional<Disruption> disruption_;
  std::optional<Instant> deleted_at_;  // the end of the grace period
  bool is_started_again_ = false;      // the start has failed, but the kubelet repeats it
};

}  // namespace

std::optional<PodReport> read_pod(const json& pod, Instant now, bool is_gone) {
  return PodReader(pod, now, is_gone).read();
}

std::string read_warning(const json& event, std::string& pod_uid) {
  pod_uid.clear();
  const json& about = member_of(event, "involvedObject");
  const Sign sign{text_of(event, "reason"), text_of(event, "message")};
  if (text_of(event, "type") != "Warning" || text_of(about, "kind") != "Pod" || !is_start_warning(sign))
    return {};
  pod_uid = text_of(about, "uid");
  return pod_uid.empty() ? std::string() : waiting_text(sign, {});
}

}  // namespace combu::kubernetes
