#include "processes.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace combu::agent {
namespace {

constexpr std::size_t k_environment_max = std::size_t{256} << 10U;

std::string path_of(pid_t pid, const char* file) {
  return "/proc/" + to_text(static_cast<std::uint64_t>(pid)) + file;
}

// Takes the next word of a text.
std::string_view next_word(std::string_view& text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\n')) text.remove_prefix(1);
  const std::size_t end = text.find_first_of(" \n");
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(word.size());
  return word;
}

std::uint64_t next_number(std::string_view& text) {
  std::uint64_t number = 0;
  if (!read_number(next_word(text), number)) number = 0;
  return number;
}

void skip_words(std::string_view& text, int count) {
  for (int i = 0; i < count; ++i) next_word(text);
}

std::vector<pid_t> pids_in(std::string_view text) {
  std::vector<pid_t> pids;
  while (const std::uint64_t pid = next_number(text)) pids.push_back(static_cast<pid_t>(pid));
  return pids;
}

std::vector<pid_t> children_by_scan(pid_t parent) {
  std::vector<pid_t> children;
  ProcessState state;
  for (const pid_t pid : all_processes())
    if (read_process(pid, state) && state.parent == parent) children.push_back(pid);
  return children;
}

}  // namespace

bool read_process(pid_t pid, ProcessState& state) {
  static const auto ticks = static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK));
  static const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const std::string text = read_file(path_of(pid, "/stat").c_str(), 4096);
  // The name of the program is in parentheses, and may contain any character. The numbers of the fields are
  // those of proc(5).
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return false;
  std::string_view left = std::string_view(text).substr(name_end + 1);
  const std::string_view letter = next_word(left);
  state.state = letter.empty() ? 'X' : letter.front();
  state.parent = static_cast<pid_t>(next_number(left));
  state.group = static_cast<pid_t>(next_number(left));
  state.session = static_cast<pid_t>(next_number(left));
  skip_words(left, 7);  // fields 7 to 13
  std::uint64_t cpu_ticks = 0;
  for (int i = 0; i < 4; ++i) cpu_ticks += next_number(left);
  state.cpu_ns = cpu_ticks * (k_second / ticks);
  skip_words(left, 4);  // fields 18 to 21
  state.started_at = static_cast<std::int64_t>(next_number(left) * (k_second / ticks));
  skip_words(left, 1);
  state.memory = next_number(left) * page;
  return true;
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> pids;
  DIR* folder = opendir("/proc");
  if (folder == nullptr) return pids;
  while (const dirent* entry = readdir(folder)) {  // NOLINT(concurrency-mt-unsafe): there is one thread
    std::uint64_t pid = 0;
    if (read_number(entry->d_name, pid)) pids.push_back(static_cast<pid_t>(pid));
  }
  closedir(folder);
  return pids;
}

bool may_be_descendant(pid_t pid) {
  const pid_t self = getpid();
  ProcessState state;
  // A chain of parents that changes while it is read can be longer than the number of processes.
  for (int steps = 0; steps < 100'000; ++steps) {
    if (pid == self || !read_process(pid, state)) return true;
    if (state.parent == 0) return false;
    pid = state.parent;
  }
  return true;
}

std::string variable_of(pid_t pid, std::string_view name) {
  const std::string text = read_file(path_of(pid, "/environ").c_str(), k_environment_max);
  std::string_view left = text;
  while (!left.empty()) {
    const std::string_view entry = left.substr(0, left.find('\0'));
    if (entry.starts_with(name) && entry.substr(name.size()).starts_with('='))
      return std::string(entry.substr(name.size() + 1));
    left.remove_prefix(std::min(entry.size() + 1, left.size()));
  }
  return {};
}

Children::Children() {
  const std::string path = "/proc/self/task/" + to_text(static_cast<std::uint64_t>(getpid())) + "/children";
  file_ = Descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

std::vector<pid_t> Children::list() {
  if (file_.is_open() && read_again(file_.get(), text_)) return pids_in(text_);
  return children_by_scan(getpid());
}

std::vector<pid_t> Children::of(pid_t pid) {
  std::vector<pid_t> children;
  const std::string folder_path = path_of(pid, "/task");
  DIR* folder = opendir(folder_path.c_str());
  if (folder == nullptr) return children;
  while (const dirent* entry = readdir(folder)) {  // NOLINT(concurrency-mt-unsafe): there is one thread
    const std::string path = folder_path + "/" + entry->d_name + "/children";
    for (const pid_t child : pids_in(read_file(path.c_str(), std::size_t{1} << 20U)))
      children.push_back(child);
  }
  closedir(folder);
  return children;
}

}  // namespace combu::agent
