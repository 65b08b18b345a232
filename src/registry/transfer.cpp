#include "registry/transfer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <new>
#include <optional>
#include <string_view>

#include "combu/curl.hpp"
#include "combu/registry.hpp"

namespace combu::registry {
namespace {

struct Incoming {
  WebAnswer answer;
  curl::BufferedAnswer kept;
};

std::optional<std::string> value_of(std::string_view line, std::string_view name) {
  const auto is_same = [](unsigned char a, unsigned char b) { return std::tolower(a) == b; };
  if (line.size() <= name.size() || line[name.size()] != ':' ||
      !std::ranges::equal(line.substr(0, name.size()), name, is_same))
    return std::nullopt;
  return std::string(trimmed(line.substr(name.size() + 1)));
}

std::size_t receive_header(char* bytes, std::size_t size, std::size_t count, void* of) {
  auto& [answer, kept] = *static_cast<Incoming*>(of);
  const std::string_view line(bytes, size * count);
  if (!kept.add_header(line.size())) return 0;
  if (line.starts_with("HTTP/")) answer = {};  // headers of an interim answer, or of a proxy
  if (auto challenge = value_of(line, "www-authenticate")) answer.challenges.push_back(*std::move(challenge));
  if (auto location = value_of(line, "location")) answer.location = *std::move(location);
  if (auto digest = value_of(line, "docker-content-digest")) answer.content_digest = *std::move(digest);
  return line.size();
}

std::size_t receive_piece(char* bytes, std::size_t size, std::size_t count, void* of) {
  const std::string_view piece(bytes, size * count);
  return static_cast<Incoming*>(of)->kept.add(piece) ? piece.size() : 0;
}

int is_cancelled(void* of, curl_off_t /*total*/, curl_off_t /*now*/, curl_off_t /*up*/,
                 curl_off_t /*up_now*/) {
  return static_cast<const std::stop_token*>(of)->stop_requested() ? 1 : 0;
}

long milliseconds(std::chrono::duration<double> duration) {
  return std::max<long>(1, static_cast<long>(std::chrono::ceil<std::chrono::milliseconds>(duration).count()));
}

[[noreturn]] void explain(CURL* easy, CURLcode result, const std::string& why, const std::string& host,
                          const Deadline& deadline) {
  curl_off_t connected_after = 0;
  curl_easy_getinfo(easy, CURLINFO_CONNECT_TIME_T, &connected_after);
  if (result == CURLE_PEER_FAILED_VERIFICATION || result == CURLE_SSL_CACERT_BADFILE)
    throw Error(ErrorKind::refused, host,
                fmt::format("the certificate of {} is not trusted: {}; add its certificate authority to the "
                            "trusted ones of this machine, or name the file in SSL_CERT_FILE",
                            host, why));
  if (result == CURLE_OPERATION_TIMEDOUT && connected_after > 0)
    throw Error(
        ErrorKind::unavailable, host,
        fmt::format("{} has not answered within {}; try again later", host, to_string(deadline.total_max)));
  throw Error(ErrorKind::unavailable, host,
              fmt::format("{} cannot be reached, or the connection broke: {}; check the name and the network",
                          host, why));
}

}  // namespace

WebAnswer transfer(const WebRequest& request, const Deadline& deadline, const std::stop_token& stop) {
  const std::string& host = request.url.host();
  if (stop.stop_requested()) throw Error(ErrorKind::cancelled, host, "cancelled");
  const curl::Easy handle{curl_easy_init(), &curl_easy_cleanup};
  if (!handle) throw std::bad_alloc();
  CURL* const easy = handle.get();
  std::vector<std::string> lines = request.headers;
  lines.insert(lines.end(), {"User-Agent: combu/" COMBU_VERSION, "Expect:"});
  const curl::List headers = curl::list_of(lines);
  Incoming incoming{.answer = {}, .kept = {.body_max = request.body_max}};
  std::array<char, CURL_ERROR_SIZE> why{};
  curl_easy_setopt(easy, CURLOPT_URL, request.url.text().c_str());
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);  // a stop does not wait for a lookup of the host's name
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, why.data());
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, milliseconds(deadline.connect_max));
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, milliseconds(deadline.end - std::chrono::steady_clock::now()));
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &receive_header);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, &incoming);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &receive_piece);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &incoming);
  curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(easy, CURLOPT_XFERINFODATA, &stop);
  curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, &is_cancelled);
  if (!request.form.empty()) curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request.form.c_str());
  if (is_loopback(host)) curl_easy_setopt(easy, CURLOPT_PROXY, "");
  curl::trust(easy, "");
  const CURLcode result = curl_easy_perform(easy);
  if (stop.stop_requested()) throw Error(ErrorKind::cancelled, host, "cancelled");
  if (!incoming.kept.excess.empty())
    throw Error(ErrorKind::corrupt, host, fmt::format("the answer of {} {}", host, incoming.kept.excess));
  if (result != CURLE_OK)
    explain(easy, result, one_line(why.front() == 0 ? curl_easy_strerror(result) : why.data()), host,
            deadline);
  WebAnswer answer = std::move(incoming.answer);
  long status = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  answer.status = static_cast<int>(status);
  answer.body = std::move(incoming.kept.body);
  return answer;
}

}  // namespace combu::registry
