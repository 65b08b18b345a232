#pragma once
// The images of trials, as their registries describe them.

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "combu/engine.hpp"
#include "combu/registry.hpp"
#include "kubernetes/objects.hpp"

namespace combu::kubernetes {

// True if combu must know the program of the trial's image before the trial starts.
[[nodiscard]] bool needs_program(const Trial& trial);
// True if combu must know the digest of the trial's image before the trial starts.
[[nodiscard]] bool needs_digest(const Trial& trial);

// May be used from many threads.
class Images {
 public:
  // `objects` must outlive this object. `docker_config`: the folder of Docker's config.json; empty: none.
  Images(Objects& objects, std::string docker_config)
      : objects_(objects), docker_config_(std::move(docker_config)) {}

  // Reads the images that trials need from their registries, several at once. Reports each image that it has
  // read, and each image of a trial with `worker`, as Preparation::Kind::found. Returns an error for each
  // image whose program is needed and cannot be read. If only the digest is needed, reports a note instead: a
  // trial with `cache` then runs without a lookup. Throws Error(cancelled).
  [[nodiscard]] std::vector<Error> prepare(const Experiment& experiment,
                                           const std::function<void(const Preparation&)>& on_progress,
                                           const std::stop_token& stop);

  // Returns Observation::digest of a Pod. `reported`: the digest by which the node names the Pod's image. If
  // prepare() has read the same image, returns the digest that prepare() has reported, since container
  // runtimes name an image by the digest of its index, its manifest or its configuration.
  [[nodiscard]] std::string digest_of(const std::string& image, const std::string& reported) const;

 private:
  struct Wanted;

  void look_up(Wanted& wanted, const std::stop_token& stop);
  [[nodiscard]] std::vector<registry::Login> pull_secrets(const Wanted& wanted, const std::stop_token& stop);

  Objects& objects_;
  const std::string docker_config_;
  mutable std::mutex mutex_;
  // By the trials' name of the image and a digest of Image::all_digests: Image::digest.
  std::map<std::pair<std::string, std::string>, std::string> digests_;
};

}  // namespace combu::kubernetes
