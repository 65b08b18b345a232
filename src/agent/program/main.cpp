// The program that runs inside containers; docs/agent.md describes it.

#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "join.hpp"
#include "server.hpp"
#include "supervision.hpp"
#include "system.hpp"
#include "unpack.hpp"

namespace {

constexpr int k_usage_error = 2;
constexpr int k_first_free = 10;

// The numbers 0 to 9 are for the programs of attempts and for helpers, so that no other descriptor of the
// agent has one of them.
bool reserve_descriptors() {
  int number = -1;
  do {
    number = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (number >= 0 && number <= STDERR_FILENO) fcntl(number, F_SETFD, 0);
  } while (number >= 0 && number < k_first_free);
  if (number >= 0) close(number);
  return number >= 0;
}

int fail(std::string_view text) {
  combu::agent::write_all(STDERR_FILENO, text);
  return k_usage_error;
}

// Reads the arguments of `agent worker` behind FOLDER.
bool read_worker(const std::vector<std::string_view>& arguments, std::uint64_t& idle_seconds,
                 std::string& note, std::vector<combu::agent::Variable>& variables) {
  if (arguments.empty() || !combu::agent::read_number(arguments[0], idle_seconds)) return false;
  if (arguments.size() > 1) note = arguments[1];
  for (std::size_t i = 2; i < arguments.size(); ++i)
    if (!combu::agent::add_variable(arguments[i], variables)) return false;
  return true;
}

// The attempts of a worker inherit its environment.
bool set_variables(const std::vector<combu::agent::Variable>& variables) {
  std::vector<std::string> environment;
  const std::string problem = combu::agent::read_variables(variables, environment);
  if (!problem.empty()) combu::agent::complain(problem);
  for (std::string& entry : environment) {
    const std::size_t name_end = entry.find('=');
    entry[name_end] = '\0';
    // NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread
    setenv(entry.c_str(), entry.c_str() + name_end + 1, 1);
  }
  return problem.empty();
}

}  // namespace

int main(int argument_count, char** arguments) {
  using namespace combu::agent;
  const std::string_view mode = argument_count > 1 ? arguments[1] : "";
  if (mode == "join" && argument_count == 3) return join(arguments[2]);
  if (mode == "unpack" && argument_count == 2) return unpack_at_root();
  std::uint64_t idle_seconds = 0;
  std::string note;
  std::vector<Variable> variables;
  Supervision supervision;
  const std::vector<std::string_view> others(arguments + std::min(argument_count, 3),
                                             arguments + argument_count);
  const bool is_worker = mode == "worker" && read_worker(others, idle_seconds, note, variables);
  const bool is_supervisor = mode == "supervise" && read_supervision(others, supervision);
  if (!is_worker && !is_supervisor)
    return fail(
        "usage: agent worker FOLDER IDLE_SECONDS [NOTE [variable=NAME=PATH]...]\n"
        "       agent supervise FOLDER [SETTING=VALUE]... -- PROGRAM [ARGUMENT]...\n"
        "       agent join FOLDER\n"
        "       agent unpack\n");
  close_range(STDERR_FILENO + 1, UINT_MAX, 0);  // attempts must not inherit what this process has inherited
  if (!reserve_descriptors()) return fail("agent: cannot open /dev/null\n");
  // A worker stays small: large blocks go back to the system at once. A supervisor keeps them, because the
  // system needs more time for new memory than for the bytes of an archive.
  // NOLINTBEGIN(concurrency-mt-unsafe): there is one thread
  mallopt(M_MMAP_THRESHOLD, is_worker ? 32 << 10 : 1 << 20);
  mallopt(M_TRIM_THRESHOLD, is_worker ? 64 << 10 : 1 << 20);
  // NOLINTEND(concurrency-mt-unsafe)
  if (is_supervisor)
    return Server(Attempts::Kind::supervisor).supervise(arguments[2], std::move(supervision));
  if (!set_variables(variables)) return k_not_started;
  return Server(Attempts::Kind::worker)
      .run(arguments[2], static_cast<std::int64_t>(idle_seconds) * k_second, std::move(note));
}
