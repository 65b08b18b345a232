#include "outputs/s3_fetch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <span>
#include <utility>

#include "outputs/folder.hpp"
#include "outputs/s3_entries.hpp"

namespace combu::outputs {
namespace {

// Maximum size of a small file. Small files are downloaded to memory, several at once. Larger files are
// downloaded one by one.
constexpr std::int64_t k_small_max = std::int64_t{1} << 20U;
constexpr std::size_t k_small_at_once = 16;
constexpr int k_small_tries_max = 3;
constexpr std::size_t k_small_together = 64;

bool is_below(const std::string& name, const std::string& path) {
  return path.empty() || name == path || name.starts_with(path + "/");
}

bool is_link(const OutputEntry& entry) {
  return entry.kind == OutputEntry::Kind::symbolic_link || entry.kind == OutputEntry::Kind::hard_link;
}

}  // namespace

struct Fetch::Small {
  std::string bytes;
  std::optional<S3Object> object;
};

Fetch::Fetch(std::string prefix, std::shared_ptr<const BucketOutputs> left, std::string wanted,
             std::unique_ptr<OutputWriter> writer)
    : prefix_(std::move(prefix)),
      left_(std::move(left)),
      wanted_(std::move(wanted)),
      writer_(std::move(writer)) {}

void Fetch::go_on(S3Client& client, const std::stop_token& stop) {
  if (!has_looked_) look(client, stop);
  fetch_small(client, stop);
  for (File& file : files_)
    if (!file.is_here) fetch_large(client, file, stop);
  for (const OutputEntry& entry : left_->entries)
    if (is_link(entry)) add(entry);
  writer_->close(left_->manifest);
}

std::string Fetch::key_of(const std::string& name) const {
  return prefix_ + as_key(name);
}

Error Fetch::missing(const std::string& name) const {
  return {ErrorKind::not_found, end_of_key(key_of(name)), "is not in the bucket any more"};
}

// Finds out which files to download.
void Fetch::look(S3Client& client, const std::stop_token& stop) {
  std::map<std::string, std::int64_t> sizes;  // by key
  client.list(
      prefix_, [&](const S3Object& object) { sizes[object.key] = object.size; }, stop);
  for (const auto& [name, sum] : left_->sums) {
    if (!is_below(name, wanted_)) continue;
    const auto found = sizes.find(key_of(name));
    if (found == sizes.end()) throw missing(name);
    files_.push_back({.name = name, .expected = sum, .size = found->second});
  }
  for (const OutputEntry& entry : left_->entries)
    if (entry.kind == OutputEntry::Kind::folder && is_below(entry.path, wanted_)) add(entry);
  has_looked_ = true;
}

void Fetch::add(const OutputEntry& entry) {
  if (leads_out(entry.path) || (entry.kind == OutputEntry::Kind::hard_link && leads_out(entry.target)))
    throw Error(ErrorKind::corrupt, shortened(prefix_),
                "contains an entry with a path outside this folder: " + shortened(entry.path));
  writer_->add(entry);
}

void Fetch::expect_sum(const File& file, std::string_view sum) const {
  if (sum != file.expected)
    throw Error(ErrorKind::corrupt, end_of_key(key_of(file.name)),
                "does not match its manifest: the file was changed after it was collected; restore the file, "
                "or run the trial again");
}

// Downloads a small file, with at most k_small_tries_max requests. If a download is cut after it delivered
// bytes, repeats the request at once.
void Fetch::get_small(S3Client& client, const File& file, Small& got, const std::stop_token& stop) const {
  for (int tries = 1;; ++tries) {
    try {
      got.bytes.clear();
      const auto add = [&](std::string_view bytes) {
        got.bytes += bytes;
        if (std::cmp_greater(got.bytes.size(), file.size)) expect_sum(file, "");
      };
      got.object = client.get(key_of(file.name), add, stop);
      if (!got.object) throw missing(file.name);
      return;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unavailable || got.bytes.empty() || tries == k_small_tries_max) throw;
    }
  }
}

void Fetch::fetch_small(S3Client& client, const std::stop_token& stop) {
  std::vector<File*> small;
  for (File& file : files_)
    if (!file.is_here && file.size <= k_small_max) small.push_back(&file);
  for (std::span<File* const> rest = small; !rest.empty();) {
    const auto now = rest.first(std::min(k_small_together, rest.size()));
    rest = rest.subspan(now.size());
    std::vector<Small> got(now.size());
    std::exception_ptr cut;
    try {
      in_parallel(now.size(), k_small_at_once,
                  [&](std::size_t i) { get_small(client, *now[i], got[i], stop); });
    } catch (const Error&) {
      cut = std::current_exception();
    }
    for (std::size_t i = 0; i < got.size(); ++i)
      if (got[i].object) take(*now[i], got[i]);
    if (cut) std::rethrow_exception(cut);
  }
}

void Fetch::take(File& file, const Small& got) {
  expect_sum(file, sha256_of(got.bytes));
  OutputEntry entry = file_entry(file.name, *got.object);
  entry.size = static_cast<std::int64_t>(got.bytes.size());
  add(entry);
  writer_->write(got.bytes);
  file.is_here = true;
}

void Fetch::fetch_large(S3Client& client, File& file, const std::stop_token& stop) {
  if (!file.is_begun) {
    const auto object = client.head(key_of(file.name), stop);
    if (!object) throw missing(file.name);
    add(file_entry(file.name, *object));
    sum_ = Sha256();
    file.is_begun = true;
  }
  const auto take = [&](std::string_view bytes) {
    if (static_cast<std::int64_t>(bytes.size()) > file.size - file.come) expect_sum(file, "");
    sum_.add(bytes);
    writer_->write(bytes);
    file.come += static_cast<std::int64_t>(bytes.size());
  };
  // Get the rest of the file. If the download is cut after it delivered bytes, continue at once.
  while (file.come < file.size) {
    const std::int64_t before = file.come;
    try {
      if (!client.get(key_of(file.name), take, stop, file.come)) throw missing(file.name);
      break;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unavailable || file.come == before) throw;
    }
  }
  expect_sum(file, sum_.text());
  file.is_here = true;
}

std::string Fetched::at(const std::string& trial, const std::string& wanted, const std::string& prefix,
                        const std::shared_ptr<const BucketOutputs>& left,
                        const std::function<void(Fetch&)>& fetch, const std::stop_token& stop) {
  std::shared_ptr<One> one;
  {
    std::unique_lock lock(mutex_);
    std::shared_ptr<One>& known = ones_[{trial, wanted}];
    if (!known) known = std::make_shared<One>();
    one = known;
    if (!changed_.wait(lock, stop, [&] { return !one->is_under_way; }))
      throw Error(ErrorKind::cancelled, prefix, "cancelled");
    if (one->is_here) return one->folder;
    if (!scratch_) scratch_.emplace(above_);
    if (!one->fetch) {
      const std::string place = std::to_string(++count_);
      one->folder = fmt::format("{}/{}", scratch_->path(), place);
      one->fetch = std::make_unique<Fetch>(prefix, left, wanted, open_passing(scratch_->path(), place));
    }
    one->is_under_way = true;
  }
  std::exception_ptr fault;
  bool may_go_on = false;
  try {
    fetch(*one->fetch);
  } catch (const Error& error) {
    may_go_on = error.kind() == ErrorKind::unavailable || error.kind() == ErrorKind::cancelled;
    const bool is_of_disk = error.subject().starts_with(scratch_->path());
    fault =
        is_of_disk
            ? std::make_exception_ptr(Error(error.kind(), error.subject(), error.message() + "; set TMPDIR"))
            : std::current_exception();
  } catch (...) {
    fault = std::current_exception();
  }
  const std::scoped_lock lock(mutex_);
  if (!may_go_on) one->fetch.reset();
  one->is_here = !fault;
  one->is_under_way = false;
  changed_.notify_all();
  if (fault) std::rethrow_exception(fault);
  return one->folder;
}

std::shared_ptr<const BucketOutputs> Fetched::left(const std::string& trial,
                                                   const std::function<BucketOutputs()>& read) {
  {
    const std::scoped_lock lock(mutex_);
    if (const auto known = lefts_.find(trial); known != lefts_.end()) return known->second;
  }
  auto left = std::make_shared<const BucketOutputs>(read());
  const std::scoped_lock lock(mutex_);
  return lefts_.try_emplace(trial, std::move(left)).first->second;
}

void Fetched::forget(const std::string& trial) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(ones_, [&](const auto& one) { return one.first.first == trial; });
  lefts_.erase(trial);
}

}  // namespace combu::outputs
