#pragma once
// Helpers for transfers by libcurl: a pool of handles, limits for responses, and trusted certificates.

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
  // Takes a handle from the pool. No options are set on the handle.
  [[nodiscard]] Easy take() {
    const std::scoped_lock lock(mutex_);
    if (idle_.empty()) return {curl_easy_init(), &curl_easy_cleanup};
    Easy easy = std::move(idle_.back());
    idle_.pop_back();
    return easy;
  }
  // Puts `easy` back into the pool, with all options reset.
  void leave(Easy easy) {
    curl_easy_reset(easy.get());
    const std::scoped_lock lock(mutex_);
    idle_.push_back(std::move(easy));
  }

 private:
  std::mutex mutex_;
  std::vector<Easy> idle_;
};

// Copies `lines` to a string list of libcurl (curl_slist).
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

// A response that is kept in memory. Its size is limited. The callbacks of libcurl call add_header() and
// add(). If add_header() or add() returns false, the callback aborts the transfer.
struct BufferedAnswer {
  std::size_t body_max;  // bytes
  std::string body = {};
  std::size_t header_bytes = 0;
  // text about the exceeded limit, such as "is larger than 16 MiB"; empty: no limit is exceeded
  std::string excess = {};

  // add_header() counts a header of `bytes` bytes; add() appends a piece to `body`. Both functions return
  // false if the response exceeds a limit.
  [[nodiscard]] bool add_header(std::size_t bytes);
  [[nodiscard]] bool add(std::string_view piece);
};

// The paths of trusted certificates. `file` and `folder` are both empty if combu found no certificates, or if
// libcurl has its own default.
struct Authorities {
  std::string file;  // all certificates in one PEM file (CURLOPT_CAINFO)
  // folder with one file for each certificate, in the form that c_rehash creates (CURLOPT_CAPATH)
  std::string folder;
};

// Returns the path of the certificates. `place` is a file or a folder. If `place` is empty, authorities_of()
// uses the environment variables SSL_CERT_FILE and SSL_CERT_DIR, as curl(1) does; one of them may be unset.
// If neither variable is set, authorities_of() uses libcurl's default, or if libcurl has none, the result of
// find_authorities().
[[nodiscard]] Authorities authorities_of(const std::string& place);

// Makes the transfers of `easy` trust the certificates of authorities_of(place).
void trust(CURL* easy, const std::string& place);

// Returns the file or folder where a machine keeps its trusted certificates, or an empty string if none
// exists. The search is needed because the libcurl in a portable build of combu has no default location.
// `root` is the root folder of the machine ("/").
[[nodiscard]] std::string find_authorities(const std::filesystem::path& root);

}  // namespace combu::curl
