#include "cli/run_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace combu {
namespace {

constexpr Seconds k_patience{3};
constexpr Seconds k_look{0.05};
constexpr Seconds k_starts_end{120};  // those in flight

// FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv: a file's name that holds any identity.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char letter : text) {
    hash ^= static_cast<unsigned char>(letter);
    hash *= 0x100000001b3U;
  }
  return hash;
}

std::string why() {
  return std::generic_category().message(errno);
}

std::string path_of(const std::string& experiment, const std::string& engine, const Caller& caller) {
  return fmt::format("{}/locks/{:016x}", state_folder(caller), hash_of(engine + "\n" + experiment));
}

int open_file(const std::string& path) {
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failed);
  constexpr mode_t k_mode = 0600;
  const int file = failed ? -1 : open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, k_mode);
  if (file < 0)
    throw Error(ErrorKind::refused, path,
                fmt::format("cannot be written: {}; COMBU_HOME names another folder",
                            failed ? failed.message() : why()));
  return file;
}

// Whether the lock could be had within `patience`.
bool lock(int file, Seconds patience, const std::stop_token& stop) {
  const Instant end = real_clock().now() + std::chrono::duration_cast<Instant::duration>(patience);
  while (flock(file, LOCK_EX | LOCK_NB) != 0) {
    if (stop.stop_requested()) throw Error(ErrorKind::cancelled, "", "interrupted");
    if (real_clock().now() >= end) return false;
    real_clock().wait(k_look, stop);
  }
  return true;
}

// "4711 q1w2e3", as the one who holds it has written; process 0 when that is not there yet.
Interrupted holder_of(int file) {
  std::array<char, 128> text{};
  const ssize_t size = pread(file, text.data(), text.size(), 0);
  const std::string_view all(text.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  Interrupted holder;
  const auto [end, fault] = std::from_chars(all.data(), all.data() + all.size(), holder.process);
  if (fault == std::errc() && end != all.data() + all.size())
    holder.run = std::string(end + 1, all.data() + all.size());
  return holder;
}

}  // namespace

OpenFile::~OpenFile() {
  if (number_ >= 0) close(number_);
}

std::string state_folder(const Caller& caller) {
  if (const auto home = caller.env("COMBU_HOME"); home && !home->empty()) return *home;
  if (const auto state = caller.env("XDG_STATE_HOME"); state && !state->empty()) return *state + "/combu";
  return caller.home + "/.local/state/combu";
}

RunLock::RunLock(const std::string& experiment, const RunId& run, const std::string& engine,
                 const Caller& caller, const std::stop_token& stop)
    : file_(open_file(path_of(experiment, engine, caller))) {
  if (!lock(file_.number(), k_patience, stop)) {
    const Interrupted holder = holder_of(file_.number());
    throw Error(
        ErrorKind::conflict, experiment,
        fmt::format("another combu (process {}) still starts the trials of its run {}; wait until it has, or "
                    "end it with `combu … kill`",
                    holder.process, holder.run));
  }
  const std::string holder = fmt::format("{} {}", getpid(), run.text());
  // What cannot be written here is only missing in another one's message.
  if (ftruncate(file_.number(), 0) == 0) (void)!pwrite(file_.number(), holder.data(), holder.size(), 0);
}

std::optional<Interrupted> interrupt_run(const std::string& experiment, const std::optional<RunId>& run,
                                         const std::string& engine, const Caller& caller,
                                         const std::stop_token& stop) {
  const OpenFile file(open(path_of(experiment, engine, caller).c_str(), O_RDWR | O_CLOEXEC));
  if (file.number() < 0 || flock(file.number(), LOCK_EX | LOCK_NB) == 0) return std::nullopt;
  Interrupted holder = holder_of(file.number());
  if (holder.process <= 1 || (run && run->text() != holder.run)) return std::nullopt;
  if (::kill(holder.process, SIGINT) != 0 && errno != ESRCH)
    throw Error(ErrorKind::refused, experiment,
                fmt::format("process {} starts its run {} and cannot be interrupted: {}", holder.process,
                            holder.run, why()));
  if (lock(file.number(), k_starts_end, stop)) return holder;
  throw Error(
      ErrorKind::conflict, experiment,
      fmt::format("process {} goes on with its run {} although it was interrupted; end it and kill again",
                  holder.process, holder.run));
}

}  // namespace combu
