#pragma once
// The way back: what a trial has left in a bucket comes to this machine.

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <utility>

#include "combu/outputs.hpp"
#include "outputs/s3_client.hpp"

namespace combu::outputs {

// Into `parcel`, as it came out of the container, all that the trial has left below `path`; all of it, where
// there are links, which may lead anywhere. `prefix`: the trial's place in the bucket, with a `/` at its end.
// Every byte is compared with the manifest. Throws Error: not_found when nothing whole is there, corrupt,
// unavailable, cancelled, and what the parcel throws.
void fetch(S3Client& client, const std::string& prefix, const std::string& path, Parcel& parcel,
           const std::stop_token& stop);

// What has been fetched, once for each trial and path, until this goes. May be used from many threads.
class Fetched {
 public:
  // A folder of its own is made in `above` when something is fetched.
  explicit Fetched(std::string above) : above_(std::move(above)) {}
  ~Fetched();
  Fetched(const Fetched&) = delete;
  Fetched& operator=(const Fetched&) = delete;

  // The folder that `fill` has filled, now or before; who wants the same meanwhile waits. Throws
  // Error(refused) where no folder can be made, and what `fill` throws.
  [[nodiscard]] std::string at(const std::string& trial, const std::string& path,
                               const std::function<void(Parcel&)>& fill);
  // All of the trial's is to be fetched anew.
  void forget(const std::string& trial);

 private:
  struct One {
    std::mutex mutex;
    std::string folder;  // empty: not yet
  };
  [[nodiscard]] std::string next_place();

  std::string above_;
  std::mutex mutex_;
  std::string folder_;
  std::unique_ptr<Depot> depot_;  // of it
  std::size_t count_ = 0;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<One>> ones_;  // by trial and path
};

}  // namespace combu::outputs
