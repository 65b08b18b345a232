#pragma once
// Access to the operating system: the user who called combu, programs that combu starts, signals, and files
// to which only this user can write.

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

// Returns the user of this process. If this user is root, the ids in SUDO_UID and SUDO_GID replace root's ids
// where these variables are set.
[[nodiscard]] User calling_user();
// name_of_user() and home_of_user() read the system's user database. Both functions return an empty string if
// the user is not listed.
[[nodiscard]] std::string name_of_user(std::uint32_t uid);
[[nodiscard]] std::string home_of_user(std::uint32_t uid);

// Return the name of a group (empty if the group is not listed), and the ids of all groups to which the
// system's user database assigns a user (empty if the user is not listed).
[[nodiscard]] std::string name_of_group(std::uint32_t gid);
[[nodiscard]] std::vector<std::uint32_t> groups_of_user(std::uint32_t uid);

// ---- Programs

struct ProgramCall {
  std::vector<std::string>
      arguments;  // the program's name, which is searched in PATH, and the arguments of the program
  std::vector<std::string> environment;  // NAME=VALUE
  std::string folder = {};               // the program's working folder; empty: the folder of this process
  std::string input;                     // the program's standard input
  std::size_t output_max =
      SIZE_MAX;              // maximum size of the output in bytes; combu kills a program that writes more
  Seconds time_max{};        // maximum run time; combu kills a program that runs longer
  std::optional<User> user;  // user and groups under whose ids the program runs; requires root
  std::stop_token stop;      // combu kills the program when this token requests a stop
};

struct ProgramEnd {
  int exit_code = 0;
  std::string output;       // the program's standard output
  bool output_cut = false;  // true if the program wrote more than output_max bytes
  // The reason why the program has no exit code: it could not be run, exceeded time_max, was stopped or was
  // killed. `problem` is empty if the program has an exit code, or if output_cut is true.
  std::string problem;
};

// Runs a program without a shell and blocks until the program ends. Discards the standard error of the
// program, which may contain secrets.
//
// The program runs in its own session, without a terminal, so that combu can kill the program together with
// its child processes. The system also kills the program if the thread that called run_program() ends.
//
// Thread-safe. Throws Error(unavailable) if the system cannot start another process.
[[nodiscard]] ProgramEnd run_program(const ProgramCall& call);

// Returns the path of the program `name` in PATH, as run_program() finds it; an empty string if there is
// none.
[[nodiscard]] std::string find_program(const std::string& name);

// Returns the environment of this process as NAME=VALUE.
[[nodiscard]] std::vector<std::string> own_environment();

// ---- Disks

struct DiskSpace {
  Bytes free;  // for users other than root
  Bytes total;
};
// Returns the space of the disk that contains the file or folder `path`; nullopt if `path` does not exist or
// cannot be examined, or if its file system has no size.
[[nodiscard]] std::optional<DiskSpace> disk_space(const std::string& path);

// ---- Private files

// A private file or folder is owned by the user of this process or, under sudo, by the calling user. No other
// user can write to a private file or folder. If a file would be private except that its mode lets other
// users write, combu corrects the mode. All files with combu's state are private, because they determine
// which processes combu interrupts and which programs combu runs.
//
// A new folder has mode 0700 and a new file has mode 0600, regardless of the umask. A file or folder that
// root creates in a folder of the calling user belongs to the calling user.

// Creates the folder `path` and its missing parents. If the folder exists, checks that the folder is private.
// Throws Error(invalid) if the folder is not private and combu cannot make it private. Throws Error(refused)
// if the folder cannot be created.
void make_private_folder(const std::string& path);

// Creates or checks the state folder, whose path the user may have chosen, like make_private_folder(). If
// other users can write to the state folder, combu corrects the mode only if the folder contains the record
// and no files other than combu's. Throws Error(invalid) if other users can write to a folder without a
// record or with other files.
void make_state_folder(const std::string& path);

// Opens a regular file with the flags of open(2). A symbolic link is never followed. If the file is missing
// and `flags` lacks O_CREAT, the returned descriptor is not open. Throws Error(invalid) if the file is not
// private or has several hard links. Throws Error(refused) if the file cannot be opened.
[[nodiscard]] Descriptor open_private_file(const std::string& path, int flags);

// Checks a file like open_private_file(), but does not open the file for reading or writing. The reason:
// closing an open descriptor of the file would release the locks that SQLite holds on the file in this
// process. Returns false if the file `path` does not exist.
[[nodiscard]] bool is_private_file(const std::string& path);

// Returns true if this process may read the file or folder but may not write to it. Examples of read-only
// files are files of another user and files on a read-only disk.
[[nodiscard]] bool is_read_only(const std::string& path);

// ---- Signals

// Handles SIGINT and SIGTERM in a separate thread. An Interrupts object must be created before all other
// threads. At the first signal, the stop token that token() returns requests a stop. At the second signal,
// Interrupts calls `leave` and ends the process at once with the exit code 128 + the signal's number. At most
// one Interrupts object may exist at a time.
class Interrupts {
 public:
  // The signal thread calls `leave`, which must restore the terminal.
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
