#include "outputs/s3_client.hpp"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <set>

#include "combu/curl.hpp"

namespace combu::outputs {
namespace {

constexpr long k_connect_seconds_max = 10;
constexpr long k_silent_seconds_max = 60;
constexpr long k_send_block = 512L << 10U;
// Maximum bytes of an answer that is kept in memory: a page of a listing, or an error.
constexpr std::size_t k_answer_max = std::size_t{16} << 20U;
// Maximum duration of an answer that is kept in memory, from the answer's first header on. "100 Continue"
// does not count as an answer.
constexpr Seconds k_answer_time_max{600};
// Limits for a listing. A page of a listing usually has a thousand objects.
constexpr std::size_t k_objects_max = 2'000'000;
constexpr std::size_t k_empty_pages_max = 1000;  // consecutive pages
constexpr long k_partial_content = 206;
constexpr Seconds k_first_pause{0.5};
constexpr Seconds k_pause_max{30};

using curl::Easy;

// Encodes `text` as the signature requires ("Signature Version 4", UriEncode), because libcurl signs a path
// without encoding it.
std::string encoded(std::string_view text, std::string_view kept = "") {
  constexpr std::string_view k_unreserved =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
  std::string url;
  for (const char letter : text) {
    if (k_unreserved.find(letter) != std::string_view::npos || kept.find(letter) != std::string_view::npos) {
      url += letter;
    } else {
      url += fmt::format("%{:02X}", static_cast<unsigned char>(letter));
    }
  }
  return url;
}

enum class Method { get, head, put, post, remove };

// The S3 permission that a request needs.
std::string_view right_to(Method method, bool in_bucket) {
  constexpr std::array<std::string_view, 5> k_names{"s3:GetObject", "s3:GetObject", "s3:PutObject",
                                                    "s3:PutObject", "s3:DeleteObject"};
  return in_bucket ? "s3:ListBucket" : k_names.at(static_cast<std::size_t>(method));
}

bool is_amazon(const S3Account& account) {
  return account.endpoint.empty() || account.endpoint.ends_with(".amazonaws.com") ||
         account.endpoint.ends_with(".amazonaws.com.cn");
}

std::string endpoint_of(const S3Account& account) {
  if (!account.endpoint.empty()) return account.endpoint;
  return fmt::format("https://s3.{}.amazonaws.com{}", account.region,
                     account.region.starts_with("cn-") ? ".cn" : "");
}

void prepare_curl() {
  [[maybe_unused]] static const CURLcode k_ready = curl_global_init(CURL_GLOBAL_DEFAULT);
}

}  // namespace

struct S3Client::Request {
  Method method = Method::get;
  std::string key;    // key of the object; empty for a request for the bucket itself
  std::string query;  // the query, encoded and sorted by name; each name is followed by `=`
  Headers headers = {};
  std::string_view body = {};
  // receives the body; if nullptr, the answer stores the body
  const std::function<void(std::string_view)>* sink = nullptr;
  // true: the statuses 412, 409 and 501 (failed or unsupported precondition) are answers; false: they are
  // errors
  bool is_conditional = false;
  std::int64_t from = 0;  // offset of the first wanted byte of the body
};

struct S3Client::Answer {
  CURLcode result = CURLE_OK;
  std::string fault;   // why the connection failed; empty if there is an answer
  std::string excess;  // the limit that the answer exceeds; empty if it exceeds none
  long status = 0;
  std::string code;  // S3's error code
  std::string body;
  std::string tag;     // ETag
  std::string region;  // the bucket's region if it differs from the account's
  std::int64_t size = 0;
  std::string mode;
  std::string mtime;
  std::optional<Seconds> ahead;  // seconds by which this machine's clock is ahead of the server's
  Seconds wanted_pause{0};
  bool has_begun = false;  // true if the sink may have received bytes

  [[nodiscard]] bool is_good() const {
    return result == CURLE_OK && status >= 200 && status < 300 && code.empty();
  }
  [[nodiscard]] bool may_come_right() const {
    constexpr std::array k_lasting{CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CACERT_BADFILE,
                                   CURLE_URL_MALFORMAT};
    if (result != CURLE_OK) return std::ranges::find(k_lasting, result) == k_lasting.end();
    constexpr std::array<std::string_view, 6> k_codes{"RequestTimeout",     "BadDigest",
                                                      "InternalError",      "SlowDown",
                                                      "ServiceUnavailable", "XAmzContentSHA256Mismatch"};
    return status >= 500 || status == 429 || status == 408 ||
           std::ranges::find(k_codes, code) != k_codes.end();
  }
};

// Holds the idle connections, and the account that new requests use.
class S3Client::Connections : public curl::Idle {
 public:
  explicit Connections(S3Account account) { use(std::move(account)); }

  void use(S3Account account) {
    auto next = std::make_shared<const S3Account>(std::move(account));
    const std::scoped_lock lock(mutex_);
    account_ = std::move(next);
  }
  [[nodiscard]] std::shared_ptr<const S3Account> account() const {
    const std::scoped_lock lock(mutex_);
    return account_;
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const S3Account> account_;
};

namespace {

// The state of one request, used by libcurl's callbacks. Exceptions must not pass through libcurl, so `fault`
// stores the exception of a callback.
struct Exchange {
  CURL* easy;
  std::string_view body;
  const std::function<void(std::string_view)>* sink;
  bool has_begun = false;
  std::exception_ptr fault;
  curl::BufferedAnswer kept{.body_max = k_answer_max};
  std::string tag;
  std::string region;
  std::string date;
  std::string mode;
  std::string mtime;
  const std::stop_token& stop;
  Clock& clock;
  std::int64_t from = 0;
  // moment at which the first header of the answer arrived; "100 Continue" does not count as an answer
  std::optional<Instant> began = {};
};

std::size_t receive_some(char* bytes, std::size_t size, std::size_t count, void* of) {
  auto& exchange = *static_cast<Exchange*>(of);
  std::string_view piece(bytes, size * count);
  long status = 0;
  curl_easy_getinfo(exchange.easy, CURLINFO_RESPONSE_CODE, &status);
  if (exchange.sink == nullptr || status >= 300) return exchange.kept.add(piece) ? piece.size() : 0;
  exchange.has_begun = true;
  // Some servers ignore the header `range` and send the whole object.
  if (status != k_partial_content) {
    const auto unwanted = std::min(static_cast<std::size_t>(exchange.from), piece.size());
    exchange.from -= static_cast<std::int64_t>(unwanted);
    piece.remove_prefix(unwanted);
  }
  try {
    if (!piece.empty()) (*exchange.sink)(piece);
    return size * count;
  } catch (...) {
    exchange.fault = std::current_exception();
    return 0;
  }
}

std::size_t receive_header(char* bytes, std::size_t size, std::size_t count, void* of) {
  auto& exchange = *static_cast<Exchange*>(of);
  const std::string_view line(bytes, size * count);
  // Ignore the answer "100 Continue", because the upload follows and may take longer than the time limit for
  // answers.
  long status = 0;
  curl_easy_getinfo(exchange.easy, CURLINFO_RESPONSE_CODE, &status);
  if (!exchange.began && status >= 200) exchange.began = exchange.clock.now();
  if (!exchange.kept.add_header(line.size())) return 0;
  const std::size_t colon = std::min(line.find(':'), line.size());
  std::string name(line.substr(0, colon));
  std::ranges::transform(name, name.begin(),
                         [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  const std::array<std::pair<std::string_view, std::string*>, 5> wanted{
      {{"etag", &exchange.tag},
       {"x-amz-bucket-region", &exchange.region},
       {"date", &exchange.date},
       {"x-amz-meta-mode", &exchange.mode},
       {"x-amz-meta-mtime", &exchange.mtime}}};
  for (const auto& [known, value] : wanted)
    if (name == known) *value = trimmed(line.substr(std::min(colon + 1, line.size())));
  return line.size();
}

int is_unwanted(void* of, curl_off_t /*to come*/, curl_off_t /*come*/, curl_off_t /*to go*/,
                curl_off_t /*gone*/) {
  auto& exchange = *static_cast<Exchange*>(of);
  if (exchange.sink == nullptr && exchange.began &&
      exchange.clock.now() - *exchange.began > k_answer_time_max)
    exchange.kept.excess = fmt::format("was not complete within {}", to_string(k_answer_time_max));
  return exchange.stop.stop_requested() || !exchange.kept.excess.empty() ? 1 : 0;
}

curl::List header_list(const S3Client::Headers& headers) {
  std::vector<std::string> lines;
  lines.reserve(headers.size());
  for (const auto& [name, value] : headers) lines.push_back(fmt::format("{}: {}", name, value));
  return curl::list_of(lines);
}

void set_up(Exchange& exchange, Method method) {
  CURL* const easy = exchange.easy;
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, k_connect_seconds_max);
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, k_silent_seconds_max);
  curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, k_send_block);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &receive_some);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &exchange);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &receive_header);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, &exchange);
  curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, &is_unwanted);
  curl_easy_setopt(easy, CURLOPT_XFERINFODATA, &exchange);
  switch (method) {
    case Method::get:
      break;
    case Method::head:
      curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
      break;
    case Method::put:
      // combu sends a PUT as a POST with another method name. libcurl 7.88 waits for "100 Continue" before
      // every PUT, but only before a POST of at least 1 MiB.
      curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, "PUT");
      [[fallthrough]];
    case Method::post:
      curl_easy_setopt(easy, CURLOPT_POST, 1L);
      curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(exchange.body.size()));
      curl_easy_setopt(easy, CURLOPT_POSTFIELDS, exchange.body.empty() ? "" : exchange.body.data());
      break;
    case Method::remove:
      curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, "DELETE");
      break;
  }
}

// Adds the headers that the signature needs; all headers are signed. For the signature, libcurl 7.88 reads
// the payload's digest from x-amz-content-sha256. libcurl sends that header by itself only since 8.0, but AWS
// and others require the header.
S3Client::Headers signed_headers(S3Client::Headers headers, std::string_view body, const S3Account& account) {
  headers.emplace_back("x-amz-content-sha256", sha256_of(body));
  if (!account.token.empty()) headers.emplace_back("x-amz-security-token", account.token);
  return headers;
}

}  // namespace

S3Client::S3Client(std::string bucket, S3Account account, int repeats_max, Clock& clock)
    : bucket_(std::move(bucket)), repeats_max_(repeats_max), clock_(clock) {
  prepare_curl();
  connections_ = std::make_unique<Connections>(std::move(account));
}

S3Client::~S3Client() = default;

void S3Client::use(S3Account account) {
  connections_->use(std::move(account));
}

// For Amazon's server, the host name contains the bucket's name, unless that name contains a dot: Amazon's
// certificate is not valid for such host names. Otherwise the path contains the bucket's name.
std::string S3Client::url(const Request& request, const S3Account& account) const {
  std::string url = endpoint_of(account);
  if (is_amazon(account) && bucket_.find('.') == std::string::npos) {
    url.insert(url.find("://") + 3, bucket_ + ".");
  } else {
    url += "/" + bucket_;
  }
  url += "/" + encoded(request.key, "/");
  if (!request.query.empty()) url += "?" + request.query;
  return url;
}

S3Client::Answer S3Client::ask_once(const Request& request, const S3Account& account,
                                    const std::stop_token& stop) {
  Easy easy = connections_->take();
  if (!easy) throw std::bad_alloc();
  Exchange exchange{.easy = easy.get(),
                    .body = request.body,
                    .sink = request.sink,
                    .stop = stop,
                    .clock = clock_,
                    .from = request.from};
  set_up(exchange, request.method);
  const curl::List headers = header_list(signed_headers(request.headers, request.body, account));
  std::array<char, CURL_ERROR_SIZE> why{};
  curl_easy_setopt(easy.get(), CURLOPT_URL, url(request, account).c_str());
  curl_easy_setopt(easy.get(), CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(easy.get(), CURLOPT_ERRORBUFFER, why.data());
  curl_easy_setopt(easy.get(), CURLOPT_AWS_SIGV4, fmt::format("aws:amz:{}:s3", account.region).c_str());
  curl_easy_setopt(easy.get(), CURLOPT_USERNAME, account.key.c_str());
  curl_easy_setopt(easy.get(), CURLOPT_PASSWORD, account.secret.c_str());
  curl::trust(easy.get(), account.authorities);

  Answer answer{.result = curl_easy_perform(easy.get())};
  if (exchange.fault) std::rethrow_exception(exchange.fault);
  curl_easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &answer.status);
  curl_off_t value = 0;
  if (curl_easy_getinfo(easy.get(), CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &value) == CURLE_OK)
    answer.size = value;
  if (curl_easy_getinfo(easy.get(), CURLINFO_RETRY_AFTER, &value) == CURLE_OK)
    answer.wanted_pause = Seconds(static_cast<double>(value));
  // A server that rejects a request may close the connection during the upload.
  if (answer.result == CURLE_SEND_ERROR && answer.status >= 300) answer.result = CURLE_OK;
  if (answer.result != CURLE_OK)
    answer.fault = why.front() == 0 ? curl_easy_strerror(answer.result) : std::string(why.data());
  if (const time_t date = curl_getdate(exchange.date.c_str(), nullptr); date != -1)
    answer.ahead = clock_.now() - std::chrono::system_clock::from_time_t(date);
  connections_->leave(std::move(easy));
  answer.excess = std::move(exchange.kept.excess);
  answer.body = std::move(exchange.kept.body);
  answer.tag = std::move(exchange.tag);
  answer.region = std::move(exchange.region);
  answer.mode = std::move(exchange.mode);
  answer.mtime = std::move(exchange.mtime);
  answer.has_begun = exchange.has_begun;
  // An answer with status 200 can still contain an error (CompleteMultipartUpload, CopyObject).
  if (answer.status >= 300 || answer.body.find("<Error>") != std::string::npos)
    answer.code = element(answer.body, "Code");
  if (answer.region.empty()) answer.region = element(answer.body, "Region");
  return answer;
}

namespace {

std::string clock_fault(const std::optional<Seconds>& ahead) {
  if (!ahead || std::abs(ahead->count()) < 60)
    return "the server reports that this machine's clock is wrong; set the clock";
  return fmt::format(
      "this machine's clock is {} {} the server's, and signatures are valid for 15 minutes; set the clock",
      to_string(Seconds(std::abs(ahead->count()))), ahead->count() > 0 ? "ahead of" : "behind");
}

}  // namespace

S3Client::Answer S3Client::ask(const Request& request, const std::stop_token& stop) {
  const std::string subject =
      fmt::format("s3://{}{}{}", bucket_, request.key.empty() ? "" : "/", shortened(request.key));
  Seconds pause = k_first_pause;
  for (int repeats = 0;; ++repeats) {
    if (stop.stop_requested()) throw Error(ErrorKind::cancelled, subject, "cancelled");
    const auto account = connections_->account();
    Answer answer = ask_once(request, *account, stop);
    if (answer.is_good()) return answer;
    const auto refuse = [&](const std::string& why) { throw Error(ErrorKind::refused, subject, why); };
    if (stop.stop_requested()) throw Error(ErrorKind::cancelled, subject, "cancelled");
    if (!answer.excess.empty())
      throw Error(ErrorKind::refused, subject,
                  fmt::format("the answer of {} {}", endpoint_of(*account), answer.excess));
    if (request.is_conditional && (answer.status == 412 || answer.status == 409 || answer.status == 501))
      return answer;
    if (answer.may_come_right()) {
      if (repeats < repeats_max_ && !answer.has_begun) {
        clock_.wait(std::min(std::max(pause, answer.wanted_pause), k_pause_max), stop);
        pause *= 2;
        continue;
      }
      throw Error(ErrorKind::unavailable, subject,
                  answer.result == CURLE_OK
                      ? fmt::format("{} answered {} {}", endpoint_of(*account), answer.status,
                                    answer.code.empty() ? "to every try" : answer.code)
                      : fmt::format("{}: {}", endpoint_of(*account), answer.fault));
    }
    if (answer.result != CURLE_OK) refuse(fmt::format("{}: {}", endpoint_of(*account), answer.fault));
    const std::string& code = answer.code;
    if (answer.status == 404 && (code.empty() || code.starts_with("NoSuch"))) return answer;
    if (code == "RequestTimeTooSkewed") refuse(clock_fault(answer.ahead));
    // XAdminUserNotFound is a code of the S3 server versitygw, with status 404.
    if (code == "InvalidAccessKeyId" || code == "XAdminUserNotFound")
      refuse(fmt::format("the server does not know the access key from {}", account->source));
    if (code == "SignatureDoesNotMatch")
      refuse(fmt::format("the secret key does not belong to the access key from {}", account->source));
    if (code == "ExpiredToken")
      refuse(fmt::format("the session of the keys from {} has expired; log in again", account->source));
    if (!answer.region.empty() && answer.region != account->region)
      refuse(fmt::format("the bucket is in the region {}; set AWS_REGION", shortened(answer.region)));
    if (answer.status == 403)
      refuse(fmt::format("the keys from {} do not allow {}", account->source,
                         right_to(request.method, request.key.empty())));
    const std::string message = element(answer.body, "Message");
    refuse(fmt::format("{} answered {} {}{}{}", endpoint_of(*account), answer.status, code,
                       message.empty() ? "" : ": ", shortened(message)));
  }
}

namespace {

// Throws Error if the answer is 404 for a bucket or an object that must exist.
void expect_there(long status, const std::string& code, const std::string& bucket, const std::string& key) {
  if (status != 404) return;
  if (code.empty() || code == "NoSuchBucket")
    throw Error(ErrorKind::refused, "s3://" + bucket, "there is no such bucket");
  throw Error(ErrorKind::unavailable, fmt::format("s3://{}/{}", bucket, shortened(key)),
              fmt::format("the server no longer has the object or upload ({})", code));
}

}  // namespace

std::optional<S3Object> S3Client::head(const std::string& key, const std::stop_token& stop) {
  const Answer answer = ask({.method = Method::head, .key = key}, stop);
  if (answer.status == 404) return std::nullopt;
  return S3Object{
      .key = key, .size = answer.size, .mode = answer.mode, .mtime = answer.mtime, .tag = answer.tag};
}

std::optional<S3Object> S3Client::get(const std::string& key,
                                      const std::function<void(std::string_view)>& sink,
                                      const std::stop_token& stop, std::int64_t from) {
  Request request{.key = key, .sink = &sink, .from = from};
  if (from > 0) request.headers.emplace_back("range", fmt::format("bytes={}-", from));
  const Answer answer = ask(request, stop);
  if (answer.status == 404) return std::nullopt;
  return S3Object{.key = key, .mode = answer.mode, .mtime = answer.mtime};
}

std::function<void(std::string_view)> append_up_to(std::string& text, std::size_t size_max, ErrorKind kind,
                                                   const std::string& subject) {
  return [=, &text](std::string_view bytes) {
    if (bytes.size() > size_max - text.size())
      throw Error(kind, subject,
                  fmt::format("is larger than {}", to_string(Bytes{static_cast<std::int64_t>(size_max)})));
    text += bytes;
  };
}

std::optional<std::string> S3Client::get_text(const std::string& key, std::size_t size_max,
                                              const std::stop_token& stop) {
  std::string text;
  const std::string subject = fmt::format("s3://{}/{}", bucket_, shortened(key));
  if (!get(key, append_up_to(text, size_max, ErrorKind::refused, subject), stop)) return std::nullopt;
  return text;
}

void S3Client::list(const std::string& prefix, const std::function<void(const S3Object&)>& sink,
                    const std::stop_token& stop) {
  std::set<std::string> tokens;
  std::size_t objects = 0;
  std::size_t empty_pages = 0;
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorKind::refused, fmt::format("s3://{}/{}", bucket_, shortened(prefix)), why);
  };
  for (std::string next;;) {
    const std::string from = next.empty() ? "" : fmt::format("continuation-token={}&", encoded(next));
    const Answer answer =
        ask({.query = fmt::format("{}encoding-type=url&list-type=2&prefix={}", from, encoded(prefix))}, stop);
    expect_there(answer.status, answer.code, bucket_, prefix);
    const S3Page page = read_page(answer.body);
    objects += page.objects.size();
    if (objects > k_objects_max) refuse(fmt::format("the server lists more than {} objects", k_objects_max));
    std::ranges::for_each(page.objects, sink);
    next = page.next;
    if (next.empty()) return;
    if (!tokens.insert(next).second) refuse("the server lists the same page again and again");
    empty_pages = page.objects.empty() ? empty_pages + 1 : 0;
    if (empty_pages > k_empty_pages_max)
      refuse(fmt::format("the server lists more than {} pages without an object", k_empty_pages_max));
  }
}

void S3Client::check_list(const std::string& prefix, const std::stop_token& stop) {
  const Answer answer = ask(
      {.query = fmt::format("encoding-type=url&list-type=2&max-keys=1&prefix={}", encoded(prefix))}, stop);
  expect_there(answer.status, answer.code, bucket_, prefix);
}

void S3Client::put(const std::string& key, std::string_view bytes, const Headers& headers,
                   const std::stop_token& stop) {
  const Answer answer = ask({.method = Method::put, .key = key, .headers = headers, .body = bytes}, stop);
  expect_there(answer.status, answer.code, bucket_, key);
}

bool S3Client::put_new(const std::string& key, std::string_view bytes, const Headers& headers,
                       const std::stop_token& stop) {
  Request request{
      .method = Method::put, .key = key, .headers = headers, .body = bytes, .is_conditional = true};
  request.headers.emplace_back("if-none-match", "*");
  const Answer answer = ask(request, stop);
  expect_there(answer.status, answer.code, bucket_, key);
  if (answer.status == 501) put(key, bytes, headers, stop);
  return answer.status != 412 && answer.status != 409;
}

void S3Client::copy(const std::string& from, const std::string& to, const std::stop_token& stop) {
  const Answer answer =
      ask({.method = Method::put,
           .key = to,
           .headers = {{"x-amz-copy-source", fmt::format("/{}/{}", bucket_, encoded(from, "/"))}}},
          stop);
  expect_there(answer.status, answer.code, bucket_, from);
}

void S3Client::remove(const std::string& key, const std::stop_token& stop) {
  (void)ask({.method = Method::remove, .key = key}, stop);
}

std::string S3Client::begin(const std::string& key, const Headers& headers, const std::stop_token& stop) {
  const Answer answer =
      ask({.method = Method::post, .key = key, .query = "uploads=", .headers = headers}, stop);
  expect_there(answer.status, answer.code, bucket_, key);
  std::string upload = element(answer.body, "UploadId");
  if (upload.empty())
    throw Error(ErrorKind::unavailable, fmt::format("s3://{}/{}", bucket_, shortened(key)),
                "the server's answer contains no UploadId");
  return upload;
}

std::string S3Client::put_part(const std::string& key, const std::string& upload, std::size_t number,
                               std::string_view bytes, const std::stop_token& stop) {
  const Answer answer = ask({.method = Method::put,
                             .key = key,
                             .query = fmt::format("partNumber={}&uploadId={}", number, encoded(upload)),
                             .body = bytes},
                            stop);
  expect_there(answer.status, answer.code, bucket_, key);
  return answer.tag;
}

void S3Client::complete(const std::string& key, const std::string& upload,
                        const std::vector<std::string>& parts, const std::stop_token& stop) {
  std::string xml = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  for (std::size_t i = 0; i < parts.size(); ++i)
    xml += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>", i + 1, parts[i]);
  xml += "</CompleteMultipartUpload>";
  const Answer answer = ask({.method = Method::post,
                             .key = key,
                             .query = "uploadId=" + encoded(upload),
                             .headers = {{"content-type", "application/xml"}},
                             .body = xml},
                            stop);
  expect_there(answer.status, answer.code, bucket_, key);
}

void S3Client::abort(const std::string& key, const std::string& upload, const std::stop_token& stop) {
  (void)ask({.method = Method::remove, .key = key, .query = "uploadId=" + encoded(upload)}, stop);
}

}  // namespace combu::outputs
