#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <string>
#include <string_view>
#include <utility>

#include "kubernetes/kubernetes_engine.hpp"
#include "kubernetes/names.hpp"

namespace combu::kubernetes {
namespace {

// A followed log may be quiet for hours. The connection itself is checked by TCP.
constexpr Seconds k_quiet_max{86400};
constexpr Seconds k_answer_max{60};

std::string log_query(const LogOptions& options) {
  std::string query = fmt::format("?container={}", k_container);
  if (options.before_restart) query += "&previous=true";
  if (options.follow) query += "&follow=true";
  if (options.timed || options.since) query += "&timestamps=true";
  if (options.tail) query += fmt::format("&tailLines={}", *options.tail);
  if (options.since) {
    // The kubelet takes whole seconds.
    const std::time_t seconds = std::chrono::system_clock::to_time_t(*options.since);
    query += query_part("sinceTime", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(seconds)));
  }
  return query;
}

// Passes on bytes of a log without timestamps, split after line ends.
void pass_lines(std::string_view bytes, const OnLogPiece& on_piece) {
  while (!bytes.empty()) {
    const std::size_t size = std::min(bytes.find('\n'), bytes.size() - 1) + 1;
    on_piece({.text = bytes.substr(0, size)});
    bytes.remove_prefix(size);
  }
}

// The kubelet answers with this text and status 200 if the container runtime has no log.
constexpr std::string_view k_missing = "unable to retrieve container logs for ";

// True for the kubelet's words about a container that has not run and has no log. All other texts with status
// 400 are errors that may pass, for example if the kubelet cannot read the log's file:
// https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/kubelet_pods.go
// (validateContainerLogStatus)
bool has_no_log(std::string_view message) {
  return message.starts_with(fmt::format("container \"{}\" in pod ", k_container)) &&
         (message.find("\" is waiting to start") != std::string_view::npos ||
          message.ends_with("\" is terminated") || message.ends_with("\" is not available"));
}

}  // namespace

void KubernetesEngine::logs(const Key& key, const LogOptions& options, const OnLogPiece& on_piece,
                            std::stop_token stop) {
  const auto deliver = [&](const LogPiece& piece) {
    if (options.since && piece.at < *options.since) return;
    LogPiece wanted = piece;
    if (!options.timed) wanted.at = {};
    on_piece(wanted);
  };
  TimedLines timed(deliver);
  const bool has_times = options.timed || options.since;
  const auto pass = [&](std::string_view bytes) {
    has_times ? timed.feed(bytes) : pass_lines(bytes, on_piece);
  };
  bool is_log = false;
  std::string head;  // the first bytes, as long as they may be the kubelet's text
  const auto take = [&](std::string_view bytes) {
    if (is_log) return pass(bytes);
    head += bytes;
    if (head.starts_with(k_missing))
      throw Error(ErrorKind::refused, key.trial, "the node has no log of the attempt: " + one_line(head));
    is_log = !k_missing.starts_with(head);
    if (is_log) pass(head);
  };
  try {
    api_.read(objects_.path(k_pods, pod_name(key)) + "/log" + log_query(options),
              {.on_bytes = take, .silence_max = options.follow ? k_quiet_max : k_answer_max}, stop);
    if (!is_log) pass(head);
    if (has_times) timed.end();
  } catch (const ApiError& error) {
    if (error.kind() == ErrorKind::not_found)
      throw Error(ErrorKind::not_found, key.trial,
                  fmt::format("no Pod of attempt {} in run {}", key.attempt, key.run.text()));
    if (error.kind() != ErrorKind::invalid) throw;
    if (has_no_log(error.message())) return;
    throw Error(ErrorKind::unavailable, key.trial, "the node cannot read the log: " + error.message());
  }
  if (stop.stop_requested()) throw Error(ErrorKind::cancelled, key.trial, "cancelled");
}

}  // namespace combu::kubernetes
