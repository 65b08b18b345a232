#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>

#include "combu/inputs.hpp"
#include "combu/outputs.hpp"
#include "outputs/manifest.hpp"
#include "outputs/s3_account.hpp"
#include "outputs/s3_client.hpp"
#include "outputs/s3_entries.hpp"
#include "outputs/s3_fetch.hpp"
#include "outputs/s3_listing.hpp"
#include "outputs/s3_place.hpp"
#include "outputs/s3_uploads.hpp"

namespace combu {
namespace {

using outputs::as_key;
using outputs::headers_of;
using outputs::S3Client;
using outputs::S3Object;
using outputs::S3Place;
using outputs::Uploads;

// Limits from the Amazon S3 User Guide ("Amazon S3 multipart upload limits") and from CopyObject ("up to 5
// GB").
constexpr std::int64_t k_parts_max = 10'000;
constexpr std::int64_t k_object_max = std::int64_t{5} << 40U;
constexpr std::int64_t k_copied_max = std::int64_t{5} << 30U;
constexpr std::size_t k_key_size_max = 1024;
constexpr unsigned k_list_mode = 0644;
// Files that are larger than k_part are uploaded in parts. The body of a request is in memory as a whole,
// because the digest of the body is sent first. All parts of a file except the last have the same size, which
// some servers require.
constexpr std::int64_t k_part = std::int64_t{16} << 20U;
constexpr std::size_t k_removals_at_once = 8;
constexpr std::size_t k_copies_at_once = 4;
constexpr std::size_t k_shared_at_once = 8;
// A request is repeated only a few times, because the caller retries the whole collection.
constexpr int k_repeats_max = 4;
constexpr int k_repeats_of_check_max = 1;
constexpr int k_fetch_repeats_max = 5;
constexpr Seconds k_first_fetch_pause{5};

class S3Parcel final : public OutputWriter {
 public:
  S3Parcel(S3Client& client, Uploads& uploads, std::atomic<bool>& any_stored, std::string bucket,
           std::string prefix, const std::stop_token& stop)
      : client_(client),
        uploads_(uploads),
        any_stored_(any_stored),
        bucket_(std::move(bucket)),
        prefix_(std::move(prefix)),
        passes_on_(stop, [this] { given_up_.request_stop(); }) {}

  ~S3Parcel() override {
    given_up_.request_stop();
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return under_way_ == 0; });
    }
    // Parts of an incomplete upload are invisible but cost the bucket's owner money.
    for (const auto& [key, upload] : begun_) {
      try {
        client_.abort(key, upload, {});
      } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the bucket's lifecycle rule for uploads has
                                // to remove it
      }
    }
  }
  S3Parcel(const S3Parcel&) = delete;
  S3Parcel& operator=(const S3Parcel&) = delete;

  void add(const OutputEntry& entry) override {
    end_file();
    make_room();
    switch (entry.kind) {
      case OutputEntry::Kind::folder:
      case OutputEntry::Kind::symbolic_link:
        entries_ += outputs::entry_line(entry);
        return;
      case OutputEntry::Kind::hard_link:
        entries_ += outputs::entry_line(entry);
        return add_link(entry);
      case OutputEntry::Kind::file:
        if (as_key(entry.path) != entry.path || (entry.mode & S_IXUSR) != 0)
          entries_ += outputs::entry_line(entry);
        return begin_file(entry);
    }
  }

  void write(std::string_view bytes) override {
    while (!bytes.empty()) {
      const std::string_view piece = bytes.substr(0, file_->part_size - file_->part.size());
      file_->part += piece;
      bytes.remove_prefix(piece.size());
      if (file_->part.size() == file_->part_size && file_->in_parts) send_part();
    }
  }

  std::string close(const std::string& manifest) override {
    end_file();
    make_room();
    drain();
    for (const auto& [path, target] : links_)
      send(0, [this, from = key_of(target), to = key_of(path)] {
        client_.copy(from, to, given_up_.get_token());
      });
    const bool is_any = !entries_.empty() || !manifest.empty();
    entries_ += outputs::entry_line({.path = std::string(k_entries_name), .mode = k_list_mode});
    add_text(std::string(k_entries_name), entries_);
    for (const std::string& key : old_) send(0, [this, key] { client_.remove(key, given_up_.get_token()); });
    drain();
    add_text(std::string(k_manifest_name), manifest);
    drain();
    if (is_any) any_stored_ = true;
    return "";
  }

 private:
  // A multipart upload of one file.
  struct InParts {
    std::string key;
    std::string upload;
    std::vector<std::string> tags;  // ETags of the uploaded parts; the index is the part's number - 1
    std::int64_t size = 0;
    std::size_t under_way = 0;
    bool has_ended = false;
  };

  struct File {
    OutputEntry entry;
    std::string key;
    std::size_t part_size = 0;
    std::string part;  // bytes of the current part, which was not sent yet
    std::shared_ptr<InParts> in_parts;
  };

  // Throws Error(invalid) if the key is too long for S3: the trial chose the path, so a retry would fail,
  // too.
  [[nodiscard]] std::string key_of(const std::string& path) const {
    std::string key = prefix_ + as_key(path);
    if (key.size() > k_key_size_max)
      throw Error(ErrorKind::invalid, shortened(path),
                  fmt::format("the key in the bucket would have {} bytes, but S3 allows {} at most",
                              key.size(), k_key_size_max));
    return key;
  }

  // Removes the manifest of the earlier outputs before any other change, so that half-replaced outputs do not
  // look complete.
  void make_room() {
    if (has_room_) return;
    client_.list(
        prefix_, [this](const S3Object& object) { old_.insert(object.key); }, given_up_.get_token());
    const std::string manifest = prefix_ + std::string(k_manifest_name);
    if (old_.erase(manifest) > 0) client_.remove(manifest, given_up_.get_token());
    has_room_ = true;
  }

  // In the bucket, a hard link is a copy of its target. So programs that do not read k_entries_name find the
  // file, too.
  void add_link(const OutputEntry& entry) {
    const auto before = links_.find(entry.target);
    const std::string& target = before == links_.end() ? entry.target : before->second;
    if (!not_copied_.contains(target)) links_.emplace(entry.path, target);
    old_.erase(key_of(entry.path));
  }

  void begin_file(const OutputEntry& entry) {
    if (entry.size > k_object_max)
      throw Error(ErrorKind::invalid, shortened(entry.path),
                  fmt::format("is larger than {}, the limit of an object in a bucket",
                              to_string(Bytes{k_object_max})));
    file_.emplace(File{.entry = entry, .key = key_of(entry.path)});
    old_.erase(file_->key);
    if (entry.size > k_copied_max) not_copied_.insert(entry.path);
    constexpr std::int64_t k_step = std::int64_t{1} << 20U;
    const std::int64_t least = (entry.size / k_parts_max / k_step + 1) * k_step;
    const std::int64_t part = std::max(k_part, least);
    file_->part_size = static_cast<std::size_t>(std::min(part, std::max<std::int64_t>(entry.size, 1)));
    file_->part.reserve(file_->part_size);
    if (entry.size <= part) return;
    file_->in_parts = std::make_shared<InParts>();
    file_->in_parts->key = file_->key;
    file_->in_parts->upload = client_.begin(file_->key, headers_of(entry), given_up_.get_token());
    const std::scoped_lock lock(mutex_);
    begun_[file_->key] = file_->in_parts->upload;
  }

  void send_part() {
    const std::shared_ptr<InParts> in_parts = file_->in_parts;
    std::string part;
    part.reserve(file_->part_size);
    std::swap(part, file_->part);
    std::size_t number = 0;
    {
      const std::scoped_lock lock(mutex_);
      in_parts->tags.emplace_back();
      in_parts->size += static_cast<std::int64_t>(part.size());
      number = in_parts->tags.size();
      ++in_parts->under_way;
    }
    const std::size_t size = part.size();
    send(size, [this, in_parts, number, bytes = std::move(part)] {
      std::string tag =
          client_.put_part(in_parts->key, in_parts->upload, number, bytes, given_up_.get_token());
      {
        const std::scoped_lock lock(mutex_);
        in_parts->tags[number - 1] = std::move(tag);
        --in_parts->under_way;
        if (in_parts->under_way > 0 || !in_parts->has_ended) return;
      }
      complete(*in_parts);
    });
  }

  void complete(const InParts& in_parts) {
    client_.complete(in_parts.key, in_parts.upload, in_parts.tags, given_up_.get_token());
    // If a server crashes while it joins the parts, its answer to the repeated request may report success
    // although the object is missing or incomplete.
    const auto object = client_.head(in_parts.key, given_up_.get_token());
    if (!object || object->size != in_parts.size)
      throw Error(
          ErrorKind::unavailable, fmt::format("s3://{}/{}", bucket_, shortened(in_parts.key)),
          "the server reported that the upload is complete, but the object is missing or has another size");
    const std::scoped_lock lock(mutex_);
    begun_.erase(in_parts.key);
  }

  void end_file() {
    if (!file_) return;
    if (file_->in_parts) {
      if (!file_->part.empty()) send_part();
      end_parts(file_->in_parts);
    } else {
      const std::size_t size = file_->part.size();
      send(size,
           [this, key = file_->key, headers = headers_of(file_->entry), bytes = std::move(file_->part)] {
             client_.put(key, bytes, headers, given_up_.get_token());
           });
    }
    file_.reset();
  }

  void end_parts(const std::shared_ptr<InParts>& in_parts) {
    {
      const std::scoped_lock lock(mutex_);
      in_parts->has_ended = true;
      if (in_parts->under_way > 0) return;  // the upload that ends last calls complete()
    }
    send(0, [this, in_parts] { complete(*in_parts); });
  }

  void add_text(const std::string& path, const std::string& text) {
    begin_file({.path = path,
                .mode = k_list_mode,
                .modified = real_clock().now(),
                .size = static_cast<std::int64_t>(text.size())});
    write(text);
    end_file();
  }

  // Queues an upload. If an earlier upload failed, throws the error of that upload.
  void send(std::size_t size, std::function<void()> upload) {
    {
      const std::scoped_lock lock(mutex_);
      if (fault_) std::rethrow_exception(fault_);
      ++under_way_;
    }
    uploads_.add(size, [this, upload = std::move(upload)] {
      std::exception_ptr fault;
      try {
        if (!given_up_.stop_requested()) upload();
      } catch (...) {
        fault = std::current_exception();
      }
      const std::scoped_lock lock(mutex_);
      if (fault) given_up_.request_stop();
      // moved, so that the thread that rethrows the exception destroys it
      if (fault && !fault_) fault_ = std::move(fault);
      --under_way_;
      changed_.notify_all();
    });
  }

  void drain() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return under_way_ == 0; });
    if (fault_) std::rethrow_exception(fault_);
    if (given_up_.stop_requested()) throw Error(ErrorKind::cancelled, "s3://" + bucket_, "cancelled");
  }

  S3Client& client_;
  Uploads& uploads_;
  std::atomic<bool>& any_stored_;
  std::string bucket_;
  std::string prefix_;
  std::stop_source given_up_;
  bool has_room_ = false;
  // Keys of an earlier attempt's objects that this writer has not overwritten yet.
  std::set<std::string> old_;
  std::optional<File> file_;
  std::string entries_;
  // maps the path of each hard link to the path of the file that it links to
  std::map<std::string, std::string> links_;
  std::set<std::string> not_copied_;
  std::mutex mutex_;  // protects the members below, and the members of InParts
  std::condition_variable changed_;
  // Ids of the multipart uploads that are not complete, by object key.
  std::map<std::string, std::string> begun_;
  std::size_t under_way_ = 0;
  std::exception_ptr fault_;
  // This member must be last: its callback may already run during construction, and uses the other members.
  std::stop_callback<std::function<void()>> passes_on_;
};

class S3 final : public OutputStore {
 public:
  S3(const std::string& place, Caller caller, Clock& clock)
      : destination_(outputs::s3_place(place)),
        caller_(std::move(caller)),
        clock_(clock),
        fetched_(caller_.env("TMPDIR").value_or("/var/tmp")) {}

  std::unique_ptr<OutputWriter> open(const std::string& place, const std::stop_token& stop) override {
    fetched_.forget(place);
    return std::make_unique<S3Parcel>(client(), uploads_, any_stored_, destination_.bucket, prefix_of(place),
                                      stop);
  }
  void remove(const std::string& place) override {
    fetched_.forget(place);
    S3Client& server = client();
    std::vector<std::string> keys;
    server.list(prefix_of(place), [&](const S3Object& object) { keys.push_back(object.key); }, {});
    // Remove the manifest first, so that half-removed outputs never look complete.
    const auto manifest = std::ranges::find(keys, prefix_of(place) + std::string(k_manifest_name));
    if (manifest != keys.end()) {
      server.remove(*manifest, {});
      keys.erase(manifest);
    }
    in_parallel(keys.size(), k_removals_at_once, [&](std::size_t index) { server.remove(keys[index], {}); });
  }
  bool holds_any() override { return any_stored_; }

  std::string fetch(const std::string& trial, const std::string& path, const std::stop_token& stop) override {
    return patiently(trial, stop, [&] {
      const auto left = left_of(trial, stop);
      return fetched_.at(
          trial, outputs::wanted_of(*left, path), prefix_of(trial), left,
          [&](outputs::Fetch& one) { one.go_on(client(), stop); }, stop);
    });
  }

  std::optional<std::string> digest(const std::string& trial, const std::string& path,
                                    const std::stop_token& stop) override {
    const auto left = patiently(trial, stop, [&] { return left_of(trial, stop); });
    if (!left->known) return std::nullopt;
    return content_digest(*left->known, trial, path);
  }

  bool is_whole(const std::string& place) override {
    const S3Place there = outputs::s3_place(place);
    return there.bucket == destination_.bucket &&
           client().head(there.prefix + std::string(k_manifest_name), {}).has_value();
  }

  std::vector<std::string> share(std::span<const Sharing> wanted) override {
    std::vector<std::string> faults(wanted.size());
    in_parallel(wanted.size(), k_shared_at_once, [&](std::size_t index) {
      try {
        share(wanted[index]);
      } catch (const Error& error) {
        faults[index] = error.what();
      }
    });
    return faults;
  }

 private:
  // Repeats `body` with growing pauses while the server is unavailable. If the last repetition also fails,
  // throws Error(refused).
  template <class Body>
  std::invoke_result_t<Body> patiently(const std::string& trial, const std::stop_token& stop,
                                       const Body& body) {
    Seconds pause = k_first_fetch_pause;
    for (int repeats = 0;; ++repeats, pause *= 2) {
      try {
        return body();
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::cancelled) throw;
        if (error.kind() != ErrorKind::unavailable) fetched_.forget(trial);
        if (error.kind() != ErrorKind::unavailable || repeats == k_fetch_repeats_max)
          throw Error(ErrorKind::refused, error.subject(), error.message());
      }
      clock_.wait(pause, stop);
    }
  }

  // Requests that the server copy the outputs of an equal trial to the trial `wanted.trial`. The manifest is
  // copied last, when all objects that the manifest names exist.
  void share(const Sharing& wanted) {
    S3Client& server = client();
    const std::string from = outputs::s3_place(wanted.from).prefix;
    const std::string to = prefix_of(wanted.trial);
    const std::vector<S3Object> left = outputs::objects_of_outputs(server, from, {});
    for (const S3Object& object : left)
      if (object.size > k_copied_max)
        throw Error(ErrorKind::refused, outputs::end_of_key(object.key),
                    "is larger than 5 GiB, the maximum size that an S3 server copies");
    remove(wanted.trial);
    try {
      in_parallel(left.size(), k_copies_at_once, [&](std::size_t index) {
        server.copy(left[index].key, to + left[index].key.substr(from.size()), {});
      });
      server.copy(from + std::string(k_manifest_name), to + std::string(k_manifest_name), {});
    } catch (const Error&) {
      try {
        remove(wanted.trial);
        // If objects stay, they have no manifest, so combu does not take them for complete outputs.
      } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
      }
      throw;
    }
    if (left.size() > 1) any_stored_ = true;  // true if there are objects besides the list of entries
  }

  [[nodiscard]] std::shared_ptr<const outputs::BucketOutputs> left_of(const std::string& trial,
                                                                      const std::stop_token& stop) {
    return fetched_.left(trial,
                         [&] { return outputs::read_bucket_outputs(client(), prefix_of(trial), stop); });
  }

  [[nodiscard]] std::string prefix_of(const std::string& place) const {
    return fmt::format("{}{}/", destination_.prefix, place);
  }

  S3Client& client() {
    outputs::S3Account account = outputs::find_s3_account(caller_);
    const std::scoped_lock lock(mutex_);
    if (client_) {
      client_->use(std::move(account));
    } else {
      client_ = std::make_unique<S3Client>(destination_.bucket, std::move(account), k_repeats_max, clock_);
    }
    return *client_;
  }

  S3Place destination_;
  Caller caller_;
  Clock& clock_;
  std::atomic<bool> any_stored_ = false;
  std::mutex mutex_;
  std::unique_ptr<S3Client> client_;
  Uploads uploads_;
  outputs::Fetched fetched_;
};

}  // namespace

std::unique_ptr<OutputStore> open_s3(const std::string& place, const Caller& caller, Clock& clock) {
  return std::make_unique<S3>(place, caller, clock);
}

void check_s3(const std::string& place, const Caller& caller, const std::stop_token& stop, Clock& clock) {
  const outputs::S3Place where = outputs::s3_place(place);
  S3Client client(where.bucket, outputs::find_s3_account(caller), k_repeats_of_check_max, clock);
  client.check_list(where.prefix, stop);
  // Beginning a multipart upload needs the permission to write, but creates no visible object.
  const std::string key = where.prefix + ".combu";
  const std::string upload = client.begin(key, {{"content-type", "application/octet-stream"}}, stop);
  try {
    client.abort(key, upload, stop);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::cancelled) throw;
  }
}

}  // namespace combu
