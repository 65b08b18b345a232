#pragma once
// The requests of S3's API that combu makes (Amazon S3 API Reference, 2006-03-01), of one bucket.

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

// A sink for S3Client::get(). It throws Error(kind, subject) instead of appending more than `size_max` bytes:
// an object can be larger than its server claims.
[[nodiscard]] std::function<void(std::string_view)> append_up_to(std::string& text, std::size_t size_max,
                                                                 ErrorKind kind, const std::string& subject);

// May be used from many threads: each request takes a connection of its own, and leaves it for the next.
// Every request can be repeated, and is, after growing pauses, where nobody answered, the answer was cut or
// the server has too much to do (5xx, 429). Throws Error otherwise: refused (also an answer or a listing
// beyond a limit of size, or of ten minutes for an answer that is kept), unavailable, cancelled; its subject
// is "s3://BUCKET/KEY". Nothing of the account but where it was found is ever in it.
class S3Client {
 public:
  // All are signed, so their names are in small letters. None may begin with another's: libcurl 7.88 sorts
  // those wrongly.
  using Headers = std::vector<std::pair<std::string, std::string>>;

  S3Client(std::string bucket, S3Account account, int repeats_max, Clock& clock);
  ~S3Client();
  S3Client(const S3Client&) = delete;
  S3Client& operator=(const S3Client&) = delete;

  // Of the requests that begin from now on.
  void use(S3Account account);

  [[nodiscard]] std::optional<S3Object> head(const std::string& key, const std::stop_token& stop);
  // nullopt: there is none; else without its size. `sink` is told all behind the first `from` bytes; once it
  // has been told something, it is not begun again.
  std::optional<S3Object> get(const std::string& key, const std::function<void(std::string_view)>& sink,
                              const std::stop_token& stop, std::int64_t from = 0);
  // The whole of it; more than `size_max` bytes are an error.
  [[nodiscard]] std::optional<std::string> get_text(const std::string& key, std::size_t size_max,
                                                    const std::stop_token& stop);
  // All whose keys begin so, in the order of their keys.
  void list(const std::string& prefix, const std::function<void(const S3Object&)>& sink,
            const std::stop_token& stop);
  // Throws Error where list() would.
  void check_list(const std::string& prefix, const std::stop_token& stop);
  void put(const std::string& key, std::string_view bytes, const Headers& headers,
           const std::stop_token& stop);
  // Only where there is none; false: there is. A server that cannot tell puts it there.
  [[nodiscard]] bool put_new(const std::string& key, std::string_view bytes, const Headers& headers,
                             const std::stop_token& stop);
  // By the server itself, of at most 5 GiB.
  void copy(const std::string& from, const std::string& to, const std::stop_token& stop);
  // An absent one is success.
  void remove(const std::string& key, const std::stop_token& stop);

  // In parts, of which nothing is to be seen before complete(). Parts are numbered from 1 and have 5 MiB at
  // least, but for the last. begin() wants a content-type, and gives what the others call `upload`;
  // put_part() gives what complete() wants.
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
