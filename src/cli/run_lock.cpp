#include "cli/run_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace combu {
namespace {

constexpr Seconds k_patience{3};
constexpr Seconds k_look{0.05};

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

int open_file(const std::string& folder, const std::string& name) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  const std::string path = folder + "/" + name;
  constexpr mode_t k_mode = 0600;
  const int file = failed ? -1 : open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, k_mode);
  if (file < 0)
    throw Error(ErrorKind::refused, failed ? folder : path,
                fmt::format("cannot be written: {}; COMBU_HOME names another folder",
                            failed ? failed.message() : why()));
  return file;
}

// "4711 q1w2e3" as the one who holds it has written.
std::string holder_of(int file) {
  std::array<char, 128> text{};
  const ssize_t size = pread(file, text.data(), text.size(), 0);
  const std::string_view all(text.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  const std::size_t blank = all.find(' ');
  if (blank == std::string_view::npos) return "another combu is at work on it";
  return fmt::format("another combu (process {}) is at work on its run {}", all.substr(0, blank),
                     all.substr(blank + 1));
}

}  // namespace

std::string state_folder(const Caller& caller) {
  if (const auto home = caller.env("COMBU_HOME"); home && !home->empty()) return *home;
  if (const auto state = caller.env("XDG_STATE_HOME"); state && !state->empty()) return *state + "/combu";
  return caller.home + "/.local/state/combu";
}

RunLock::RunLock(const Experiment& experiment, const RunId& run, const std::string& engine,
                 const Caller& caller, const std::stop_token& stop)
    : file_(open_file(state_folder(caller) + "/locks",
                      fmt::format("{:016x}", hash_of(engine + "\n" + experiment.name)))) {
  const Instant end = real_clock().now() + std::chrono::duration_cast<Instant::duration>(k_patience);
  while (flock(file_, LOCK_EX | LOCK_NB) != 0) {
    if (real_clock().now() < end && !stop.stop_requested()) {
      real_clock().wait(k_look, stop);
      continue;
    }
    const std::string holder = holder_of(file_);
    close(file_);
    if (stop.stop_requested()) throw Error(ErrorKind::cancelled, experiment.name, "interrupted");
    throw Error(ErrorKind::conflict, experiment.name,
                fmt::format("{}; wait for its end, or interrupt it", holder));
  }
  const std::string holder = fmt::format("{} {}", getpid(), run.text());
  // What cannot be written here is only missing in another one's message.
  if (ftruncate(file_, 0) == 0) (void)!pwrite(file_, holder.data(), holder.size(), 0);
}

RunLock::~RunLock() {
  close(file_);
}

}  // namespace combu
