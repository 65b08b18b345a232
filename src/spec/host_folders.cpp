#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <unordered_set>
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

// Creates a folder and its parents, as mkdir -p does. Returns the fault, or an empty string if there is none.
std::string make_folders(const std::string& path, const Caller& caller) {
  const bool for_another = geteuid() == 0 && caller.uid != 0;
  constexpr mode_t k_mode = 0777;  // the umask reduces these permissions
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string folder = path.substr(0, end);
    const int failed = mkdir(folder.c_str(), k_mode) == 0 ? 0 : errno;
    if (failed == 0) {
      if (for_another && lchown(folder.c_str(), caller.uid, caller.gid) != 0) {
        return fmt::format("cannot change the owner of {}: {}", folder, reason(errno));
      }
    } else if (failed != EEXIST || is_file(folder)) {
      return is_file(folder) ? fmt::format("{} is a file", folder)
                             : fmt::format("{}: {}", folder, reason(failed));
    }
    if (end == std::string::npos) return "";
  }
}

// Returns why an existing host path cannot be mounted, or an empty string if it can be mounted.
std::string fault_of_existing(const std::string& path, mode_t mode, bool folder_meant) {
  if (folder_meant && !S_ISDIR(mode)) return "is a file, but the `/` at its end means a folder";
  const int access_wanted = S_ISDIR(mode) ? R_OK | X_OK : R_OK;
  if (access(path.c_str(), access_wanted) != 0) return "cannot be read: " + reason(errno);
  return "";
}

// One path on this machine, which several trials may mount.
struct HostPath {
  const Trial* trial;
  // the first volume that writes this path with a `/` at its end; if there is none, the first volume with
  // this path
  const Volume* volume;
  bool folder_meant;
  bool read_only;  // true: all volumes with this path are read-only
};

std::vector<HostPath> distinct_paths(const Experiment& experiment) {
  std::vector<HostPath> paths;
  std::unordered_map<std::string_view, std::size_t> known;
  for (const Trial& trial : experiment.trials) {
    for (const Volume& volume : trial.container.volumes) {
      if (!volume.source_is_path || volume.remote) continue;
      const auto [found, is_new] = known.emplace(volume.source, paths.size());
      if (is_new) {
        paths.push_back({&trial, &volume, volume.folder_meant, volume.read_only});
        continue;
      }
      HostPath& path = paths[found->second];
      path.read_only = path.read_only && volume.read_only;
      if (volume.folder_meant && !path.folder_meant) path = {&trial, &volume, true, path.read_only};
    }
  }
  return paths;
}

bool is_absent(const HostPath& path) {
  struct stat status {};
  return stat(path.volume->source.c_str(), &status) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

// Returns the fault of an existing path, or why the path cannot be examined. Returns an empty string if the
// path is valid or absent.
std::string fault_of(const HostPath& path) {
  const std::string& source = path.volume->source;
  struct stat status {};
  if (stat(source.c_str(), &status) == 0) return fault_of_existing(source, status.st_mode, path.folder_meant);
  return errno == ENOENT || errno == ENOTDIR ? "" : "cannot be read: " + reason(errno);
}

// Returns why an absent folder cannot be created, judging by its nearest existing parent folder. Returns an
// empty string if the folder can be created.
std::string fault_of_making(const std::string& path) {
  std::string above = path;
  struct stat status {};
  do {
    above.resize(std::max<std::size_t>(above.rfind('/'), 1));
  } while (stat(above.c_str(), &status) != 0 && above != "/");
  if (!S_ISDIR(status.st_mode))
    return fmt::format("does not exist and cannot be created: {} is a file", above);
  if (access(above.c_str(), W_OK | X_OK) == 0) return "";
  return fmt::format("does not exist and cannot be created: {}: {}", above, reason(errno));
}

// Returns why outputs cannot be copied to `path`, or an empty string if they can be copied.
std::string fault_of_results(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return fault_of_making(path);
  if (!S_ISDIR(status.st_mode)) return "must be a folder for outputs, but is a file";
  return access(path.c_str(), W_OK | X_OK) == 0 ? "" : "cannot be written: " + reason(errno);
}

// True if the paths are equal, or one is a folder that contains the other.
bool is_along(std::string_view one, std::string_view other) {
  if (one.size() > other.size()) std::swap(one, other);
  return other.starts_with(one) && (other.size() == one.size() || one == "/" || other[one.size()] == '/');
}

bool any_outputs(const Experiment& experiment) {
  return experiment.collect.to.starts_with('/') &&
         std::ranges::any_of(experiment.trials, [](const Trial& trial) { return !trial.outputs.empty(); });
}

// True if a trial with a writable volume, or the collected outputs, can create files in the folder.
bool may_be_filled(const HostPath& path, const Experiment& experiment, const std::vector<HostPath>& paths) {
  const std::string& source = path.volume->source;
  if (any_outputs(experiment) && is_along(source, experiment.collect.to)) return true;
  return std::ranges::any_of(paths, [&](const HostPath& other) {
    return !other.read_only && is_along(source, other.volume->source);
  });
}

Error error_of(const HostPath& path, const std::string& fault) {
  return {ErrorKind::invalid, path.volume->path,
          fmt::format("{} {} (trial `{}`)", path.volume->source, fault, shortened(path.trial->name))};
}

// Returns why an input file or folder of this machine cannot be uploaded, or an empty string if it can be
// uploaded.
std::string fault_of_input(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) == 0) return fault_of_existing(path, status.st_mode, false);
  return errno == ENOENT || errno == ENOTDIR ? "does not exist" : "cannot be read: " + reason(errno);
}

void check_inputs(const Experiment& experiment, std::vector<Error>& errors) {
  std::unordered_set<std::string_view> known;
  for (const Trial& trial : experiment.trials) {
    for (const Input& input : trial.inputs) {
      if (!input.trial.empty() || !known.insert(input.from).second) continue;
      if (const std::string fault = fault_of_input(input.from); !fault.empty())
        errors.emplace_back(ErrorKind::invalid, input.path,
                            fmt::format("{} {} (trial `{}`)", input.from, fault, shortened(trial.name)));
    }
  }
}

}  // namespace

std::vector<Error> check_host_paths(const Experiment& experiment, EngineHost host) {
  std::vector<Error> errors;
  const std::vector<HostPath> paths = distinct_paths(experiment);
  for (const HostPath& path : paths) {
    std::string fault = fault_of(path);
    const bool is_absent = fault.empty() && combu::is_absent(path);
    if (is_absent) fault = fault_of_making(path.volume->source);
    if (is_absent && host == EngineHost::this_machine && path.read_only &&
        !may_be_filled(path, experiment, paths))
      fault =
          "does not exist, and is mounted read-only: the trial would find an empty folder; correct the path, "
          "or create the folder";
    if (!fault.empty()) errors.push_back(error_of(path, fault));
  }
  check_inputs(experiment, errors);
  const std::string& results = experiment.collect.to;
  if (std::string fault = any_outputs(experiment) ? fault_of_results(results) : ""; !fault.empty())
    errors.emplace_back(ErrorKind::invalid, "collect.to", fmt::format("{} {}", results, fault));
  return errors;
}

HostFolders make_host_folders(const Experiment& experiment, const Caller& caller) {
  HostFolders result;
  for (const HostPath& path : distinct_paths(experiment)) {
    std::string fault = fault_of(path);
    if (fault.empty() && is_absent(path)) {
      fault = make_folders(path.volume->source, caller);
      if (fault.empty()) {
        result.made.push_back(path.volume->source);
      } else {
        fault.insert(0, "does not exist and cannot be created: ");
      }
    }
    if (!fault.empty()) result.errors.push_back(error_of(path, fault));
  }
  return result;
}

}  // namespace combu
