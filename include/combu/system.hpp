#pragma once
// The operating system: the user who called combu, the programs that combu starts, and the files that only
// this user may change.

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

// If root runs combu, the user in SUDO_UID and SUDO_GID; else, and without these, this process's own user.
[[nodiscard]] User calling_user();
// Name and home folder in the system's user database; empty if the user is not there.
[[nodiscard]] std::string name_of_user(std::uint32_t uid);
[[nodiscard]] std::string home_of_user(std::uint32_t uid);

// ---- Programs

struct ProgramCall {
  std::vector<std::string> arguments;    // begins with the program's name, which is looked for in PATH
  std::vector<std::string> environment;  // NAME=VALUE
  std::string input;                     // what the program reads from its standard input
  std::size_t output_max = SIZE_MAX;     // bytes; a program that writes more is killed
  Seconds time_max{};                    // a program that runs longer is killed
  std::optional<User> user;              // the user that it runs as, with this user's groups; needs root
  std::stop_token stop;                  // a program that runs when this is set is killed
};

struct ProgramEnd {
  int exit_code = 0;
  std::string output;       // what it wrote to its standard output
  bool output_cut = false;  // it wrote more than output_max
  std::string problem;  // why there is no exit code: it cannot be run, was too slow, was stopped or killed
};

// Runs a program without a shell and waits for its end. Its standard error is dropped: it may hold secrets.
// It has a session of its own, so it has no terminal, and it is killed together with the programs that it has
// started. It is killed, too, if the thread that called this function dies.
// Safe beside other threads. Throws Error(unavailable) if the system has no room for another process.
[[nodiscard]] ProgramEnd run_program(const ProgramCall& call);

// The environment of this process, as NAME=VALUE.
[[nodiscard]] std::vector<std::string> own_environment();

// ---- Private files

// A private file or folder belongs to this process's user, or under sudo to the calling user. Nobody else can
// write to it. A mode that lets others write is corrected. Everything that combu keeps for later is private:
// it says which processes to interrupt and what to run.
//
// A new folder has mode 0700 and a new file 0600, whatever the umask is. If root makes it in a folder of the
// calling user, it belongs to this user.

// Makes the folder, and those above it that are missing, or checks it if it exists. Throws Error: `invalid`
// if the folder is not private and cannot become so, `refused` if it cannot be made.
void make_private_folder(const std::string& path);

// The same for the state folder, which the user may choose. If others can write to it, the mode is corrected
// only if the folder holds the record and nothing that is not combu's; else it throws Error(invalid).
void make_state_folder(const std::string& path);

// Opens a regular file by the flags of open(2), never through a symbolic link. Without O_CREAT, the
// descriptor of a missing file is not open. Throws Error: `invalid` if the file is not private or has several
// hard links, `refused` if it cannot be opened.
[[nodiscard]] Descriptor open_private_file(const std::string& path, int flags);

// The same check without opening the file: closing it would release SQLite's locks of this process. Returns
// false if there is no such file.
[[nodiscard]] bool is_private_file(const std::string& path);

// True if this process may read the file or folder and not write to it: it belongs to another user, whose
// state is only looked at, or is on a read-only disk.
[[nodiscard]] bool is_read_only(const std::string& path);

// ---- Signals

// SIGINT and SIGTERM, taken by a thread of its own. Make it before any other thread. The first signal sets
// token(); the second calls `leave` and ends the process at once with 128 + its number. One object at a time.
class Interrupts {
 public:
  // `leave` puts the terminal right; called from the signal's thread.
  explicit Interrupts(std::function<void()> leave = {});
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  [[nodiscard]] std::stop_token token() const;
  // The first signal's number, 0 while there was none.
  [[nodiscard]] int signal() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace combu
