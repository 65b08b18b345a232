#include "control_group.hpp"

#include <fcntl.h>

#include <algorithm>
#include <string_view>

namespace combu::agent {
namespace {

constexpr std::string_view k_mount = "/sys/fs/cgroup";

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

}  // namespace

ControlGroup::ControlGroup() {
  const std::string groups = read_file("/proc/self/cgroup", 65536);
  const std::string mount(k_mount);
  const std::string version1 = mount + "/memory";
  // In a container, the mount point is often the group itself.
  for (const std::string& path :
       {mount + own_path(groups, "") + "/memory.events", mount + "/memory.events",
        version1 + own_path(groups, "memory") + "/memory.oom_control", version1 + "/memory.oom_control"}) {
    events_ = open_file(path);
    if (events_.is_open()) return;
  }
}

std::uint64_t ControlGroup::oom_kills() {
  constexpr std::string_view k_name = "oom_kill ";
  if (!events_.is_open() || !read_again(events_.get(), text_)) return 0;
  std::string_view left = text_;
  std::uint64_t count = 0;
  while (!left.empty()) {
    const std::string_view line = left.substr(0, left.find('\n'));
    left.remove_prefix(std::min(line.size() + 1, left.size()));
    if (line.starts_with(k_name) && read_number(line.substr(k_name.size()), count)) return count;
  }
  return 0;
}

}  // namespace combu::agent
