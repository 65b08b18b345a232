#include "outputs/s3_listing.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include "outputs/manifest.hpp"
#include "outputs/s3_entries.hpp"

namespace combu::outputs {
namespace {

namespace fs = std::filesystem;
using Kind = OutputEntry::Kind;

// Maximum bytes of a manifest or of a list of entries. A line of a manifest has the 64 digits of a SHA-256,
// two spaces and the path of a file.
constexpr std::size_t k_text_max = std::size_t{256} << 20U;

std::string text_of(S3Client& client, const std::string& key, const std::stop_token& stop) {
  std::optional<std::string> text = client.get_text(key, k_text_max, stop);
  if (!text) throw Error(ErrorKind::not_found, end_of_key(key), "is not in the bucket any more");
  return *std::move(text);
}

bool names_programs(const BucketOutputs& left) {
  return std::ranges::any_of(left.entries, [](const OutputEntry& entry) {
    return entry.kind == Kind::file && entry.path == k_entries_name;
  });
}

void add_folders_above(FolderContent& left, const std::string& path) {
  for (std::size_t end = path.find('/'); end != std::string::npos; end = path.find('/', end + 1))
    left.try_emplace(path.substr(0, end));
}

std::optional<FolderContent> folder_content(const BucketOutputs& from) {
  if (!names_programs(from)) return std::nullopt;
  FolderContent left;
  const auto add = [&](const std::string& path, const ContentEntry& thing) {
    if (leads_out(path)) return false;
    add_folders_above(left, path);
    left.try_emplace(path, thing);
    return true;
  };
  for (const auto& [path, sum] : from.sums)
    if (!add(path, {.kind = ContentEntry::Kind::file, .text = sum})) return std::nullopt;
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
        if (!add(entry.path, {.kind = ContentEntry::Kind::link, .text = entry.target})) return std::nullopt;
        break;
      case Kind::hard_link:
        if (known == left.end() || !add(entry.path, known->second)) return std::nullopt;
        break;
    }
  }
  return left;
}

// Returns the digest of each file, by object key. Each hard link of a file has a key of its own.
std::map<std::string, std::string> sums_by_key(const std::string& prefix, const BucketOutputs& left) {
  std::map<std::string, std::string> sums;
  for (const auto& [path, sum] : left.sums) sums.emplace(prefix + as_key(path), sum);
  for (const OutputEntry& entry : left.entries)
    if (const auto of = sums.find(prefix + as_key(entry.target));
        entry.kind == Kind::hard_link && of != sums.end())
      sums.emplace(prefix + as_key(entry.path), of->second);
  return sums;
}

}  // namespace

std::string end_of_key(const std::string& key) {
  constexpr std::size_t k_shown = 50;
  const std::size_t slash = key.size() > k_shown ? key.find('/', key.size() - k_shown) : std::string::npos;
  return shortened(slash == std::string::npos ? key : "…" + key.substr(slash));
}

bool leads_out(const std::string& name) {
  const fs::path path(name);
  return path.empty() || path.is_absolute() || name.find('\0') != std::string::npos ||
         name.find("//") != std::string::npos || std::ranges::any_of(path, [](const fs::path& part) {
           return part == ".." || part == "." || part.empty();
         });
}

BucketOutputs as_listed(std::string manifest, std::string_view entries) {
  BucketOutputs left{.manifest = std::move(manifest)};
  left.sums = sums_in_manifest(left.manifest);
  left.entries = read_entries(entries);
  left.known = folder_content(left);
  return left;
}

BucketOutputs read_bucket_outputs(S3Client& client, const std::string& prefix, const std::stop_token& stop) {
  std::string manifest = text_of(client, prefix + std::string(k_manifest_name), stop);
  return as_listed(std::move(manifest), text_of(client, prefix + std::string(k_entries_name), stop));
}

std::vector<S3Object> objects_of_outputs(S3Client& client, const std::string& prefix,
                                         const std::stop_token& stop) {
  const std::string manifest_key = prefix + std::string(k_manifest_name);
  const auto sums = sums_in_manifest(text_of(client, manifest_key, stop));
  std::map<std::string, S3Object> there;  // by key
  client.list(
      prefix, [&](const S3Object& object) { there.emplace(object.key, object); }, stop);
  const auto manifest = there.extract(manifest_key);
  const auto missing = [](const std::string& key) {
    return Error(ErrorKind::not_found, end_of_key(key), "is not in the bucket any more");
  };
  if (manifest.empty()) throw missing(manifest_key);
  for (const auto& [path, sum] : sums)
    if (const std::string key = prefix + as_key(path); !there.contains(key)) throw missing(key);
  std::vector<S3Object> left;
  std::vector<S3Object> later;
  for (const auto& [key, object] : there) {
    const bool is_later =
        key != prefix + std::string(k_entries_name) && object.written > manifest.mapped().written;
    (is_later ? later : left).push_back(object);
  }
  if (later.empty()) return left;
  const auto expected = sums_by_key(prefix, read_bucket_outputs(client, prefix, stop));
  for (const S3Object& object : later) {
    const auto named = expected.find(object.key);
    if (named == expected.end()) continue;
    const Error changed(ErrorKind::corrupt, end_of_key(object.key),
                        "does not match its manifest: the file was changed after it was collected");
    Sha256 sum;
    std::int64_t size = 0;
    const auto add = [&](std::string_view bytes) {
      size += static_cast<std::int64_t>(bytes.size());
      if (size > object.size) throw Error(changed);
      sum.add(bytes);
    };
    (void)client.get(object.key, add, stop);
    if (sum.text() != named->second) throw Error(changed);
    left.push_back(object);
  }
  return left;
}

std::string wanted_of(const BucketOutputs& left, const std::string& path) {
  const bool any_links = std::ranges::any_of(left.entries, [](const OutputEntry& entry) {
    return entry.kind == Kind::symbolic_link || entry.kind == Kind::hard_link;
  });
  const fs::path below = fs::path(path).relative_path();
  if (any_links || std::ranges::any_of(below, [](const fs::path& part) { return part == ".."; })) return "";
  return (below / "").parent_path().string();
}

}  // namespace combu::outputs
