#include "export/mlflow_server.hpp"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

#include "combu/base.hpp"
#include "combu/curl.hpp"
#include "combu/json.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

using Json = nlohmann::json;

constexpr long k_connect_seconds_max = 10;
constexpr long k_silent_seconds_max = 120;
constexpr long k_seconds_max = 600;  // maximum number of seconds for a request and its answer
constexpr std::size_t k_answer_max = std::size_t{64} << 20U;

// ---- Credentials and certificates: mlflow/utils/credentials.py, mlflow/utils/rest_utils.py

struct Account {
  std::string user;
  std::string password;
  std::string token;  // access token, which is used if user or password is empty
  // a file or a folder of trusted certificates; empty: the certificates of the system
  std::string authorities;
  std::string own;  // a file with the client certificate and its key
  bool trusts_all = false;
};

std::string variable(const char* name) {
  return environment(name).value_or("");
}

// Reads a value from ~/.mlflow/credentials, where names are those of the environment variables in lower case.
std::string credential(std::string name) {
  std::ranges::transform(name, name.begin(), [](unsigned char letter) { return std::tolower(letter); });
  std::ifstream file(variable("HOME") + "/.mlflow/credentials");
  bool is_ours = false;
  for (std::string line; std::getline(file, line);) {
    line = std::string(trimmed(line));
    if (line.starts_with('[')) is_ours = line == "[mlflow]";
    const std::size_t equals = line.find_first_of("=:");
    if (is_ours && equals != std::string::npos && trimmed(std::string_view(line).substr(0, equals)) == name)
      return std::string(trimmed(std::string_view(line).substr(equals + 1)));
  }
  return "";
}

std::string variable_or_credential(const char* name) {
  const std::string value = variable(name);
  return value.empty() ? credential(name) : value;
}

bool flag(const char* name) {
  std::string text = variable(name);
  std::ranges::transform(text, text.begin(), [](unsigned char letter) { return std::tolower(letter); });
  if (!text.empty() && text != "true" && text != "1" && text != "false" && text != "0")
    throw Error(ErrorKind::invalid, name, fmt::format("must be true or false, not \"{}\"", shortened(text)));
  return text == "true" || text == "1";
}

Account find_account() {
  Account account{.user = variable_or_credential("MLFLOW_TRACKING_USERNAME"),
                  .password = variable_or_credential("MLFLOW_TRACKING_PASSWORD"),
                  .token = variable("MLFLOW_TRACKING_TOKEN"),
                  .authorities = variable("MLFLOW_TRACKING_SERVER_CERT_PATH"),
                  .own = variable("MLFLOW_TRACKING_CLIENT_CERT_PATH"),
                  .trusts_all = flag("MLFLOW_TRACKING_INSECURE_TLS")};
  if (account.trusts_all && !account.authorities.empty())
    throw Error(ErrorKind::invalid, "MLFLOW_TRACKING_INSECURE_TLS",
                "conflicts with MLFLOW_TRACKING_SERVER_CERT_PATH; unset one of them");
  for (const std::string& path : {account.authorities, account.own})
    if (!path.empty() && !std::filesystem::exists(path))
      throw Error(ErrorKind::invalid, path,
                  fmt::format("does not exist; correct {}", path == account.own
                                                                ? "MLFLOW_TRACKING_CLIENT_CERT_PATH"
                                                                : "MLFLOW_TRACKING_SERVER_CERT_PATH"));
  return account;
}

// Returns the address without user and password. User and password are stored in `account`, where they
// override the values from the environment.
std::string address_without_account(const std::string& uri, Account& account) {
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> parts(curl_url(), &curl_url_cleanup);
  const bool is_web = uri.starts_with("http://") || uri.starts_with("https://");
  if (!is_web || curl_url_set(parts.get(), CURLUPART_URL, uri.c_str(), 0) != CURLUE_OK)
    throw Error(ErrorKind::invalid, uri.substr(uri.rfind('@') + 1),
                "must be the address of an MLflow server: http://HOST:PORT or https://HOST");
  const auto part = [&](CURLUPart which, unsigned flags) {
    char* text = nullptr;
    if (curl_url_get(parts.get(), which, &text, flags) != CURLUE_OK) return std::string();
    const std::unique_ptr<char, decltype(&curl_free)> freed(text, &curl_free);
    return std::string(text);
  };
  if (const std::string user = part(CURLUPART_USER, CURLU_URLDECODE); !user.empty()) {
    account.user = user;
    account.password = part(CURLUPART_PASSWORD, CURLU_URLDECODE);
  }
  for (const CURLUPart which : {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_QUERY, CURLUPART_FRAGMENT})
    curl_url_set(parts.get(), which, nullptr, 0);
  std::string address = part(CURLUPART_URL, 0);
  while (address.ends_with('/')) address.pop_back();
  return address;
}

// ---- libcurl callbacks of one request

struct Exchange {
  const std::stop_token& stop;
  curl::BufferedAnswer answer{.body_max = k_answer_max};
};

std::size_t receive(char* bytes, std::size_t size, std::size_t count, void* of) {
  return static_cast<Exchange*>(of)->answer.add({bytes, size * count}) ? size * count : 0;
}

std::size_t receive_header(char* /*bytes*/, std::size_t size, std::size_t count, void* of) {
  return static_cast<Exchange*>(of)->answer.add_header(size * count) ? size * count : 0;
}

int is_unwanted(void* of, curl_off_t /*to come*/, curl_off_t /*come*/, curl_off_t /*to go*/,
                curl_off_t /*gone*/) {
  return static_cast<const Exchange*>(of)->stop.stop_requested() ? 1 : 0;
}

void identify(CURL* easy, const Account& account) {
  if (!account.user.empty() && !account.password.empty()) {
    curl_easy_setopt(easy, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
    curl_easy_setopt(easy, CURLOPT_USERNAME, account.user.c_str());
    curl_easy_setopt(easy, CURLOPT_PASSWORD, account.password.c_str());
  } else if (!account.token.empty()) {
    curl_easy_setopt(easy, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    curl_easy_setopt(easy, CURLOPT_XOAUTH2_BEARER, account.token.c_str());
  }
  if (!account.own.empty()) curl_easy_setopt(easy, CURLOPT_SSLCERT, account.own.c_str());
  curl::trust(easy, account.authorities);
  if (account.trusts_all) {
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
  }
}

}  // namespace

struct MlflowServer::Impl {
  Impl(const std::string& uri, std::stop_token until)
      : account(find_account()), address(address_without_account(uri, account)), stop(std::move(until)) {}

  // Sends a POST with `body`, or a GET if `body` is nullptr.
  std::optional<Json> ask(const std::string& call, const std::string& query, const Json* body);
  [[noreturn]] void explain(CURLcode result, const char* words) const;

  Account account;
  std::string address;
  std::stop_token stop;
  curl::Idle idle;
};

std::optional<Json> MlflowServer::Impl::ask(const std::string& call, const std::string& query,
                                            const Json* body) {
  curl::Easy owned = idle.take();
  CURL* const easy = owned.get();
  const std::string path = "/api/2.0/mlflow/" + call;
  const std::string url = address + path + (query.empty() ? "" : "?" + query);
  const std::string sent = body == nullptr ? "" : json_text(*body);
  static const std::array<std::string, 2> k_headers{"Content-Type: application/json", "Expect:"};
  const curl::List lines = curl::list_of(k_headers);
  Exchange exchange{.stop = stop};
  std::array<char, CURL_ERROR_SIZE> words{};
  curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, k_connect_seconds_max);
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, k_silent_seconds_max);
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, lines.get());
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &receive);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &exchange);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &receive_header);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, &exchange);
  curl_easy_setopt(easy, CURLOPT_TIMEOUT, k_seconds_max);
  curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, &is_unwanted);
  curl_easy_setopt(easy, CURLOPT_XFERINFODATA, &exchange);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, words.data());
  if (body != nullptr) {
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(sent.size()));
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, sent.c_str());
  }
  identify(easy, account);
  const CURLcode result = curl_easy_perform(easy);
  if (const std::string& excess = exchange.answer.excess; !excess.empty())
    throw Error(ErrorKind::refused, address, fmt::format("the answer to {} {}", path, excess));
  if (result != CURLE_OK) explain(result, words.data());
  long status = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  idle.leave(std::move(owned));

  Json answer;
  std::string fault;
  try {
    answer = parse_json(exchange.answer.body);
  } catch (const Json::exception& exception) {
    fault = exception.what();
  }
  constexpr long k_ok = 200;
  constexpr long k_not_found = 404;
  constexpr long k_unauthorized = 401;
  if (status == k_ok && answer.is_object()) return answer;
  if (status == k_ok)
    throw Error(ErrorKind::refused, address,
                fmt::format("{}: the answer is not a JSON object{}; is this an MLflow server?", path,
                            fault.empty() ? "" : ": " + shortened(fault)));
  const std::string code = answer.is_object() ? answer.value("error_code", "") : "";
  if (status == k_not_found && (code.empty() || code == "RESOURCE_DOES_NOT_EXIST")) return std::nullopt;
  if (status == k_unauthorized)
    throw Error(ErrorKind::refused, address,
                "authentication failed; set MLFLOW_TRACKING_USERNAME and "
                "MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN");
  throw Error(ErrorKind::refused, address,
              fmt::format("{}: {}", path,
                          answer.is_object() && answer.contains("message")
                              ? shortened(answer.value("message", ""))
                              : fmt::format("answered {}; is this an MLflow server?", status)));
}

void MlflowServer::Impl::explain(CURLcode result, const char* words) const {
  if (stop.stop_requested()) throw Error(ErrorKind::cancelled, address, "cancelled");
  const std::string why = *words != '\0' ? words : curl_easy_strerror(result);
  if (result == CURLE_PEER_FAILED_VERIFICATION || result == CURLE_SSL_CACERT_BADFILE)
    throw Error(ErrorKind::refused, address,
                fmt::format("the certificate of the server is not trusted: {}; set "
                            "MLFLOW_TRACKING_SERVER_CERT_PATH to a file "
                            "of trusted certificates",
                            why));
  // `unavailable` is reserved for an engine that cannot be reached.
  throw Error(ErrorKind::refused, address,
              fmt::format("the MLflow server does not answer, or closed the connection ({}); run the same "
                          "command again to export the rest",
                          why));
}

MlflowServer::MlflowServer(const std::string& uri, std::stop_token stop)
    : impl_(std::make_unique<Impl>(uri, std::move(stop))) {}
MlflowServer::~MlflowServer() = default;

const std::string& MlflowServer::address() const {
  return impl_->address;
}

std::optional<Json> MlflowServer::find(const std::string& call, const std::string& query) {
  return impl_->ask(call, query, nullptr);
}

namespace {

Json expected(std::optional<Json> answer, const std::string& address, const std::string& call) {
  if (!answer) throw Error(ErrorKind::not_found, address, call + ": not found; is this an MLflow server?");
  return *std::move(answer);
}

}  // namespace

Json MlflowServer::get(const std::string& call, const std::string& query) {
  return expected(find(call, query), impl_->address, call);
}

Json MlflowServer::post(const std::string& call, const Json& body) {
  return expected(impl_->ask(call, "", &body), impl_->address, call);
}

}  // namespace combu
