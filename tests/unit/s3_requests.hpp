#pragma once
// Calls of S3Client for tests, and a clock for them.

#include <atomic>
#include <chrono>
#include <functional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "outputs/s3_client.hpp"

namespace combu::test {

// A clock that advances by a minute at each call of now().
class Hurried final : public Clock {
 public:
  Instant now() override { return Instant(std::chrono::minutes(++looks_)); }
  void wait(Seconds /*duration*/, std::stop_token /*stop*/) override {}

 private:
  std::atomic<int> looks_ = 0;
};

// A name, and a call of S3Client for the key "a".
using S3Request = std::pair<std::string, std::function<void(outputs::S3Client&)>>;

// The calls that write an object.
inline std::vector<S3Request> requests_for_objects() {
  using outputs::S3Client;
  return {{"put", [](S3Client& client) { client.put("a", "x", {}, {}); }},
          {"put_new", [](S3Client& client) { (void)client.put_new("a", "x", {}, {}); }},
          {"copy", [](S3Client& client) { client.copy("a", "b", {}); }},
          {"begin",
           [](S3Client& client) {
             (void)client.begin("a", {{"content-type", "x/y"}}, {});
           }},
          {"put_part", [](S3Client& client) { (void)client.put_part("a", "u", 1, "x", {}); }},
          {"complete", [](S3Client& client) { client.complete("a", "u", {"t"}, {}); }}};
}

}  // namespace combu::test
