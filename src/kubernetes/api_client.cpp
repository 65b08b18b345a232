#include "kubernetes/api_client.hpp"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <utility>

#include "combu/curl.hpp"
#include "combu/json.hpp"
#include "kubernetes/credentials.hpp"

namespace combu::kubernetes {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr long k_connect_seconds_max = 10;
constexpr long k_switching_protocols = 101;
constexpr long k_unauthorized = 401;
constexpr long k_forbidden_status = 403;
constexpr std::chrono::milliseconds k_callback_pause{500};  // between two calls of ApiStream::on_pause

bool is_success(long status) {
  return status >= 200 && status < 300;
}

// A handle of libcurl, and the connection that it has opened. curl_easy_perform() would notice a requested
// stop only after a second; curl_multi_poll() can be woken.
struct Handle {
  // `easy` must be created first, because curl_easy_init() initialises libcurl.
  std::unique_ptr<CURLM, decltype(&curl_multi_cleanup)> multi{nullptr, &curl_multi_cleanup};
  curl::Easy easy{curl_easy_init(), &curl_easy_cleanup};

  Handle() {
    multi.reset(curl_multi_init());
    if (!easy || !multi) throw std::bad_alloc();
  }
};

// ---- The answer, as libcurl's callbacks receive it

struct Incoming {
  CURL* easy;
  const ApiStream* stream;  // nullptr: the body is kept
  std::size_t line_max;
  curl::BufferedAnswer kept;
  std::string line;  // incomplete last line of the stream
  std::vector<std::string> warnings;
  const std::function<void(Instant)>& on_date;  // receives the header `Date`
  std::exception_ptr fault;  // exception of a callback, which must not pass through libcurl

  [[nodiscard]] long status() const {
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    return status;
  }
  // Returns false if a limit is exceeded.
  bool add_to_line(std::string_view piece) {
    if (piece.size() > line_max - line.size()) {
      kept.excess =
          fmt::format("has a line of more than {}", to_string(Bytes{static_cast<std::int64_t>(line_max)}));
      return false;
    }
    line += piece;
    return true;
  }
  bool take_stream(std::string_view piece) {
    if (!stream->on_line) {
      stream->on_bytes(piece);
      return true;
    }
    while (true) {
      const std::size_t end = piece.find('\n');
      if (!add_to_line(piece.substr(0, end))) return false;
      if (end == std::string_view::npos) return true;
      if (line.ends_with('\r')) line.pop_back();
      if (!line.empty()) stream->on_line(line);
      line.clear();
      piece.remove_prefix(end + 1);
    }
  }
};

std::size_t receive_body(char* bytes, std::size_t size, std::size_t count, void* of) {
  auto& incoming = *static_cast<Incoming*>(of);
  const std::string_view piece(bytes, size * count);
  if (incoming.stream == nullptr || !is_success(incoming.status()))
    return incoming.kept.add(piece) ? piece.size() : 0;
  try {
    return incoming.take_stream(piece) ? piece.size() : 0;
  } catch (...) {
    incoming.fault = std::current_exception();
    return 0;
  }
}

// Returns the text of a header `Warning`: CODE AGENT "TEXT" (RFC 7234, section 5.5).
std::string warning_text(std::string_view value) {
  const std::size_t quote = value.find('"');
  if (quote == std::string_view::npos) return one_line(value);
  std::string text;
  for (std::size_t at = quote + 1; at < value.size() && value[at] != '"'; ++at) {
    if (value[at] == '\\' && at + 1 < value.size()) ++at;
    text += value[at];
  }
  return one_line(text);
}

// Returns the value of a header line if `name`, in lower case and with its colon, is the header's name.
std::optional<std::string_view> value_of(std::string_view line, std::string_view name) {
  const auto is_same = [](unsigned char a, unsigned char b) { return std::tolower(a) == b; };
  if (!std::ranges::equal(line.substr(0, name.size()), name, is_same)) return std::nullopt;
  return line.substr(name.size());
}

std::size_t receive_api_header(char* bytes, std::size_t size, std::size_t count, void* of) {
  auto& incoming = *static_cast<Incoming*>(of);
  const std::string_view line(bytes, size * count);
  if (!incoming.kept.add_header(line.size())) return 0;
  if (const auto value = value_of(line, "warning:")) incoming.warnings.push_back(warning_text(*value));
  if (const auto value = value_of(line, "date:")) {
    const std::time_t date = curl_getdate(std::string(*value).c_str(), nullptr);
    if (date > 0) incoming.on_date(std::chrono::system_clock::from_time_t(date));
  }
  return line.size();
}

// ---- The transfer

enum class End { complete, silent, stopped };

struct Transfer {
  End end = End::complete;
  CURLcode result = CURLE_OK;  // of a complete transfer
};

// Adds a handle to its multi handle as long as the object exists.
class Added {
 public:
  explicit Added(const Handle& handle) : handle_(handle) {
    curl_multi_add_handle(handle_.multi.get(), handle_.easy.get());
  }
  ~Added() { curl_multi_remove_handle(handle_.multi.get(), handle_.easy.get()); }
  Added(const Added&) = delete;
  Added& operator=(const Added&) = delete;

 private:
  const Handle& handle_;
};

// `on_pause`: see ApiStream; may be empty.
Transfer perform(const Handle& handle, Seconds silence_max, const std::function<void()>& on_pause,
                 const std::stop_token& stop) {
  CURLM* const multi = handle.multi.get();
  const std::stop_callback wake(stop, [multi] { curl_multi_wakeup(multi); });
  const Added added(handle);
  auto last_heard = SteadyClock::now();
  auto last_pause = last_heard;
  for (int ready = 0;;) {
    if (stop.stop_requested()) return {.end = End::stopped};
    int running = 0;
    curl_multi_perform(multi, &running);
    if (running == 0) break;
    // `ready`: number of sockets on which something has happened. The time after curl_multi_perform() counts,
    // because a callback may have taken long.
    if (ready > 0) last_heard = SteadyClock::now();
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(silence_max - (SteadyClock::now() - last_heard));
    if (left.count() <= 0) return {.end = End::silent};
    if (on_pause && SteadyClock::now() - last_pause >= k_callback_pause) {
      on_pause();
      last_pause = SteadyClock::now();
    }
    constexpr std::chrono::milliseconds k_poll_max = std::chrono::minutes{1};  // libcurl takes an int
    const auto longest = std::min(left, on_pause ? k_callback_pause : k_poll_max);
    curl_multi_poll(multi, nullptr, 0, static_cast<int>(longest.count()), &ready);
  }
  int queued = 0;
  const CURLMsg* const message = curl_multi_info_read(multi, &queued);
  return {.result = message == nullptr ? CURLE_FAILED_INIT : message->data.result};
}

// ---- The settings of a request

void set_blob(CURL* easy, CURLoption option, const std::string& bytes) {
  // libcurl copies the bytes, and does not change them.
  curl_blob blob{
      .data = const_cast<char*>(bytes.data()), .len = bytes.size(), .flags = CURL_BLOB_COPY};  // NOLINT
  curl_easy_setopt(easy, option, &blob);
}

void set_up_tls(CURL* easy, const Cluster& cluster, const Identity& identity) {
  if (cluster.authorities.is_set()) {
    // Only these certificates are trusted, and not those of libcurl's default folder.
    curl_easy_setopt(easy, CURLOPT_CAPATH, nullptr);
    if (cluster.authorities.file.empty()) {
      set_blob(easy, CURLOPT_CAINFO_BLOB, cluster.authorities.text);
    } else {
      curl_easy_setopt(easy, CURLOPT_CAINFO, cluster.authorities.file.c_str());
    }
  } else {
    curl::trust(easy, "");
  }
  if (cluster.skips_tls_verify) {
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
  }
  if (!identity.certificate.empty()) {
    set_blob(easy, CURLOPT_SSLCERT_BLOB, identity.certificate);
    set_blob(easy, CURLOPT_SSLKEY_BLOB, identity.key);
    curl_easy_setopt(easy, CURLOPT_KEYPASSWD, "");  // without a value, OpenSSL would ask on the terminal
  }
}

void identify_to_server(CURL* easy, const Identity& identity) {
  if (!identity.token.empty()) {
    curl_easy_setopt(easy, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    curl_easy_setopt(easy, CURLOPT_XOAUTH2_BEARER, identity.token.c_str());
  } else if (!identity.username.empty()) {
    curl_easy_setopt(easy, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
    curl_easy_setopt(easy, CURLOPT_USERNAME, identity.username.c_str());
    curl_easy_setopt(easy, CURLOPT_PASSWORD, identity.password.c_str());
  }
}

std::string authorization_of(const Identity& identity) {
  if (!identity.token.empty()) return "Bearer " + identity.token;
  if (identity.username.empty()) return "";
  return "Basic " + encode_base64(fmt::format("{}:{}", identity.username, identity.password));
}

// As in Go, the proxy and not this machine looks up the host's name.
std::string proxy_of_curl(const std::string& proxy) {
  constexpr std::string_view k_socks = "socks5://";
  return proxy.starts_with(k_socks) ? "socks5h://" + proxy.substr(k_socks.size()) : proxy;
}

bool has_body(const ApiRequest& request) {
  return request.method != "GET" && !(request.method == "DELETE" && request.body.empty());
}

void set_method(CURL* easy, const ApiRequest& request) {
  if (request.method == "GET") return;
  curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  if (!has_body(request)) return;
  curl_easy_setopt(easy, CURLOPT_POST, 1L);
  curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request.body.c_str());
}

// ---- Errors

ErrorKind kind_of_status(long status) {
  switch (status) {
    case 400:
    case 422:
      return ErrorKind::invalid;
    case 404:
      return ErrorKind::not_found;
    case 409:
      return ErrorKind::conflict;
    case 410:
    case 429:
      return ErrorKind::unavailable;
    default:
      return status >= 500 ? ErrorKind::unavailable : ErrorKind::refused;
  }
}

// Returns a text that is equal for requests that need the same right, such as "GET pods/log". `target`: see
// ApiRequest. The path of a namespace's object is …/namespaces/NAMESPACE/RESOURCE[/NAME[/SUBRESOURCE]].
std::string right_of(const ApiRequest& request) {
  std::string_view path = std::string_view(request.target).substr(0, request.target.find('?'));
  constexpr std::string_view k_namespaces = "/namespaces/";
  const std::size_t at = path.find(k_namespaces);
  if (at == std::string_view::npos) return fmt::format("{} {}", request.method, path);
  path.remove_prefix(at + k_namespaces.size());
  std::vector<std::string_view> parts;  // the namespace, the resource, the name, the subresource
  while (!path.empty()) {
    parts.push_back(path.substr(0, path.find('/')));
    path.remove_prefix(std::min(parts.back().size() + 1, path.size()));
  }
  const std::string_view resource = parts.size() > 1 ? parts[1] : "";
  return fmt::format("{} {}{}{}{}", request.method, resource, parts.size() > 2 ? "/NAME" : "",
                     parts.size() > 3 ? "/" : "", parts.size() > 3 ? parts[3] : "");
}

// Returns the message of a Status object. An answer of a proxy, for example, is no Status object.
std::string message_of_status(long status, const std::string& body) {
  const nlohmann::json answer = parse_json_or_discard(body);
  if (answer.is_object() && answer.contains("message") && answer["message"].is_string()) {
    std::string message = one_line(answer["message"].get_ref<const std::string&>());
    if (!message.empty()) return message;
  }
  const std::string text = one_line(body);
  return fmt::format("answered with status {}{}{}", status, text.empty() ? "" : ": ", text);
}

// True for the authorizer's refusal: `… forbidden: User "NAME" cannot VERB resource "…"`, or `path "…"`. The
// words of an admission policy or webhook, which may also contain "cannot", are no such refusal.
bool is_missing_right(std::string_view message) {
  constexpr std::string_view k_begin = "forbidden: User \"";
  constexpr std::string_view k_cannot = "\" cannot ";
  const std::size_t begin = message.find(k_begin);
  if (begin == std::string_view::npos || message.find("denied the request") < begin) return false;
  const std::size_t cannot = message.find(k_cannot, begin + k_begin.size());
  if (cannot == std::string_view::npos) return false;
  message.remove_prefix(cannot + k_cannot.size());
  message.remove_prefix(std::min(message.find(' '), message.size()));  // the verb
  return message.starts_with(" resource \"") || message.starts_with(" path \"");
}

struct Answer {
  Transfer transfer;
  long status = 0;
  std::string body;
  std::string excess;   // the exceeded limit; empty: none
  std::string why;      // libcurl's reason if transfer.result is an error
  bool is_cut = false;  // the stream ended within a line
  Seconds retry_after{0};
  std::vector<std::string> warnings;
};

}  // namespace

struct ApiClient::Impl {
  Impl(Access wanted, ApiLimits limits_of_answers, Clock& clock)
      : access(std::move(wanted)),
        limits(limits_of_answers),
        credentials(access, clock),
        on_date([this, &clock](Instant date) { server_clock.heard(date, clock.now()); }) {}

  // Calls `ask` with the credentials, and after 401 once more with renewed ones. Returns the last answer.
  template <class Ask>
  auto ask_as_user(const Ask& ask, const std::stop_token& stop) {
    std::shared_ptr<const Identity> identity = credentials.current(stop);
    auto answer = ask(*identity);
    if (answer.status == k_unauthorized && credentials.discard(identity)) {
      identity = credentials.current(stop);
      answer = ask(*identity);
    }
    return answer;
  }
  // Sends a request, see ask_as_user(), and returns a successful answer.
  // `stream`: receives a stream; nullptr: the answer keeps the body.
  Answer ask(const ApiRequest& request, const ApiStream* stream, const std::stop_token& stop);
  [[nodiscard]] Answer ask_once(const ApiRequest& request, const ApiStream* stream, const Identity& identity,
                                const std::stop_token& stop);
  void set_up(CURL* easy, const ApiRequest& request, const Identity& identity) const;
  // The value of CURLOPT_CONNECT_TO. set_up() names the server as its certificate does.
  [[nodiscard]] std::vector<std::string> connect_to() const {
    const std::string& name = access.cluster.tls_server_name;
    const ServerAddress& address = access.cluster.address;
    if (name.empty()) return {};
    return {fmt::format("{}:{}:{}", name, address.port, address.authority())};
  }
  [[nodiscard]] ApiConnection connect(const std::string& target, const Identity& identity,
                                      const std::stop_token& stop);
  // Throws the error that `answer` describes; returns if there is none. `right`: right_of() the request.
  void check(const Answer& answer, Seconds silence_max, const std::string& right);
  // True if the server has granted the right before. Notes a right that the server grants now.
  [[nodiscard]] bool was_granted(const std::string& right, bool is_granted_now);
  [[noreturn]] void explain(const Answer& answer) const;

  [[nodiscard]] Seconds silence_max(const ApiStream* stream) const {
    return stream == nullptr ? limits.silence_max : stream->silence_max;
  }
  [[nodiscard]] std::unique_ptr<Handle> take() {
    const std::scoped_lock lock(mutex);
    if (idle.empty()) return std::make_unique<Handle>();
    std::unique_ptr<Handle> handle = std::move(idle.back());
    idle.pop_back();
    return handle;
  }
  void leave(std::unique_ptr<Handle> handle) {
    curl_easy_reset(handle->easy.get());
    const std::scoped_lock lock(mutex);
    idle.push_back(std::move(handle));
  }

  const Access access;
  const ApiLimits limits;
  Credentials credentials;
  ServerClock server_clock;
  const std::function<void(Instant)> on_date;  // for Incoming
  std::mutex mutex;
  std::vector<std::unique_ptr<Handle>> idle;
  std::set<std::string> granted;  // right_of() all requests that have succeeded
};

void ApiClient::Impl::set_up(CURL* easy, const ApiRequest& request, const Identity& identity) const {
  const ServerAddress& address = access.cluster.address;
  ServerAddress named = address;  // the server under the name that its certificate must have
  if (!access.cluster.tls_server_name.empty()) named.host = access.cluster.tls_server_name;
  curl_easy_setopt(
      easy, CURLOPT_URL,
      fmt::format("{}://{}{}{}", named.scheme, named.authority(), named.path, request.target).c_str());
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);  // a stop does not wait for a lookup of the server's name
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, k_connect_seconds_max);
  if (!access.cluster.disables_compression) curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "");
  curl_easy_setopt(easy, CURLOPT_PROXY, proxy_of_curl(access.proxy).c_str());  // empty: no proxy
  curl_easy_setopt(easy, CURLOPT_NOPROXY, "");  // libcurl does not read NO_PROXY
  set_method(easy, request);
  set_up_tls(easy, access.cluster, identity);
  identify_to_server(easy, identity);
}

Answer ApiClient::Impl::ask_once(const ApiRequest& request, const ApiStream* stream, const Identity& identity,
                                 const std::stop_token& stop) {
  std::unique_ptr<Handle> handle = take();
  CURL* const easy = handle->easy.get();
  Incoming incoming{.easy = easy,
                    .stream = stream,
                    .line_max = limits.line_max,
                    .kept = {.body_max = limits.body_max},
                    .on_date = on_date};
  set_up(easy, request, identity);
  const ServerAddress& address = access.cluster.address;
  std::vector<std::string> lines{"Accept: " + request.accept, "User-Agent: combu/" COMBU_VERSION, "Expect:"};
  if (has_body(request)) lines.push_back("Content-Type: " + request.content_type);
  if (!access.cluster.tls_server_name.empty()) lines.push_back("Host: " + address.authority());
  const curl::List headers = curl::list_of(lines);
  const curl::List addresses = curl::list_of(connect_to());
  std::array<char, CURL_ERROR_SIZE> why{};
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(easy, CURLOPT_CONNECT_TO, addresses.get());
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, why.data());
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &receive_body);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &incoming);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &receive_api_header);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, &incoming);
  if (stream == nullptr)
    curl_easy_setopt(
        easy, CURLOPT_TIMEOUT_MS,
        std::chrono::ceil<std::chrono::milliseconds>(request.answer_max.value_or(limits.answer_max)).count());

  Answer answer;
  try {
    answer.transfer =
        perform(*handle, silence_max(stream), stream == nullptr ? nullptr : stream->on_pause, stop);
  } catch (...) {  // on_pause has thrown
    incoming.fault = std::current_exception();
  }
  answer.status = incoming.status();
  curl_off_t seconds = 0;
  if (curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &seconds) == CURLE_OK)
    answer.retry_after = Seconds(static_cast<double>(seconds));
  if (answer.transfer.result != CURLE_OK)
    answer.why = one_line(why.front() == 0 ? curl_easy_strerror(answer.transfer.result) : why.data());
  leave(std::move(handle));
  if (incoming.fault) std::rethrow_exception(incoming.fault);
  answer.body = std::move(incoming.kept.body);
  answer.excess = std::move(incoming.kept.excess);
  answer.is_cut = !incoming.line.empty();
  answer.warnings = std::move(incoming.warnings);
  return answer;
}

Answer ApiClient::Impl::ask(const ApiRequest& request, const ApiStream* stream, const std::stop_token& stop) {
  Answer answer =
      ask_as_user([&](const Identity& identity) { return ask_once(request, stream, identity, stop); }, stop);
  check(answer, silence_max(stream), right_of(request));
  return answer;
}

ApiConnection ApiClient::Impl::connect(const std::string& target, const Identity& identity,
                                       const std::stop_token& stop) {
  ApiConnection connection{.easy = {curl_easy_init(), &curl_easy_cleanup},
                           .host = access.cluster.address.authority(),
                           .target = access.cluster.address.path + target,
                           .authorization = authorization_of(identity)};
  CURL* const easy = connection.easy.get();
  if (easy == nullptr) throw std::bad_alloc();
  set_up(easy, {.target = target}, identity);
  const curl::List addresses = curl::list_of(connect_to());
  std::array<char, CURL_ERROR_SIZE> why{};
  const auto is_cancelled = [](void* of, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    return static_cast<const std::stop_token*>(of)->stop_requested() ? 1 : 0;
  };
  curl_easy_setopt(easy, CURLOPT_CONNECT_TO, addresses.get());
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, why.data());
  curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
  curl_easy_setopt(easy, CURLOPT_HTTPPROXYTUNNEL, 1L);
  curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(easy, CURLOPT_XFERINFODATA, &stop);
  curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, +is_cancelled);
  const CURLcode result = curl_easy_perform(easy);
  if (stop.stop_requested()) throw Error(ErrorKind::cancelled, access.cluster.server, "cancelled");
  if (result != CURLE_OK)
    explain({.transfer = {.result = result},
             .why = one_line(why.front() == 0 ? curl_easy_strerror(result) : why.data())});
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, nullptr);
  curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 1L);
  return connection;
}

bool ApiClient::Impl::was_granted(const std::string& right, bool is_granted_now) {
  const std::scoped_lock lock(mutex);
  const bool was_granted = granted.contains(right);
  if (is_granted_now && !was_granted) granted.insert(right);
  return was_granted;
}

void ApiClient::Impl::check(const Answer& answer, Seconds silence_max, const std::string& right) {
  const std::string& server = access.cluster.server;
  if (answer.transfer.end == End::stopped) throw Error(ErrorKind::cancelled, server, "cancelled");
  if (answer.transfer.end == End::silent)
    throw Error(ErrorKind::unavailable, server,
                fmt::format("the API server has sent nothing for {}", to_string(silence_max)));
  if (!answer.excess.empty())
    throw Error(ErrorKind::corrupt, server, fmt::format("the answer of the API server {}", answer.excess));
  if (answer.transfer.result != CURLE_OK) explain(answer);
  if (answer.is_cut)
    throw Error(ErrorKind::unavailable, server, "the API server has ended the stream within a line");
  const bool was_granted = this->was_granted(right, is_success(answer.status));
  if (is_success(answer.status)) return;
  std::string message = message_of_status(answer.status, answer.body);
  if (answer.status == k_unauthorized)
    message = fmt::format("the API server does not accept the credentials of {}: {}; log in again",
                          access.account.source, message);
  if (answer.status >= 300 && answer.status < 400)
    message = fmt::format("answered with a redirection (status {}); correct `server` in the kubeconfig file",
                          answer.status);
  const bool lacks_right = answer.status == k_forbidden_status && is_missing_right(message);
  if (lacks_right && !was_granted)
    message +=
        "; check the name of the namespace; `combu doctor` with the same --engine prints the missing rights";
  const ErrorKind kind = lacks_right && was_granted ? ErrorKind::unavailable : kind_of_status(answer.status);
  throw ApiError(kind, server, message, static_cast<int>(answer.status), answer.retry_after);
}

void ApiClient::Impl::explain(const Answer& answer) const {
  const auto refuse = [&](const std::string& what, const std::string& remedy) {
    throw Error(ErrorKind::refused, access.cluster.server,
                fmt::format("{}: {}; {}", what, answer.why, remedy));
  };
  const CURLcode result = answer.transfer.result;
  // If the trusted authority has the name of the server's authority, but another key, as after a cluster was
  // created again, libcurl returns the general error of a handshake.
  const auto is_caused_by = [&](std::string_view library) {
    return answer.why.find(library) != std::string::npos;
  };
  const bool has_bad_signature = result == CURLE_SSL_CONNECT_ERROR &&
                                 (is_caused_by("asn1 encoding routines") || is_caused_by("rsa routines"));
  if (result == CURLE_PEER_FAILED_VERIFICATION || has_bad_signature)
    refuse("the certificate of the API server is not trusted",
           "correct certificate-authority or tls-server-name in the kubeconfig file");
  if (result == CURLE_SSL_CACERT_BADFILE)
    refuse("the trusted certificates cannot be read", "correct certificate-authority in the kubeconfig file");
  if (result == CURLE_SSL_CERTPROBLEM)
    refuse(fmt::format("the client certificate of {} cannot be used", access.account.source),
           "correct the kubeconfig file");
  throw Error(ErrorKind::unavailable, access.cluster.server,
              fmt::format("the API server cannot be reached, or the connection broke: {}", answer.why));
}

// ---- ApiClient

ApiClient::ApiClient(Access access, ApiLimits limits, Clock& clock)
    : impl_(std::make_unique<Impl>(std::move(access), limits, clock)) {}

ApiClient::~ApiClient() = default;

ApiResponse ApiClient::send(const ApiRequest& request, const std::stop_token& stop) {
  Answer answer = impl_->ask(request, nullptr, stop);
  return {.status = static_cast<int>(answer.status),
          .body = std::move(answer.body),
          .warnings = std::move(answer.warnings)};
}

void ApiClient::read(const std::string& target, const ApiStream& stream, const std::stop_token& stop) {
  try {
    impl_->ask({.target = target}, &stream, stop);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::cancelled || !stop.stop_requested()) throw;
  }
}

void ApiClient::upgrade(const std::string& target, const std::function<UpgradeAnswer(ApiConnection)>& ask,
                        const std::stop_token& stop) {
  UpgradeAnswer upgraded = impl_->ask_as_user(
      [&](const Identity& identity) { return ask(impl_->connect(target, identity, stop)); }, stop);
  const std::string right = right_of({.target = target});
  if (upgraded.status == k_switching_protocols) return (void)impl_->was_granted(right, true);
  if (is_success(upgraded.status))
    throw Error(ErrorKind::unavailable, impl_->access.cluster.server,
                fmt::format("answered with status {}, but must change the protocol of the connection",
                            upgraded.status));
  Answer answer;
  answer.status = upgraded.status;
  answer.body = std::move(upgraded.body);
  impl_->check(answer, {}, right);
}

const ServerClock& ApiClient::server_clock() const {
  return impl_->server_clock;
}

}  // namespace combu::kubernetes
