#include <fmt/format.h>

#include <array>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "combu/json.hpp"
#include "kubernetes/kubernetes_engine.hpp"
#include "kubernetes/names.hpp"

namespace combu::kubernetes {
namespace {

using nlohmann::json;

constexpr int k_too_old = 410;
// Members of a Pod that read_pod() does not read. With `managedFields`, they are two thirds of a Pod's text.
constexpr std::array<std::string_view, 8> k_unread_of_pods{"managedFields", "ownerReferences", "tolerations",
                                                           "volumes",       "volumeMounts",    "env",
                                                           "affinity",      "nodeSelector"};
constexpr const char* k_not_ended = "status.phase!=Succeeded,status.phase!=Failed";
constexpr std::chrono::seconds k_stream_max{300};  // the server then ends the stream regularly
constexpr std::chrono::seconds k_stream_min{1};    // a shorter stream without a line is no stream
// Between two requests for Events. The API server reads all Events of the namespace for each request, so that
// the pause grows with the duration of the last request.
constexpr Seconds k_warnings_pause{5};
constexpr double k_warnings_factor = 50;

}  // namespace

// One call of KubernetesEngine::watch().
class PodWatch {
 public:
  PodWatch(KubernetesEngine& engine, const Selector& selector,
           const std::function<void(const Change&)>& on_change, const std::stop_token& stop)
      : engine_(engine),
        chosen_(selector),
        labels_(label_selector(selector)),
        on_change_(on_change),
        stop_(stop) {}

  // Returns if a stop is requested.
  void run() {
    while (!stop_.stop_requested()) {
      if (version_.empty()) subscribe();
      try {
        follow();
      } catch (const ApiError& error) {
        // If the version of a new subscription is too old as well, another one at once would not help.
        if (error.status() != k_too_old || !std::exchange(has_progress_, false)) throw;
        version_.clear();
      }
    }
  }

 private:
  // Begins a subscription at the present. Remembers the Pods whose reports change later although no change
  // arrives. The caller of watch() lists the Pods, so they are not reported here.
  void subscribe() {
    const auto forget = [&] {
      later_.clear();
      waiting_.clear();
    };
    forget();
    version_ = engine_.objects_.list(
        k_pods, {.labels = labels_, .fields = k_not_ended},
        [&](json& object) {
          if (const auto pod = engine_.report_of(object); pod && chosen_.contain(pod->observation.key.trial))
            remember(*pod, object);
        },
        forget, stop_);
    on_change_(Watching{});
  }

  // Reads one stream of changes, from the last known change on. Throws Error(unavailable) if the stream ends
  // at once without a line, as with a proxy that does not pass on streams.
  void follow() {
    const auto begin = std::chrono::steady_clock::now();
    const std::size_t lines = lines_;
    const std::string target = fmt::format(
        "{}?watch=1&allowWatchBookmarks=true&timeoutSeconds={}{}{}", engine_.objects_.path(k_pods),
        k_stream_max.count(), query_part("labelSelector", labels_), query_part("resourceVersion", version_));
    engine_.api_.read(target,
                      {.on_line = [&](std::string_view line) { take(line); },
                       .on_pause = [&] { report_passed_moments(); },
                       .silence_max = engine_.limits_.watch_silence_max},
                      stop_);
    const bool is_empty = lines_ == lines && std::chrono::steady_clock::now() - begin < k_stream_min;
    if (is_empty && !stop_.stop_requested())
      throw Error(ErrorKind::unavailable, engine_.address_, "the API server has ended the watch at once");
  }

  void take(std::string_view line) {
    ++lines_;
    const json event = parse_json_or_discard(line, k_unread_of_pods);
    const std::string_view type = text_of(event, "type");
    const json& object = member_of(event, "object");
    if (type.empty() || !object.is_object())
      throw Error(ErrorKind::corrupt, engine_.address_, "a line of the watch is not an event");
    if (type == "ERROR") throw error_of(object);
    has_progress_ = true;
    if (const auto version = text_of(object, {"metadata", "resourceVersion"}); !version.empty())
      version_ = version;
    if (type == "BOOKMARK") return;
    report(object, type == "DELETED");
  }

  [[nodiscard]] ApiError error_of(const json& status) const {
    const json& code = member_of(status, "code");
    const std::string message = one_line(text_of(status, "message"));
    return {ErrorKind::unavailable, engine_.address_,
            "the API server has ended the watch: " + (message.empty() ? "unknown error" : message),
            code.is_number_integer() ? code.get<int>() : 0, Seconds(0)};
  }

  void report(const json& object, bool is_gone) {
    auto pod = engine_.report_of(object, is_gone);
    if (!pod || !chosen_.contain(pod->observation.key.trial)) return;
    later_.erase(pod->uid);
    waiting_.erase(pod->uid);
    if (pod->is_deleted) engine_.settle_deletions({&*pod}, stop_);
    if (is_gone) {
      // A Pod may be deleted before its end is reported.
      if (pod->observation.phase == Phase::ended) on_change_(pod->observation);
      pod->observation.phase = Phase::gone;
    } else {
      remember(*pod, object);
    }
    on_change_(std::move(pod->observation));
  }

  void remember(const PodReport& pod, const json& object) {
    if (pod.changes_at) later_.emplace(pod.uid, Later{*pod.changes_at, object});
    if (pod.lacks_reason) waiting_.emplace(pod.uid, pod);
  }

  // Reports what changes by time alone, and why Pods wait.
  void report_passed_moments() {
    const Instant now = real_clock().now();
    std::vector<json> due;
    std::erase_if(later_, [&](auto& one) {
      if (one.second.at > now) return false;
      due.push_back(std::move(one.second.pod));
      return true;
    });
    for (const json& pod : due) report(pod, false);
    if (waiting_.empty() || now < next_warnings_) return;
    std::vector<PodReport*> pods;
    std::map<PodReport*, std::string> known;
    for (auto& [uid, pod] : waiting_) {
      if (now - pod.observation.created_at < k_warnings_pause) continue;
      pods.push_back(&pod);
      known.emplace(&pod, pod.observation.placement.pending_reason);
    }
    const auto begin = std::chrono::steady_clock::now();
    engine_.add_warnings(pods, stop_);
    const Seconds took = std::chrono::steady_clock::now() - begin;
    next_warnings_ = real_clock().now() + std::chrono::duration_cast<Instant::duration>(
                                              std::max(k_warnings_pause, took * k_warnings_factor));
    for (PodReport* const pod : pods)
      if (pod->observation.placement.pending_reason != known.at(pod)) on_change_(pod->observation);
  }

  struct Later {
    Instant at;
    json pod;
  };

  KubernetesEngine& engine_;
  const ChosenTrials chosen_;
  const std::string labels_;
  const std::function<void(const Change&)>& on_change_;
  const std::stop_token& stop_;
  std::string version_;                       // of the last change; empty: unknown
  std::size_t lines_ = 0;                     // received from all streams
  bool has_progress_ = true;                  // false: no change since a version was too old
  std::map<std::string, Later> later_;        // by uid: Pods with PodReport::changes_at
  std::map<std::string, PodReport> waiting_;  // by uid: Pods with PodReport::lacks_reason
  Instant next_warnings_{};
};

void KubernetesEngine::watch(const Selector& selector, const std::function<void(const Change&)>& on_change,
                             std::stop_token stop) {
  try {
    PodWatch(*this, selector, on_change, stop).run();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::cancelled && stop.stop_requested()) return;
    throw;
  }
}

}  // namespace combu::kubernetes
