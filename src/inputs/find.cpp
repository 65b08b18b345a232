#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <system_error>

#include "combu/inputs.hpp"

namespace combu {
namespace {

namespace fs = std::filesystem;

constexpr int k_links_max = 40;  // as the kernel has it (path_resolution(7))

void put_first(std::deque<fs::path>& parts, const fs::path& path) {
  const fs::path relative = path.relative_path();
  parts.insert(parts.begin(), relative.begin(), relative.end());
}

// Of what an experiment is called, which may be no name of a folder.
std::string folder_name(const Experiment& experiment) {
  std::string name =
      experiment.name == experiment.file ? fs::path(experiment.file).stem().string() : experiment.name;
  std::ranges::replace(name, '/', '-');
  if (name.starts_with('.')) name.front() = '_';
  return name;
}

std::string find_left(const std::string& folder, const std::string& trial, const std::string& path) {
  const auto missing = [&](const std::string& why) {
    return Error(ErrorKind::refused, "inputs",
                 fmt::format("`{}` has left no {} that could be an input: {}", trial, shortened(path), why));
  };
  std::deque<fs::path> parts;
  put_first(parts, path);
  fs::path here;  // below the folder
  for (int links = 0; !parts.empty();) {
    const fs::path part = parts.front();
    parts.pop_front();
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      here = here.parent_path();
      continue;
    }
    const fs::path there = fs::path(folder) / here / part;
    std::error_code code;
    const fs::file_status status = fs::symlink_status(there, code);
    if (!fs::exists(status)) throw missing(fmt::format("{} is not there", there.string()));
    if (!fs::is_symlink(status)) {
      here /= part;
      continue;
    }
    if (++links > k_links_max) throw missing("too many symbolic links");
    const fs::path target = fs::read_symlink(there, code);
    if (code) throw missing(fmt::format("{}: {}", there.string(), code.message()));
    if (target.is_absolute()) here.clear();
    put_first(parts, target);
  }
  return (fs::path(folder) / here).string();
}

}  // namespace

std::string results_folder(const Experiment& experiment, const RunId& run) {
  return fmt::format("{}/{}/{}", experiment.collect.to, folder_name(experiment), run.text());
}

void find_inputs(Trial& trial, const WhereLeft& where) {
  for (Input& input : trial.inputs)
    if (!input.trial.empty()) input.from = find_left(where(input.trial, input.from), input.trial, input.from);
}

}  // namespace combu
