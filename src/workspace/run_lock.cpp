#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>

#include "combu/json.hpp"
#include "combu/system.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

constexpr Seconds k_lock_patience{3};
constexpr Seconds k_lock_poll{0.05};
// Maximum duration of the wait until an interrupted process has finished its starts in flight.
constexpr Seconds k_starts_end{120};

std::string why() {
  return std::generic_category().message(errno);
}

std::string lock_folder(const Caller& caller) {
  return state_folder(caller) + "/locks";
}

// Returns the id of this machine's current boot, which is part of the names of sockets: machines that share a
// home folder need different names.
std::string machine() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

// Returns a short file name for the text `of`, which may be long. The name has only 16 digits of a digest,
// because the system limits a socket's path to 108 bytes.
std::string name_on_machine(const std::string& of) {
  constexpr std::size_t k_letters = 16;
  return sha256_of(of + "\n" + machine()).substr(0, k_letters);
}

std::string path_of(LockScope scope, const Run& run, const std::string& engine, const Caller& caller) {
  return lock_folder(caller) + "/" +
         name_on_machine(scope == LockScope::run ? "run " + run.id.text()
                                                 : engine + "\n" + run.experiment.name);
}

std::string held_text(LockScope scope, int process, const std::string& run) {
  if (scope == LockScope::run)
    return fmt::format("another combu (process {}) owns the run; end that process first, or let it continue",
                       process);
  return fmt::format(
      "another combu (process {}) is still starting the trials of run {}; wait until all trials have "
      "started, or end the run with `combu … kill`",
      process, run);
}

// Returns the PID namespace of this process. Process ids are comparable only within one PID namespace.
std::string namespace_of_processes() {
  std::error_code none;
  return std::filesystem::read_symlink("/proc/self/ns/pid", none).string();
}

Descriptor open_lock(const std::string& path, const Caller& caller) {
  make_state_folder(state_folder(caller));
  make_private_folder(lock_folder(caller));
  return open_private_file(path, O_RDWR | O_CREAT);
}

// Opens a lock file. The returned descriptor is not open if the lock file is missing, or if another user may
// have written to it.
Descriptor open_existing_lock(const std::string& path) {
  try {
    return open_private_file(path, O_RDWR);
  } catch (const Error&) {
    return Descriptor();
  }
}

// Waits for the lock of `file`. Returns true if lock() has acquired the lock within `patience`.
bool lock(int file, Seconds patience, const std::stop_token& stop) {
  const Instant end = real_clock().now() + std::chrono::duration_cast<Instant::duration>(patience);
  while (flock(file, LOCK_EX | LOCK_NB) != 0) {
    if (stop.stop_requested()) throw Error(ErrorKind::cancelled, "", "interrupted");
    if (real_clock().now() >= end) return false;
    real_clock().wait(k_lock_poll, stop);
  }
  return true;
}

// Returns true if a process holds the lock of `file`. The test uses a shared lock, so that processes that
// test at the same time do not mistake each other for the holder.
bool is_held(const Descriptor& file) {
  if (file.number() < 0 || flock(file.number(), LOCK_SH | LOCK_NB) != 0) return file.number() >= 0;
  (void)flock(file.number(), LOCK_UN);
  return false;
}

// The content of a lock file, which the holder of the lock writes. `process` is 0 if the holder has not
// written to the file yet.
struct Holder {
  int process = 0;
  std::string run;
  std::string machine;
  std::string processes;  // PID namespace
  std::string engine;
  std::string experiment;
  std::string file;
};

std::string text_of(const Holder& holder) {
  return json_text(nlohmann::json{{"process", holder.process},
                                  {"run", holder.run},
                                  {"machine", holder.machine},
                                  {"processes", holder.processes},
                                  {"engine", holder.engine},
                                  {"experiment", holder.experiment},
                                  {"file", holder.file}});
}

Holder holder_of(int file) {
  std::array<char, 16384> text{};
  const ssize_t size = pread(file, text.data(), text.size(), 0);
  const auto json =
      parse_json_or_discard({text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))});
  if (!json.is_object()) return {};
  return {.process = json.value("process", 0),
          .run = json.value("run", ""),
          .machine = json.value("machine", ""),
          .processes = json.value("processes", ""),
          .engine = json.value("engine", ""),
          .experiment = json.value("experiment", ""),
          .file = json.value("file", "")};
}

bool selects(const Selector& selector, const Holder& holder) {
  return (selector.experiment.empty() || selector.experiment == holder.experiment) &&
         (selector.file.empty() || selector.file == holder.file) &&
         (!selector.run || selector.run->text() == holder.run);
}

// Interrupts the holder of one lock and waits until the holder releases the lock. Returns nullopt if no
// process holds the lock, if `selector` does not match the holder's run, or if the process is already in
// `asked`. A process may hold several locks but gets only one SIGINT, because a second SIGINT would make the
// process exit at once.
std::optional<Interrupted> interrupt(const std::string& path, const Selector& selector,
                                     const std::string& engine,
                                     const std::function<void(const RunId&)>& announce, std::set<int>& asked,
                                     const std::stop_token& stop) {
  const Descriptor file = open_existing_lock(path);
  if (!is_held(file)) return std::nullopt;
  const Holder holder = holder_of(file.number());
  if (holder.process <= 1 || holder.engine != engine || !selects(selector, holder)) return std::nullopt;
  if (holder.machine != machine() || holder.processes != namespace_of_processes()) return std::nullopt;
  const bool is_new = asked.insert(holder.process).second;
  if (is_new) announce(RunId(holder.run));
  if (is_new && ::kill(holder.process, SIGINT) != 0 && errno != ESRCH)
    throw Error(
        ErrorKind::refused, holder.experiment,
        fmt::format("cannot interrupt process {}, which owns run {}: {}", holder.process, holder.run, why()));
  if (lock(file.number(), k_starts_end, stop))
    return is_new ? std::optional(Interrupted{holder.process, holder.run}) : std::nullopt;
  throw Error(
      ErrorKind::conflict, holder.experiment,
      fmt::format("process {} still drives run {} after an interrupt; end the process, and repeat `kill`",
                  holder.process, holder.run));
}

}  // namespace

std::string state_folder(const Caller& caller) {
  if (const auto home = caller.env("COMBU_HOME"); home && !home->empty()) return *home;
  if (const auto state = caller.env("XDG_STATE_HOME"); state && !state->empty()) return *state + "/combu";
  return caller.home + "/.local/state/combu";
}

RunLock::RunLock(LockScope scope, const Run& run, const std::string& engine, const Caller& caller,
                 const std::stop_token& stop)
    : file_(open_lock(path_of(scope, run, engine, caller), caller)) {
  if (!lock(file_.number(), k_lock_patience, stop)) {
    const Holder holder = holder_of(file_.number());
    throw Error(ErrorKind::conflict, scope == LockScope::run ? "run " + run.id.text() : run.experiment.name,
                held_text(scope, holder.process, holder.run));
  }
  const std::string holder = text_of({.process = getpid(),
                                      .run = run.id.text(),
                                      .machine = machine(),
                                      .processes = namespace_of_processes(),
                                      .engine = engine,
                                      .experiment = run.experiment.name,
                                      .file = run.experiment.file});
  // Ignores failures: if writing fails, messages of other processes cannot name the holder.
  if (ftruncate(file_.number(), 0) == 0) (void)!pwrite(file_.number(), holder.data(), holder.size(), 0);
}

RunLock::~RunLock() {
  // Clears the lock file, so that later processes do not mistake this process for the holder.
  (void)!ftruncate(file_.number(), 0);
}

std::optional<int> owner_pid(const RunId& run, const Caller& caller) {
  const std::string path = path_of(LockScope::run, {.id = run, .experiment = {}}, {}, caller);
  const Descriptor file = open_existing_lock(path);
  if (!is_held(file)) return std::nullopt;
  return holder_of(file.number()).process;
}

std::string channel_path(const RunId& run, const Caller& caller) {
  return std::filesystem::path(state_folder(caller)) / "channels" / name_on_machine("run " + run.text());
}

std::string log_path(const RunId& run, const Caller& caller) {
  return std::filesystem::path(state_folder(caller)) / "logs" / (run.text() + ".log");
}

std::vector<Interrupted> interrupt_runs(const Selector& selector, const std::string& engine,
                                        const Caller& caller,
                                        const std::function<void(const RunId&)>& announce,
                                        const std::stop_token& stop) {
  std::vector<Interrupted> interrupted;
  std::set<int> asked;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(lock_folder(caller), none))
    if (const auto one = interrupt(entry.path(), selector, engine, announce, asked, stop))
      interrupted.push_back(*one);
  return interrupted;
}

}  // namespace combu
