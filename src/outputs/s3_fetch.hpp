#pragma once
// The way back: what a trial has left in a bucket comes to this machine.

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
#include "outputs/s3_left.hpp"
#include "outputs/scratch.hpp"

namespace combu::outputs {

// What is below a path of a trial's place on its way into a parcel, as it came out of the container. Every
// byte is compared with the manifest. Belongs to one thread at a time.
class Fetch {
 public:
  // `prefix`: the trial's place in the bucket, with a `/` at its end; `wanted`: as wanted_of() has it.
  Fetch(std::string prefix, std::shared_ptr<const LeftInBucket> left, std::string wanted,
        std::unique_ptr<OutputWriter> writer);

  // Where it is cut (Error: unavailable, cancelled), the next call goes on from there. Throws Error
  // otherwise: not_found, corrupt, and what the parcel throws; it is of no use then.
  void go_on(S3Client& client, const std::stop_token& stop);

 private:
  struct File {
    std::string name;
    std::string expected;  // sum
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
  void take_small(S3Client& client, const std::stop_token& stop);
  void take(File& file, const Small& got);
  void take_large(S3Client& client, File& file, const std::stop_token& stop);
  void get_small(S3Client& client, const File& file, Small& got, const std::stop_token& stop) const;

  std::string prefix_;
  std::shared_ptr<const LeftInBucket> left_;
  std::string wanted_;
  std::unique_ptr<OutputWriter> writer_;
  bool has_looked_ = false;
  std::vector<File> files_;
  Sha256 sum_;  // of the large one that is under way, as far as it has come
};

// What has been fetched, once for each trial and path, until this goes. May be used from many threads.
class Fetched {
 public:
  // A folder of its own is made in `above` when something is fetched.
  explicit Fetched(std::string above) : above_(std::move(above)) {}

  // The folder that `fetch` has filled, now or before; who wants the same meanwhile waits. What was cut is
  // gone on with. Throws Error: refused where no folder can be made, cancelled, and what `fetch` throws.
  [[nodiscard]] std::string at(const std::string& trial, const std::string& wanted, const std::string& prefix,
                               const std::shared_ptr<const LeftInBucket>& left,
                               const std::function<void(Fetch&)>& fetch, const std::stop_token& stop);
  // What `read` gives, now or before.
  [[nodiscard]] std::shared_ptr<const LeftInBucket> left(const std::string& trial,
                                                         const std::function<LeftInBucket()>& read);
  // All of the trial's is to be fetched anew.
  void forget(const std::string& trial);

 private:
  struct One {
    std::string folder = {};
    std::unique_ptr<Fetch> fetch = {};  // what has come so far
    bool is_under_way = false;
    bool is_here = false;
  };

  std::string above_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<Scratch> scratch_;
  std::size_t count_ = 0;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<One>> ones_;  // by trial and path
  std::map<std::string, std::shared_ptr<const LeftInBucket>> lefts_;          // by trial
};

}  // namespace combu::outputs
