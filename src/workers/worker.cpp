#include "workers/worker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <system_error>

namespace combu::workers {

namespace {

constexpr int k_signal_base = 128;  // an exit code above is 128 plus the number of the signal, as in Docker

}  // namespace

std::size_t Worker::alive() {
  std::erase_if(places, [](const auto& attempt) { return !attempt->is_alive(); });
  return places.size();
}

std::string id_of(const Key& key) {
  return fmt::format("{}/{}", key.trial, key.attempt);
}

std::optional<Key> key_of(const RunId& run, std::string_view id) {
  const std::size_t slash = id.rfind('/');
  if (slash == std::string_view::npos || slash == 0) return std::nullopt;
  const auto attempt = parse_number<int>(id.substr(slash + 1));
  if (!attempt || *attempt < 1) return std::nullopt;
  return Key{.run = run, .trial = std::string(id.substr(0, slash)), .attempt = *attempt};
}

Instant instant_of(std::int64_t nanoseconds) {
  return Instant(std::chrono::duration_cast<Instant::duration>(std::chrono::nanoseconds(nanoseconds)));
}

std::int64_t nanoseconds_of(Instant instant) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(instant.time_since_epoch()).count();
}

Observation observation_of(const Worker& worker, const Attempt& attempt) {
  Observation seen;
  seen.key = attempt.key;
  seen.experiment = worker.experiment;
  seen.file = worker.file;
  seen.id = fmt::format("{}/{}", worker.id, id_of(attempt.key));
  seen.image = worker.image;
  seen.slots = attempt.slots;
  seen.created_at = attempt.began_at;
  if (attempt.state == Attempt::State::running || attempt.state == Attempt::State::ended) {
    seen.phase = Phase::running;
    seen.status = "running";
    seen.ran_at = attempt.began_at;
    seen.created_in = Seconds(0);
    seen.started_in = attempt.spawn;
  }
  if (attempt.state != Attempt::State::ended) return seen;
  seen.phase = Phase::ended;
  seen.status = "exited";
  seen.is_unacknowledged = true;
  if (!attempt.ended) {
    seen.lost = attempt.lost;
    seen.ended_at = attempt.lost_at;
    return seen;
  }
  const agent::Ended& ended = *attempt.ended;
  const auto has = [&](agent::Ended::Flag flag) { return (ended.flags & flag) != 0; };
  seen.exit_code = ended.signal != 0 ? k_signal_base + ended.signal : ended.exit_code;
  seen.ended_at = instant_of(ended.at);
  seen.oom = has(agent::Ended::out_of_memory);
  seen.timed_out = has(agent::Ended::timed_out);
  seen.stopped = has(agent::Ended::stopped) && !seen.oom;
  seen.usage = Usage{.memory = Bytes{static_cast<std::int64_t>(ended.memory_peak)},
                     .cpu = std::chrono::nanoseconds(ended.cpu_ns)};
  return seen;
}

int signal_number(std::string_view name) {
  if (const auto number = parse_number<int>(name)) return *number > 0 && *number < NSIG ? *number : SIGTERM;
  if (name.starts_with("SIG")) name.remove_prefix(3);
  const auto offset = [&] {
    return parse_number<int>(name.substr(std::min(name.size(), std::size_t{6}))).value_or(0);
  };
  if (name.starts_with("RTMIN")) return SIGRTMIN + offset();
  if (name.starts_with("RTMAX")) return SIGRTMAX - offset();
  for (int number = 1; number < SIGRTMIN; ++number) {
    const char* known = ::sigabbrev_np(number);
    if (known != nullptr && name == known) return number;
  }
  return SIGTERM;
}

std::string reason_of(const agent::Refused& refused, const std::vector<std::string>& argv) {
  std::string why =
      refused.code != 0 ? std::generic_category().message(refused.code) : shortened(refused.text);
  switch (refused.stage) {
    case agent::Refused::scratch:
      return fmt::format("the scratch folder cannot be created: {}", why);
    case agent::Refused::process:
      return fmt::format("no process can be created: {}", why);
    case agent::Refused::program:
      return fmt::format("the program \"{}\" cannot be executed: {}; correct `cmd` or the image",
                         argv.empty() ? "" : shortened(argv.front()), why);
    case agent::Refused::inputs:
      return fmt::format("the inputs cannot be unpacked: {}", why);
    default:
      return why;
  }
}

void split_chunk(const agent::LogChunk& chunk, const OnLogPiece& on_piece) {
  std::string_view left = chunk.bytes;
  while (!left.empty()) {
    const std::size_t size = std::min(left.find('\n'), left.size() - 1) + 1;
    on_piece({.stream = chunk.stream == 2 ? LogStream::err : LogStream::out,
              .text = left.substr(0, size),
              .at = instant_of(chunk.at)});
    left.remove_prefix(size);
  }
}

}  // namespace combu::workers
