#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <string>
#include <utility>

#include "kubernetes/kubernetes_engine.hpp"
#include "kubernetes/names.hpp"

namespace combu::kubernetes {
namespace {

// A followed log may be quiet for hours. The connection itself is checked by TCP.
constexpr Seconds k_quiet_max{86400};
constexpr Seconds k_answer_max{60};

std::string log_query(const LogOptions& options) {
  std::string query = "?container=main";
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

// Splits a log without timestamps into lines.
class PlainLines {
 public:
  explicit PlainLines(const OnLogPiece& on_piece) : on_piece_(on_piece) {}
  void feed(std::string_view bytes) {
    for (std::size_t end = bytes.find('\n'); end != std::string_view::npos; end = bytes.find('\n')) {
      on_piece_({.text = bytes.substr(0, end + 1)});
      bytes.remove_prefix(end + 1);
    }
    if (!bytes.empty()) on_piece_({.text = bytes});
  }

 private:
  const OnLogPiece& on_piece_;
};

// The kubelet answers with this text and status 200 if the container runtime has no log.
bool is_missing(std::string_view text) {
  return text.starts_with("unable to retrieve container logs for ");
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
  PlainLines plain(on_piece);
  const bool has_times = options.timed || options.since;
  const auto take = [&](std::string_view bytes) {
    if (is_missing(bytes))
      throw Error(ErrorKind::refused, key.trial, "the node has no log of the attempt: " + one_line(bytes));
    has_times ? timed.feed(bytes) : plain.feed(bytes);
  };
  try {
    api_.read(objects_.path(k_pods, pod_name(key)) + "/log" + log_query(options),
              {.on_bytes = take, .silence_max = options.follow ? k_quiet_max : k_answer_max}, stop);
    if (has_times) timed.end();
  } catch (const ApiError& error) {
    if (error.kind() == ErrorKind::invalid) return;  // the container does not run yet, and has no log
    if (error.kind() != ErrorKind::not_found) throw;
    throw Error(ErrorKind::not_found, key.trial,
                fmt::format("no Pod of attempt {} in run {}", key.attempt, key.run.text()));
  }
  if (stop.stop_requested()) throw Error(ErrorKind::cancelled, key.trial, "cancelled");
}

}  // namespace combu::kubernetes
