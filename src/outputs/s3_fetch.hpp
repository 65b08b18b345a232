#pragma once
// Downloads outputs of a trial from a bucket to this machine.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "combu/outputs.hpp"
#include "outputs/s3_client.hpp"
#include "outputs/s3_listing.hpp"
#include "outputs/scratch.hpp"

namespace combu::outputs {

// Downloads all outputs below one path of a trial, and passes them to an OutputWriter. Checks every file
// against the manifest. Only one thread at a time may use a Fetch.
class Fetch {
 public:
  // `prefix`: the trial's prefix in the bucket, ending with `/`. `wanted`: a result of wanted_of().
  Fetch(std::string prefix, std::shared_ptr<const BucketOutputs> left, std::string wanted,
        std::unique_ptr<OutputWriter> writer);

  // Downloads everything. After Error(unavailable) or Error(cancelled), another call resumes the download.
  // Also throws Error(not_found), Error(corrupt) and the errors of the writer. After these errors, the Fetch
  // cannot be used any more.
  void go_on(S3Client& client, const std::stop_token& stop);

 private:
  struct File {
    std::string name;
    std::string expected;  // the file's SHA-256 digest in the manifest
    std::int64_t size = 0;
    std::int64_t come = 0;
    bool is_begun = false;
    bool is_here = false;
  };
  struct Small;

  [[nodiscard]] std::string key_of(const std::string& name) const;
  [[nodiscard]] Error missing(const std::string& name) const;
  void look(S3Client& client, const std::stop_token& stop);
  void add(const OutputEntry& entry);
  void expect_sum(const File& file, std::string_view sum) const;
  void fetch_small(S3Client& client, const std::stop_token& stop);
  void take(File& file, const Small& got);
  void fetch_large(S3Client& client, File& file, const std::stop_token& stop);
  void get_small(S3Client& client, const File& file, Small& got, const std::stop_token& stop) const;

  std::string prefix_;
  std::shared_ptr<const BucketOutputs> left_;
  std::string wanted_;
  std::unique_ptr<OutputWriter> writer_;
  bool has_looked_ = false;
  std::vector<File> files_;
  Sha256 sum_;  // digest of the downloaded part of the current large file
};

// Stores one download for each trial and path; the destructor removes all downloads. May be used from many
// threads.
class Fetched {
 public:
  // The first download creates a new folder in `above`.
  explicit Fetched(std::string above) : above_(std::move(above)) {}

  // Returns the folder that `fetch` has filled in this or an earlier call. Blocks while another thread
  // downloads the same path. Resumes an interrupted download. Throws Error: refused if the folder cannot be
  // created, cancelled, and the errors of `fetch`.
  [[nodiscard]] std::string at(const std::string& trial, const std::string& wanted, const std::string& prefix,
                               const std::shared_ptr<const BucketOutputs>& left,
                               const std::function<void(Fetch&)>& fetch, const std::stop_token& stop);
  // Returns the result of `read`. Later calls for the same trial return the same result.
  [[nodiscard]] std::shared_ptr<const BucketOutputs> left(const std::string& trial,
                                                          const std::function<BucketOutputs()>& read);
  // Drops all downloads of the trial; the next calls fetch them again.
  void forget(const std::string& trial);

 private:
  struct One {
    std::string folder = {};
    std::unique_ptr<Fetch> fetch = {};  // the download, which a later call may resume
    bool is_under_way = false;
    bool is_here = false;
  };

  std::string above_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<Scratch> scratch_;
  std::size_t count_ = 0;
  // The downloads by trial and path.
  std::map<std::pair<std::string, std::string>, std::shared_ptr<One>> ones_;
  std::map<std::string, std::shared_ptr<const BucketOutputs>> lefts_;  // by trial
};

}  // namespace combu::outputs
