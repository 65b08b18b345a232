#include "workers/agent_files.hpp"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>

#include "combu/inputs.hpp"

namespace combu::workers {
namespace {

constexpr std::string_view k_params_file = "/combu/params.json";

}  // namespace

std::string parent_of(const std::string& path) {
  return path.substr(0, std::max<std::size_t>(path.rfind('/'), 1));
}

std::vector<std::string> written_folders(const Trial& trial) {
  std::set<std::string> folders;
  for (const Input& input : trial.inputs) {
    std::error_code ignored;
    const bool is_file = std::filesystem::is_regular_file(input.from, ignored);
    folders.insert(is_file ? parent_of(input.to) : input.to);
  }
  for (const auto& [path, content] : provided_files(trial)) folders.insert(parent_of(path));
  return {folders.begin(), folders.end()};
}

bool awaits_files(const Trial& trial) {
  return !trial.inputs.empty() || trial.params_file;
}

std::map<std::string, std::string> provided_files(const Trial& trial) {
  if (!trial.params_file) return {};
  return {{std::string(k_params_file), trial.params.empty() ? "{}" : trial.params}};
}

void check_inputs(const Trial& trial) {
  // The function packs the beginning of an input before it calls its argument.
  for (const Input& input : trial.inputs)
    (void)pack_inputs({input}, input_owner(trial), [](std::string_view) { return false; });
}

}  // namespace combu::workers
