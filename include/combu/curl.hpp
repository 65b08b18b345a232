#pragma once
// Transfers by libcurl that reuse open connections.

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

// Pool of idle libcurl handles, which keep their connections open. Thread-safe.
class Idle {
 public:
  // Returns a handle without any options set.
  [[nodiscard]] Easy take() {
    const std::scoped_lock lock(mutex_);
    if (idle_.empty()) return {curl_easy_init(), &curl_easy_cleanup};
    Easy easy = std::move(idle_.back());
    idle_.pop_back();
    return easy;
  }
  // Returns a handle to the pool.
  void leave(Easy easy) {
    curl_easy_reset(easy.get());
    const std::scoped_lock lock(mutex_);
    idle_.push_back(std::move(easy));
  }

 private:
  std::mutex mutex_;
  std::vector<Easy> idle_;
};

// Returns the lines as a list of libcurl.
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

// A response kept in memory, within limits. libcurl's callbacks call the functions. A function that returns
// false makes its callback abort the transfer.
struct KeptAnswer {
  std::size_t body_max;  // bytes
  std::string body = {};
  std::size_t header_bytes = 0;
  std::string excess = {};  // the limit that the response exceeds, as the end of "the answer …"; empty: none

  // Count a header of so many bytes, or keep a piece of the body. Return false beyond the limit.
  [[nodiscard]] bool add_header(std::size_t bytes);
  [[nodiscard]] bool add(std::string_view piece);
};

// Where trusted certificates are. Both paths are empty if no certificates were found, or if libcurl has its
// own default.
struct Authorities {
  std::string file;  // all certificates in one PEM file (CURLOPT_CAINFO)
  std::string
      folder;  // one file for each, named by the hash of its subject, as c_rehash does (CURLOPT_CAPATH)
};

// Returns the certificates at `place`, a file or a folder. If `place` is empty, uses SSL_CERT_FILE and
// SSL_CERT_DIR, each independently as in curl(1). If neither is set, uses libcurl's own default, else the
// certificates of this machine.
[[nodiscard]] Authorities authorities_of(const std::string& place);

// Makes the transfers of `easy` trust the certificates of authorities_of(place).
void trust(CURL* easy, const std::string& place);

// Returns the file or folder where a machine keeps its trusted certificates, or an empty string if none
// exists. Needed because the libcurl in a portable build has no default location. `root` is the machine's
// root folder.
[[nodiscard]] std::string find_authorities(const std::filesystem::path& root);

}  // namespace combu::curl
