#include "jsonnet/importer.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "combu/base.hpp"
#include "jsonnet/text.hpp"
#include "libsonnet.hpp"

namespace combu {
namespace {

constexpr const char* k_embedded_name = "combu.libsonnet";

std::string in_folder(const std::string& folder, const std::string& name) {
  if (folder.empty() || folder.back() == '/') return folder + name;
  return folder + "/" + name;
}

}  // namespace

Importer::Importer(std::vector<std::string> folders) : folders_(std::move(folders)) {}

Importer::Found Importer::find(const std::string& base, const std::string& wanted) {
  Found found = find_file(base, wanted);
  if (found.path != k_embedded_path) found_.try_emplace(found.path, sha256_of(found.content));
  return found;
}

Importer::Found Importer::find_file(const std::string& base, const std::string& wanted) const {
  if (wanted.empty()) throw Error(ErrorKind::invalid, "", "the import names no file");
  if (wanted.front() == '/') {
    if (auto content = read_regular_file(wanted, k_file_max)) return {wanted, *std::move(content)};
    throw Error(ErrorKind::not_found, "", "no such file");
  }
  std::string searched;
  for (std::size_t i = 0; i <= folders_.size(); ++i) {
    const std::string& folder = i == 0 ? base : folders_[i - 1];
    std::string path = in_folder(folder, wanted);
    if (auto content = read_regular_file(path, k_file_max)) return {std::move(path), *std::move(content)};
    searched += fmt::format("{}{}", searched.empty() ? "" : ", ", folder.empty() ? "./" : folder);
  }
  if (wanted == k_embedded_name) return {k_embedded_path, k_combu_libsonnet};
  throw Error(ErrorKind::not_found, "",
              fmt::format("no such file in {}; add folders with -J or JSONNET_PATH", searched));
}

}  // namespace combu
