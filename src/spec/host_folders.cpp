#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "combu/spec.hpp"

namespace combu {

namespace {

std::string reason(int error) {
  return std::generic_category().message(error);
}

bool is_file(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && !S_ISDIR(status.st_mode);
}

// mkdir -p; gives why not, or an empty text.
std::string make_folders(const std::string& path, const Caller& caller) {
  const bool for_another = geteuid() == 0 && caller.uid != 0;
  constexpr mode_t k_mode = 0777;  // less the umask
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string folder = path.substr(0, end);
    const int failed = mkdir(folder.c_str(), k_mode) == 0 ? 0 : errno;
    if (failed == 0) {
      if (for_another && lchown(folder.c_str(), caller.uid, caller.gid) != 0) {
        return fmt::format("cannot give {} to its owner: {}", folder, reason(errno));
      }
    } else if (failed != EEXIST || is_file(folder)) {
      return is_file(folder) ? fmt::format("{} is a file", folder)
                             : fmt::format("{}: {}", folder, reason(failed));
    }
    if (end == std::string::npos) return "";
  }
}

// Why an existing host path cannot be mounted, or an empty text.
std::string fault_of_existing(const std::string& path, mode_t mode, bool folder_meant) {
  if (folder_meant && !S_ISDIR(mode)) return "is a file, but the `/` at its end means a folder";
  const int access_wanted = S_ISDIR(mode) ? R_OK | X_OK : R_OK;
  if (access(path.c_str(), access_wanted) != 0) return "cannot be read: " + reason(errno);
  return "";
}

// One host path, however many trials mount it.
struct HostPath {
  const Trial* trial;
  const Volume* volume;  // the first that names it, or the first that means a folder
  bool folder_meant;
};

std::vector<HostPath> distinct_paths(const Experiment& experiment) {
  std::vector<HostPath> paths;
  std::unordered_map<std::string_view, std::size_t> known;
  for (const Trial& trial : experiment.trials) {
    for (const Volume& volume : trial.volumes) {
      if (!volume.source_is_path) continue;
      const auto [found, is_new] = known.emplace(volume.source, paths.size());
      if (is_new) {
        paths.push_back({&trial, &volume, volume.folder_meant});
      } else if (volume.folder_meant && !paths[found->second].folder_meant) {
        paths[found->second] = {&trial, &volume, true};
      }
    }
  }
  return paths;
}

}  // namespace

HostFolders make_host_folders(const Experiment& experiment, const Caller& caller) {
  HostFolders result;
  for (const auto& [trial, volume, folder_meant] : distinct_paths(experiment)) {
    const std::string& path = volume->source;
    struct stat status {};
    std::string fault;
    if (stat(path.c_str(), &status) == 0) {
      fault = fault_of_existing(path, status.st_mode, folder_meant);
    } else if (errno == ENOENT || errno == ENOTDIR) {
      fault = make_folders(path, caller);
      if (fault.empty()) {
        result.made.push_back(path);
      } else {
        fault.insert(0, "is absent and cannot be made: ");
      }
    } else {
      fault = "cannot be read: " + reason(errno);
    }
    if (fault.empty()) continue;
    result.errors.emplace_back(ErrorKind::invalid, volume->path,
                               fmt::format("{} {} (trial `{}`)", path, fault, shortened(trial->name)));
  }
  return result;
}

}  // namespace combu
