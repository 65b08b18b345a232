#include "outputs/s3_left.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "outputs/manifest.hpp"
#include "outputs/s3_entries.hpp"

namespace combu::outputs {
namespace {

namespace fs = std::filesystem;
using Kind = OutputEntry::Kind;

std::string text_of(S3Client& client, const std::string& key, const std::stop_token& stop) {
  std::string text;
  if (!client.get(
          key, [&](std::string_view bytes) { text += bytes; }, stop))
    throw Error(ErrorKind::not_found, shortened(key), "is not in the bucket any more");
  return text;
}

bool names_programs(const LeftInBucket& left) {
  return std::ranges::any_of(left.entries, [](const OutputEntry& entry) {
    return entry.kind == Kind::file && entry.path == k_entries_name;
  });
}

void add_folders_above(Left& left, const std::string& path) {
  for (std::size_t end = path.find('/'); end != std::string::npos; end = path.find('/', end + 1))
    left.try_emplace(path.substr(0, end));
}

std::optional<Left> as_left(const LeftInBucket& from) {
  if (!names_programs(from)) return std::nullopt;
  Left left;
  const auto add = [&](const std::string& path, const LeftThing& thing) {
    if (leads_out(path)) return false;
    add_folders_above(left, path);
    left.try_emplace(path, thing);
    return true;
  };
  for (const auto& [path, sum] : from.sums)
    if (!add(path, {.kind = LeftThing::Kind::file, .text = sum})) return std::nullopt;
  for (const OutputEntry& entry : from.entries) {
    const auto known = left.find(entry.kind == Kind::hard_link ? entry.target : entry.path);
    switch (entry.kind) {
      case Kind::folder:
        if (!add(entry.path, {})) return std::nullopt;
        break;
      case Kind::file:
        if (known != left.end()) known->second.is_program = (entry.mode & S_IXUSR) != 0;
        break;
      case Kind::symbolic_link:
        if (!add(entry.path, {.kind = LeftThing::Kind::link, .text = entry.target})) return std::nullopt;
        break;
      case Kind::hard_link:
        if (known == left.end() || !add(entry.path, known->second)) return std::nullopt;
        break;
    }
  }
  return left;
}

}  // namespace

bool leads_out(const std::string& name) {
  const fs::path path(name);
  return path.empty() || path.is_absolute() || name.find('\0') != std::string::npos ||
         std::ranges::any_of(
             path, [](const fs::path& part) { return part == ".." || part == "." || part.empty(); });
}

LeftInBucket read_left(S3Client& client, const std::string& prefix, const std::stop_token& stop) {
  LeftInBucket left{.manifest = text_of(client, prefix + std::string(k_manifest_name), stop)};
  left.sums = sums_in_manifest(left.manifest);
  left.entries = read_entries(text_of(client, prefix + std::string(k_entries_name), stop));
  left.known = as_left(left);
  return left;
}

std::string wanted_of(const LeftInBucket& left, const std::string& path) {
  const bool any_links = std::ranges::any_of(left.entries, [](const OutputEntry& entry) {
    return entry.kind == Kind::symbolic_link || entry.kind == Kind::hard_link;
  });
  const fs::path below = fs::path(path).relative_path();
  if (any_links || std::ranges::any_of(below, [](const fs::path& part) { return part == ".."; })) return "";
  return (below / "").parent_path().string();
}

}  // namespace combu::outputs
