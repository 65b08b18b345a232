#pragma once
// The requests of S3's API that combu sends to one bucket (Amazon S3 API Reference, 2006-03-01).

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "combu/base.hpp"
#include "outputs/s3_account.hpp"
#include "outputs/s3_answers.hpp"

namespace combu::outputs {

// Returns a sink for S3Client::get() that appends to `text`. If `text` would exceed `size_max` bytes, the
// sink throws Error(kind, subject): an object can be larger than its server claims.
[[nodiscard]] std::function<void(std::string_view)> append_up_to(std::string& text, std::size_t size_max,
                                                                 ErrorKind kind, const std::string& subject);

// A client for one bucket. May be used from many threads: each request uses its own connection, and later
// requests reuse it. Requests are repeated with growing pauses if the server does not answer, an answer is
// cut, or the server is overloaded (5xx, 429). All requests are safe to repeat.
// Other failures throw Error with the subject "s3://BUCKET/KEY": refused, unavailable, cancelled.
// Error(refused) is also thrown if an answer or a listing exceeds a size limit. Error(refused) is also thrown
// if an answer that is kept in memory takes more than ten minutes. Messages name the place where the keys
// were found, but contain no other data of the account.
class S3Client {
 public:
  // Header names must be in lower case, because all headers are signed. No name may be a prefix of another
  // one: libcurl 7.88 sorts such names wrongly.
  using Headers = std::vector<std::pair<std::string, std::string>>;

  S3Client(std::string bucket, S3Account account, int repeats_max, Clock& clock);
  ~S3Client();
  S3Client(const S3Client&) = delete;
  S3Client& operator=(const S3Client&) = delete;

  // Sets the account for requests that begin after this call.
  void use(S3Account account);

  [[nodiscard]] std::optional<S3Object> head(const std::string& key, const std::stop_token& stop);
  // Passes the object's bytes from offset `from` on to `sink`. Returns nullopt if the object does not exist.
  // Otherwise returns its key and its metadata, without its size. A request is not repeated after `sink` has
  // received bytes.
  std::optional<S3Object> get(const std::string& key, const std::function<void(std::string_view)>& sink,
                              const std::stop_token& stop, std::int64_t from = 0);
  // Returns the whole object; nullopt if the object does not exist. Throws Error(refused) if the object is
  // larger than `size_max` bytes.
  [[nodiscard]] std::optional<std::string> get_text(const std::string& key, std::size_t size_max,
                                                    const std::stop_token& stop);
  // Passes all objects whose keys start with `prefix` to `sink`, in the order of their keys.
  void list(const std::string& prefix, const std::function<void(const S3Object&)>& sink,
            const std::stop_token& stop);
  // Throws the same errors as list(), but requests at most one object.
  void check_list(const std::string& prefix, const std::stop_token& stop);
  void put(const std::string& key, std::string_view bytes, const Headers& headers,
           const std::stop_token& stop);
  // Writes the object only if the key does not exist; returns false if the key exists. A server without
  // conditional writes overwrites the object.
  [[nodiscard]] bool put_new(const std::string& key, std::string_view bytes, const Headers& headers,
                             const std::stop_token& stop);
  // Copies an object within the server. The object must not be larger than 5 GiB.
  void copy(const std::string& from, const std::string& to, const std::stop_token& stop);
  // Removes the object. Also succeeds if the object does not exist.
  void remove(const std::string& key, const std::stop_token& stop);

  // The following functions upload an object in parts. The object is invisible until complete(). Parts are
  // numbered from 1. Each part except the last has at least 5 MiB. begin() requires a content-type header and
  // returns the argument `upload` of the other functions. put_part() returns one element of the argument
  // `parts` of complete().
  [[nodiscard]] std::string begin(const std::string& key, const Headers& headers,
                                  const std::stop_token& stop);
  [[nodiscard]] std::string put_part(const std::string& key, const std::string& upload, std::size_t number,
                                     std::string_view bytes, const std::stop_token& stop);
  void complete(const std::string& key, const std::string& upload, const std::vector<std::string>& parts,
                const std::stop_token& stop);
  void abort(const std::string& key, const std::string& upload, const std::stop_token& stop);

 private:
  struct Request;
  struct Answer;
  class Connections;

  Answer ask(const Request& request, const std::stop_token& stop);
  [[nodiscard]] Answer ask_once(const Request& request, const S3Account& account,
                                const std::stop_token& stop);
  [[nodiscard]] std::string url(const Request& request, const S3Account& account) const;
  [[nodiscard]] std::shared_ptr<const S3Account> account() const;

  std::string bucket_;
  int repeats_max_;
  Clock& clock_;
  std::unique_ptr<Connections> connections_;
};

}  // namespace combu::outputs
