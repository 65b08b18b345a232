#pragma once
// Transfers by libcurl, whose connections stay open for the next one.

#include <curl/curl.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace combu::curl {

using Easy = std::unique_ptr<CURL, decltype(&curl_easy_cleanup)>;
using List = std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)>;

// May be used from many threads.
class Idle {
 public:
  // One that has no options set.
  [[nodiscard]] Easy take() {
    const std::scoped_lock lock(mutex_);
    if (idle_.empty()) return {curl_easy_init(), &curl_easy_cleanup};
    Easy easy = std::move(idle_.back());
    idle_.pop_back();
    return easy;
  }
  // For whoever takes it next.
  void leave(Easy easy) {
    curl_easy_reset(easy.get());
    const std::scoped_lock lock(mutex_);
    idle_.push_back(std::move(easy));
  }

 private:
  std::mutex mutex_;
  std::vector<Easy> idle_;
};

[[nodiscard]] inline List list_of(std::span<const std::string> lines) {
  List list(nullptr, &curl_slist_free_all);
  for (const std::string& line : lines) {
    curl_slist* const longer = curl_slist_append(list.get(), line.c_str());
    if (longer == nullptr) throw std::bad_alloc();
    (void)list.release();
    list.reset(longer);
  }
  return list;
}

// An answer that is kept in memory, within limits. libcurl's callbacks fill it, and end the transfer where a
// function returns false.
struct KeptAnswer {
  std::size_t body_max;  // bytes
  std::string body = {};
  std::size_t header_bytes = 0;
  std::string excess = {};  // the limit that the answer exceeds, behind "the answer"; empty: none

  [[nodiscard]] bool add_header(std::size_t bytes);
  [[nodiscard]] bool add(std::string_view piece);
};

// Where certificates to trust are; empty where there is none, or libcurl has its own.
struct Authorities {
  std::string file;    // of certificates
  std::string folder;  // of certificates by hashed names
};

// This place, a file or a folder; if empty, SSL_CERT_FILE and SSL_CERT_DIR, each by itself as for curl(1),
// else this machine's.
[[nodiscard]] Authorities authorities_of(const std::string& place);

// Has its connections trust authorities_of(place).
void trust(CURL* easy, const std::string& place);

// Where a machine keeps the certificates that it trusts, for a libcurl that was built for no one system: a
// file or a folder, empty if none is there. `root` is the machine's root folder.
[[nodiscard]] std::string find_authorities(const std::filesystem::path& root);

}  // namespace combu::curl
