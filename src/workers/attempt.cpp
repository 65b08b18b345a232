#include "workers/attempt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <system_error>

namespace combu::workers {

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

void throw_if_cancelled(const Key& key, const std::stop_token& stop) {
  if (stop.stop_requested()) throw Error(ErrorKind::cancelled, key.trial, "cancelled");
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

std::function<void(const agent::LogChunk&)> split_chunks_since(std::optional<Instant> since,
                                                               OnLogPiece on_piece) {
  return [first = since ? nanoseconds_of(*since) : 0,
          on_piece = std::move(on_piece)](const agent::LogChunk& chunk) {
    if (chunk.at >= first) split_chunk(chunk, on_piece);
  };
}

void read_tail_first(const LogOptions& options, const OnLogPiece& on_piece,
                     const std::function<void(const LogOptions&, const OnLogPiece&)>& read) {
  LogOptions part = options;
  part.tail.reset();
  if (!options.tail) return read(part, on_piece);
  LastLines tail(*options.tail);
  part.follow = false;
  read(part, [&](const LogPiece& piece) { tail.add(piece); });
  tail.pass_to(on_piece);
  if (!options.follow) return;
  part.follow = true;
  if (tail.last_at()) part.since = *tail.last_at() + Instant::duration(1);
  read(part, on_piece);
}

void check_size(const agent::Start& start, const std::string& subject) {
  constexpr std::size_t k_start_max = agent::k_payload_max - 1024;
  std::string frame;
  agent::append(frame, start);
  if (frame.size() > k_start_max)
    throw Error(
        ErrorKind::refused, subject,
        "`cmd`, `env`, `params` and `secrets` together are larger than 1 MiB; pass large values as `inputs`");
}

void add_end(Observation& seen, const agent::Ended& ended) {
  constexpr int k_signal_base = 128;
  seen.exit_code = ended.signal != 0 ? k_signal_base + ended.signal : ended.exit_code;
  seen.ended_at = instant_of(ended.at);
  add_flags(seen, ended.flags);
  seen.usage = Usage{.memory = Bytes{static_cast<std::int64_t>(ended.memory_peak)},
                     .cpu = std::chrono::nanoseconds(ended.cpu_ns)};
}

void add_flags(Observation& seen, std::uint32_t flags) {
  const auto has = [&](agent::Ended::Flag flag) { return (flags & flag) != 0; };
  seen.oom = has(agent::Ended::out_of_memory);
  seen.timed_out = has(agent::Ended::timed_out);
  seen.stopped = has(agent::Ended::stopped) && !seen.oom;
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

void LastLines::add(const LogPiece& piece) {
  if (piece.text.empty()) return;
  last_at_ = piece.at;
  if (lines_ <= 0) return;
  if (!pieces_.empty() && pieces_.back().text.ends_with('\n')) ++ends_;
  pieces_.push_back({piece.stream, std::string(piece.text), piece.at});
  while (ends_ >= lines_) {
    if (pieces_.front().text.ends_with('\n')) --ends_;
    pieces_.pop_front();
  }
}

void LastLines::pass_to(const OnLogPiece& on_piece) const {
  for (const Piece& piece : pieces_) on_piece({.stream = piece.stream, .text = piece.text, .at = piece.at});
}

}  // namespace combu::workers
