#include "outputs/s3_fetch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "outputs/manifest.hpp"
#include "outputs/s3_entries.hpp"

namespace combu::outputs {
namespace {

namespace fs = std::filesystem;

// Several of the small ones are under way at once, whole in memory; a large one comes by itself.
constexpr std::int64_t k_small_max = std::int64_t{1} << 20U;
constexpr std::size_t k_small_at_once = 16;
constexpr std::size_t k_small_together = 64;

bool is_below(const std::string& name, const std::string& path) {
  return path.empty() || name == path || name.starts_with(path + "/");
}

bool is_link(const OutputEntry& entry) {
  return entry.kind == OutputEntry::Kind::symbolic_link || entry.kind == OutputEntry::Kind::hard_link;
}

// Whoever may write into the bucket has written these names.
bool leads_out(const std::string& name) {
  const fs::path path(name);
  return path.empty() || path.is_absolute() || name.find('\0') != std::string::npos ||
         std::ranges::any_of(
             path, [](const fs::path& part) { return part == ".." || part == "." || part.empty(); });
}

class Fetcher {
 public:
  Fetcher(S3Client& client, const std::string& prefix, Parcel& parcel, const std::stop_token& stop)
      : client_(client), prefix_(prefix), parcel_(parcel), stop_(stop) {}

  void run(std::string path) {
    const std::string manifest = text_of(k_manifest_name);
    const std::vector<OutputEntry> entries = read_entries(text_of(k_entries_name));
    if (std::ranges::any_of(entries, is_link)) path.clear();
    client_.list(
        prefix_, [this](const S3Object& object) { sizes_[object.key] = object.size; }, stop_);
    for (const OutputEntry& entry : entries)
      if (entry.kind == OutputEntry::Kind::folder && is_below(entry.path, path)) add(entry);
    for (auto& [name, sum] : sums_in_manifest(manifest))
      if (is_below(name, path))
        wanted_.push_back({.name = name, .sum = std::move(sum), .size = size_of(name)});
    take_small();
    for (const File& file : wanted_)
      if (file.size > k_small_max) take_large(file);
    for (const OutputEntry& entry : entries)
      if (is_link(entry)) add(entry);
    parcel_.close(manifest);
  }

 private:
  struct File {
    std::string name;
    std::string sum;
    std::int64_t size = 0;
  };
  struct Small {
    std::string bytes;
    std::optional<S3Object> object;
  };

  [[nodiscard]] std::string key_of(const std::string& name) const { return prefix_ + as_key(name); }

  [[nodiscard]] Error missing(const std::string& name) const {
    return {ErrorKind::not_found, shortened(key_of(name)), "is not in the bucket any more"};
  }

  [[nodiscard]] std::string text_of(std::string_view name) {
    std::string text;
    if (!client_.get(
            key_of(std::string(name)), [&](std::string_view bytes) { text += bytes; }, stop_))
      throw missing(std::string(name));
    return text;
  }

  [[nodiscard]] std::int64_t size_of(const std::string& name) const {
    const auto found = sizes_.find(key_of(name));
    if (found == sizes_.end()) throw missing(name);
    return found->second;
  }

  void add(const OutputEntry& entry) {
    if (leads_out(entry.path) || (entry.kind == OutputEntry::Kind::hard_link && leads_out(entry.target)))
      throw Error(ErrorKind::corrupt, shortened(prefix_), "names a path out of it: " + shortened(entry.path));
    parcel_.add(entry);
  }

  void expect_sum(const File& file, std::string_view sum) const {
    if (sum != file.sum)
      throw Error(ErrorKind::corrupt, shortened(key_of(file.name)),
                  "is not what its manifest says: somebody has changed it");
  }

  void take_small() {
    std::vector<const File*> small;
    for (const File& file : wanted_)
      if (file.size <= k_small_max) small.push_back(&file);
    for (std::size_t from = 0; from < small.size(); from += k_small_together) {
      std::vector<Small> got(std::min(k_small_together, small.size() - from));
      in_parallel(got.size(), k_small_at_once, [&](std::size_t i) {
        Small& one = got[i];
        one.object = client_.get(
            key_of(small[from + i]->name), [&](std::string_view bytes) { one.bytes += bytes; }, stop_);
      });
      for (std::size_t i = 0; i < got.size(); ++i) take(*small[from + i], got[i]);
    }
  }

  void take(const File& file, const Small& got) {
    if (!got.object) throw missing(file.name);
    expect_sum(file, sha256_of(got.bytes));
    add(file_entry(file.name, *got.object));
    if (!got.bytes.empty()) parcel_.write(got.bytes);
  }

  void take_large(const File& file) {
    const auto object = client_.head(key_of(file.name), stop_);
    if (!object) throw missing(file.name);
    add(file_entry(file.name, *object));
    Sha256 sum;
    const auto take = [&](std::string_view bytes) {
      sum.add(bytes);
      parcel_.write(bytes);
    };
    if (!client_.get(key_of(file.name), take, stop_)) throw missing(file.name);
    expect_sum(file, sum.text());
  }

  S3Client& client_;
  const std::string& prefix_;
  Parcel& parcel_;
  const std::stop_token& stop_;
  std::map<std::string, std::int64_t> sizes_;  // by key
  std::vector<File> wanted_;
};

}  // namespace

void fetch(S3Client& client, const std::string& prefix, const std::string& path, Parcel& parcel,
           const std::stop_token& stop) {
  const fs::path below = fs::path(path).relative_path();
  const bool is_plain = std::ranges::none_of(below, [](const fs::path& part) { return part == ".."; });
  Fetcher(client, prefix, parcel, stop).run(is_plain ? (below / "").parent_path().string() : "");
}

Fetched::~Fetched() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

std::string Fetched::at(const std::string& trial, const std::string& path,
                        const std::function<void(Parcel&)>& fill) {
  std::shared_ptr<One> one;
  {
    const std::scoped_lock lock(mutex_);
    std::shared_ptr<One>& known = ones_[{trial, path}];
    if (!known) known = std::make_shared<One>();
    one = known;
  }
  const std::scoped_lock lock(one->mutex);
  if (one->folder.empty()) {
    const std::string place = next_place();
    const std::unique_ptr<Parcel> parcel = depot_->open(place, {});
    fill(*parcel);
    one->folder = fmt::format("{}/{}", folder_, place);
  }
  return one->folder;
}

void Fetched::forget(const std::string& trial) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(ones_, [&](const auto& one) { return one.first.first == trial; });
}

std::string Fetched::next_place() {
  const std::scoped_lock lock(mutex_);
  if (!depot_) {
    std::string folder = above_ + "/combu-XXXXXX";
    if (mkdtemp(folder.data()) == nullptr)
      throw Error(ErrorKind::refused, above_,
                  fmt::format("no folder can be made there for what comes from the bucket: {}; set TMPDIR",
                              std::generic_category().message(errno)));
    folder_ = std::move(folder);
    depot_ = open_folder(folder_);
  }
  return std::to_string(++count_);
}

}  // namespace combu::outputs
