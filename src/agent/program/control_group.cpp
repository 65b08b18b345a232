#include "control_group.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

namespace combu::agent {
namespace {

constexpr std::string_view k_mount = "/sys/fs/cgroup";
constexpr std::size_t k_text_max = 65536;

// Returns the path of this process's group in a hierarchy: of version 2 if `controller` is empty.
std::string own_path(std::string_view groups, std::string_view controller) {
  while (!groups.empty()) {
    std::string_view line = groups.substr(0, groups.find('\n'));
    groups.remove_prefix(std::min(line.size() + 1, groups.size()));
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    if (line.substr(first + 1, second - first - 1) == controller) return std::string(line.substr(second + 1));
  }
  return {};
}

Descriptor open_file(const std::string& path) {
  return Descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

std::uint64_t oom_kills_in(std::string_view events) {
  constexpr std::string_view k_name = "oom_kill ";
  std::uint64_t count = 0;
  while (!events.empty()) {
    const std::string_view line = events.substr(0, events.find('\n'));
    events.remove_prefix(std::min(line.size() + 1, events.size()));
    if (line.starts_with(k_name) && read_number(line.substr(k_name.size()), count)) return count;
  }
  return 0;
}

bool write_file(const std::string& path, std::string_view text) {
  const Descriptor file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return file.is_open() && write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

// Reads a file of a group that has another name in each version of control groups.
std::string read_either(const std::string& folder, std::string_view version2, std::string_view version1) {
  std::string text = read_file((folder + "/").append(version2).c_str(), k_text_max);
  return text.empty() ? read_file((folder + "/").append(version1).c_str(), k_text_max) : text;
}

}  // namespace

AttemptGroup::AttemptGroup(std::string folder) : folder_(std::move(folder)) {
  if (mkdir(folder_.c_str(), S_IRWXU) != 0 && errno != EEXIST) return;
  entry_ = Descriptor(open((folder_ + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
}

AttemptGroup::~AttemptGroup() {
  rmdir(folder_.c_str());
}

std::uint64_t AttemptGroup::oom_kills() const {
  return oom_kills_in(read_either(folder_, "memory.events", "memory.oom_control"));
}

std::uint64_t AttemptGroup::memory_peak() const {
  std::string text = read_either(folder_, "memory.peak", "memory.max_usage_in_bytes");
  while (text.ends_with('\n')) text.pop_back();
  std::uint64_t bytes = 0;
  return read_number(text, bytes) ? bytes : 0;
}

ControlGroup::ControlGroup(bool may_divide) {
  const std::string groups = read_file("/proc/self/cgroup", k_text_max);
  const std::string mount(k_mount);
  const std::string version1 = mount + "/memory";
  // In a container, the mount point is often the group itself.
  for (const std::string& folder :
       {mount + own_path(groups, ""), mount, version1 + own_path(groups, "memory"), version1}) {
    events_ = open_file(folder + "/memory.events");
    is_version2_ = events_.is_open();
    if (!is_version2_) events_ = open_file(folder + "/memory.oom_control");
    if (!events_.is_open()) continue;
    folder_ = folder;
    is_divided_ = may_divide && divide();
    return;
  }
}

bool ControlGroup::divide() const {
  const std::string own = folder_ + "/combu-agent";
  if (mkdir(own.c_str(), S_IRWXU) != 0 && errno != EEXIST) return false;
  // With version 2, a group that contains groups cannot contain processes.
  if (is_version2_)
    return write_file(own + "/cgroup.procs", "0") &&
           write_file(folder_ + "/cgroup.subtree_control", "+memory");
  return rmdir(own.c_str()) == 0;
}

std::uint64_t ControlGroup::oom_kills() {
  return events_.is_open() && read_again(events_.get(), text_) ? oom_kills_in(text_) : 0;
}

std::unique_ptr<AttemptGroup> ControlGroup::make_group(std::uint64_t attempt) const {
  if (!is_divided_) return nullptr;
  auto group = std::make_unique<AttemptGroup>(folder_ + "/combu-" + to_text(attempt));
  return group->entry() < 0 ? nullptr : std::move(group);
}

}  // namespace combu::agent
