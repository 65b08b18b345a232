#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <functional>
#include <optional>
#include <system_error>

#include "combu/inputs.hpp"
#include "inputs/content.hpp"

namespace combu {
namespace {

namespace fs = std::filesystem;

// maximum number of symbolic links in a path, as in the kernel (path_resolution(7))
constexpr int k_links_max = 40;

void put_first(std::deque<fs::path>& parts, const fs::path& path) {
  const fs::path relative = path.relative_path();
  parts.insert(parts.begin(), relative.begin(), relative.end());
}

// Derives a valid folder name from the experiment's name.
std::string folder_name(const Experiment& experiment) {
  std::string name =
      experiment.name == experiment.file ? fs::path(experiment.file).stem().string() : experiment.name;
  std::ranges::replace(name, '/', '-');
  if (name.starts_with('.')) name.front() = '_';
  return name;
}

// One file, folder or link on a path in a trial's outputs. `target` is set if the entry is a symbolic link. A
// ReadStep returns nullopt if the entry does not exist.
struct Step {
  std::optional<fs::path> target;
};
using ReadStep = std::function<std::optional<Step>(const fs::path& path)>;

// Resolves the symbolic links in `path`, a path in the outputs of `trial`, which are in the folder `place`.
// Returns the resolved path, relative to `place`.
fs::path follow(const fs::path& place, const std::string& trial, const std::string& path,
                const ReadStep& read_step) {
  const auto missing = [&](const std::string& why) {
    return Error(ErrorKind::refused, "inputs",
                 fmt::format("the outputs of `{}` must contain {}: {}", trial, shortened(path), why));
  };
  std::deque<fs::path> parts;
  put_first(parts, path);
  fs::path here;
  for (int links = 0; !parts.empty();) {
    const fs::path part = parts.front();
    parts.pop_front();
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      here = here.parent_path();
      continue;
    }
    const std::optional<Step> step = read_step(here / part);
    if (!step) throw missing(fmt::format("{} is not there", (place / here / part).string()));
    if (!step->target) {
      here /= part;
      continue;
    }
    if (++links > k_links_max) throw missing("too many symbolic links");
    if (step->target->is_absolute()) here.clear();
    put_first(parts, *step->target);
  }
  if (here.empty()) throw missing("the path leads to the root folder of the container");
  return here;
}

std::string find_left(const std::string& where, const std::string& trial, const std::string& path) {
  const fs::path folder = where;
  const fs::path below = follow(folder, trial, path, [&](const fs::path& at) -> std::optional<Step> {
    const fs::path there = folder / at;
    std::error_code code;
    const fs::file_status status = fs::symlink_status(there, code);
    if (!fs::exists(status)) return std::nullopt;
    if (!fs::is_symlink(status)) return Step{};
    const fs::path target = fs::read_symlink(there, code);
    if (code)
      throw Error(ErrorKind::refused, "inputs", there.string() + " cannot be read: " + code.message());
    return Step{.target = target};
  });
  return (folder / below).string();
}

}  // namespace

bool ByParts::operator()(std::string_view one, std::string_view other) const {
  const auto rank = [](char letter) { return letter == '/' ? 0 : static_cast<unsigned char>(letter); };
  return std::ranges::lexicographical_compare(
      one, other, [&](char first, char second) { return rank(first) < rank(second); });
}

std::string content_digest(const FolderContent& left, const std::string& trial, const std::string& path) {
  const std::string root = follow("/", trial, path, [&](const fs::path& at) -> std::optional<Step> {
    const auto found = left.find(at.string());
    if (found == left.end()) return std::nullopt;
    if (found->second.kind == ContentEntry::Kind::link) return Step{.target = found->second.text};
    return Step{};
  });
  inputs::Content content;
  for (auto it = left.find(root); it != left.end(); ++it) {
    const std::string_view name = std::string_view(it->first);
    if (name != root && !name.starts_with(root + "/")) break;
    content.add(name.substr(root.size()), it->second);
  }
  return content.digest();
}

std::string results_folder(const Experiment& experiment, const RunId& run) {
  return fmt::format("{}/{}/{}", experiment.collect.to, folder_name(experiment), run.text());
}

std::string resolved_results_folder(const Experiment& experiment, const RunId& run,
                                    const HostPaths& host_paths) {
  const std::string& collect = experiment.collect.to;
  const auto known = host_paths.find(collect);
  return (known == host_paths.end() ? resolved(collect) : known->second) +
         results_folder(experiment, run).substr(collect.size());
}

std::string resolved(const std::string& path) {
  std::error_code unreadable;
  const fs::path real = fs::weakly_canonical(path, unreadable);
  return unreadable ? path : real.string();
}

HostPaths resolved_host_paths(const Experiment& experiment) {
  HostPaths paths;
  const auto add = [&](const std::string& path) {
    if (const auto [at, is_new] = paths.try_emplace(path); is_new) at->second = resolved(path);
  };
  for (const Trial& trial : experiment.trials)
    for (const Input& input : trial.inputs)
      if (input.trial.empty()) add(input.from);
  if (experiment.collect.to.starts_with('/')) add(experiment.collect.to);
  return paths;
}

void find_inputs(Trial& trial, const HostPaths& host_paths, const LocateOutput& where) {
  for (Input& input : trial.inputs) {
    if (!input.trial.empty()) {
      input.from = find_left(where(input.trial, input.from), input.trial, input.from);
    } else if (const auto known = host_paths.find(input.from); known != host_paths.end()) {
      input.from = known->second;
    }
  }
}

}  // namespace combu
