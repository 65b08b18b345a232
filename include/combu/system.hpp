#pragma once
// Functions of the operating system: the user who called combu, the programs that combu starts, and private
// files, which only this user can write to.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "combu/base.hpp"

namespace combu {

struct User {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  bool operator==(const User&) const = default;
};

// If root runs combu, returns the user in SUDO_UID and SUDO_GID. In all other cases, returns the user of this
// process.
[[nodiscard]] User calling_user();
// Return the name and the home folder in the system's user database, or an empty string if the user is not
// listed.
[[nodiscard]] std::string name_of_user(std::uint32_t uid);
[[nodiscard]] std::string home_of_user(std::uint32_t uid);

// ---- Programs

struct ProgramCall {
  std::vector<std::string> arguments;    // begins with the program's name, which is searched in PATH
  std::vector<std::string> environment;  // NAME=VALUE
  std::string input;                     // the program's standard input
  std::size_t output_max = SIZE_MAX;     // bytes; a program that writes more is killed
  Seconds time_max{};                    // a program that runs longer is killed
  std::optional<User> user;  // run the program as this user, with the groups of this user; requires root
  std::stop_token stop;      // if this is set, the program is killed
};

struct ProgramEnd {
  int exit_code = 0;
  std::string output;       // the program's standard output
  bool output_cut = false;  // the program wrote more than output_max
  // Why there is no exit code: the program cannot be run, exceeded time_max, was stopped or was killed. Empty
  // if there is an exit code, or if output_cut is set.
  std::string problem;
};

// Runs a program without a shell and blocks until the program ends. Discards its standard error, which may
// contain secrets.
//
// The program has its own session, so it has no terminal, and combu can kill it together with the processes
// that it has started. The system also kills the program if the thread that called this function ends.
//
// Thread-safe. Throws Error(unavailable) if the system cannot start another process.
[[nodiscard]] ProgramEnd run_program(const ProgramCall& call);

// Returns the environment of this process as NAME=VALUE.
[[nodiscard]] std::vector<std::string> own_environment();

// ---- Private files

// A private file or folder is owned by the user of this process or, under sudo, by the calling user. No other
// user can write to it. If its mode allows other users to write, combu corrects the mode. All state of combu
// is private, because it determines which processes combu interrupts and which programs it runs.
//
// A new folder has mode 0700 and a new file has mode 0600, regardless of the umask. If root creates them in a
// folder of the calling user, they belong to the calling user.

// Creates the folder and its missing parents. Checks the folder if it exists. Throws Error(invalid) if the
// folder is not private and combu cannot make it private. Throws Error(refused) if the folder cannot be
// created.
void make_private_folder(const std::string& path);

// Creates or checks the state folder like make_private_folder(), but the user may have chosen its path. If
// other users can write to this folder, combu corrects the mode only if the folder contains the record and no
// foreign files. Otherwise throws Error(invalid).
void make_state_folder(const std::string& path);

// Opens a regular file with the flags of open(2). Never follows a symbolic link. If the file is missing and
// `flags` lacks O_CREAT, the returned descriptor is not open. Throws Error(invalid) if the file is not
// private or has several hard links. Throws Error(refused) if the file cannot be opened.
[[nodiscard]] Descriptor open_private_file(const std::string& path, int flags);

// Checks a file like open_private_file(), but opens it neither for reading nor for writing: closing such a
// descriptor would release SQLite's locks of this process. Returns false if the file does not exist.
[[nodiscard]] bool is_private_file(const std::string& path);

// True if this process may read the file or folder but not write to it. Examples are files of another user
// and files on a read-only disk.
[[nodiscard]] bool is_read_only(const std::string& path);

// ---- Signals

// Handles SIGINT and SIGTERM in a separate thread. Must be created before all other threads. The first signal
// sets token(). The second signal calls `leave` and ends the process at once with the exit code 128 + the
// signal's number. At most one object may exist at a time.
class Interrupts {
 public:
  // `leave` restores the terminal. The signal thread calls it.
  explicit Interrupts(std::function<void()> leave = {});
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  [[nodiscard]] std::stop_token token() const;
  // Returns the number of the first signal, or 0 if no signal has arrived.
  [[nodiscard]] int signal() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace combu
