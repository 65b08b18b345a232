#include "registry/client.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <ranges>
#include <string_view>
#include <utility>

#include "combu/json.hpp"

namespace combu::registry {
namespace {

using nlohmann::json;

constexpr int k_redirects_max = 5;
constexpr int k_ok = 200;
constexpr int k_unauthorized = 401;
constexpr int k_forbidden = 403;
constexpr int k_not_found = 404;
constexpr int k_too_many = 429;
constexpr std::size_t k_token_answer_max = std::size_t{1} << 20U;

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

// Returns the host that serves the API.
std::string api_host(const std::string& registry) {
  return registry == "docker.io" ? "registry-1.docker.io" : registry;
}

bool is_valid(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-' || c == ':';
  });
}

bool is_valid_repository(std::string_view repository) {
  for (const auto part : std::views::split(repository, '/'))
    if (const std::string_view text(part.begin(), part.end()); !is_valid(text) || text == "." || text == "..")
      return false;
  return !repository.empty();
}

// Returns the URL of the repository, with a slash at its end.
Url url_of(const ImageReference& reference) {
  const std::string host = api_host(reference.registry);
  const std::string repository = reference.repository();
  auto url = Url::parse(
      fmt::format("{}://{}/v2/{}/", is_loopback(reference.registry) ? "http" : "https", host, repository));
  if (!is_valid_repository(repository) || !is_valid(reference.tag) || !url || url->host() != host)
    throw Error(ErrorKind::invalid, "", "the image's name must have the form [REGISTRY/]NAME[:TAG|@DIGEST]");
  return *std::move(url);
}

bool is_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
}

std::string basic_authorization(const Login& login) {
  return "Authorization: Basic " + encode_base64(fmt::format("{}:{}", login.user, login.password));
}

std::string parameter_of(const Challenge& challenge, const std::string& name) {
  const auto found = challenge.parameters.find(name);
  return found == challenge.parameters.end() ? "" : found->second;
}

}  // namespace

bool is_loopback(std::string_view host) {
  std::string name(host.starts_with('[') ? host.substr(1, host.find(']') - 1)
                                         : host.substr(0, host.find(':')));
  if (name == "localhost") return true;
  std::array<unsigned char, 16> address{};
  if (::inet_pton(AF_INET, name.c_str(), address.data()) == 1) return address[0] == 127;
  if (::inet_pton(AF_INET6, name.c_str(), address.data()) != 1) return false;
  return std::all_of(address.begin(), address.end() - 1, [](unsigned char c) { return c == 0; }) &&
         address.back() == 1;
}

Client::Client(const ImageReference& reference, const Login& login, const Limits& limits,
               std::stop_token stop)
    : reference_(reference),
      login_(login),
      stop_(std::move(stop)),
      deadline_{.connect_max = limits.connect_max,
                .total_max = limits.total_max,
                .end = std::chrono::steady_clock::now() +
                       std::chrono::ceil<std::chrono::steady_clock::duration>(limits.total_max)},
      name_("the registry " + reference.registry),
      base_(url_of(reference)) {}

WebAnswer Client::get(const std::string& path, const std::vector<std::string>& headers,
                      std::size_t body_max) {
  const auto url = Url::parse(base_.text() + path);
  if (!url) throw Error(ErrorKind::invalid, "", "the image's name is malformed");
  WebAnswer answer = follow(*url, headers, body_max);
  if (answer.status == k_unauthorized && authorization_.empty()) {
    authenticate(answer);
    answer = follow(*url, headers, body_max);
  }
  if (answer.status != k_ok) explain(answer);
  return answer;
}

WebAnswer Client::follow(const Url& begin, const std::vector<std::string>& headers, std::size_t body_max) {
  Url url = begin;
  for (int redirects = 0;; ++redirects) {
    WebRequest request{.url = url, .headers = headers, .body_max = body_max};
    if (url.has_same_origin(base_) && !authorization_.empty()) request.headers.push_back(authorization_);
    WebAnswer answer = transfer(request, deadline_, stop_);
    if (!is_redirect(answer.status)) return answer;
    const auto next = Url::parse(answer.location, &url);
    if (!next || redirects == k_redirects_max)
      throw Error(ErrorKind::corrupt, "",
                  next ? fmt::format("{} redirects more than {} times", name_, k_redirects_max)
                       : fmt::format("{} redirects to an invalid URL", name_));
    expect_permitted(*next, "redirects");
    url = *next;
  }
}

void Client::expect_permitted(const Url& url, const std::string& what) const {
  if (url.is_encrypted() || (!base_.is_encrypted() && is_loopback(url.host()))) return;
  throw Error(
      ErrorKind::refused, "",
      fmt::format("{} {} to {} without encryption, which combu does not permit", name_, what, url.host()));
}

void Client::authenticate(const WebAnswer& refusal) {
  const Challenge* basic = nullptr;
  std::vector<Challenge> challenges;
  for (const std::string& value : refusal.challenges)
    std::ranges::move(parse_challenges(value), std::back_inserter(challenges));
  for (const Challenge& challenge : challenges) {
    if (challenge.scheme == "bearer") {
      authorization_ = "Authorization: Bearer " + fetch_token(challenge);
      return;
    }
    if (challenge.scheme == "basic") basic = &challenge;
  }
  if (basic == nullptr || login_.user.empty()) explain(refusal);
  authorization_ = basic_authorization(login_);
}

std::string Client::fetch_token(const Challenge& challenge) {
  const auto realm = Url::parse(parameter_of(challenge, "realm"));
  if (!realm) throw Error(ErrorKind::corrupt, "", fmt::format("{} names no valid token server", name_));
  expect_permitted(*realm, "refers for a token");
  const WebAnswer answer = ask_token_server(*realm, challenge);
  if (answer.status != k_ok) explain(answer);
  const json body = parse_json_or_discard(answer.body);
  std::string token(text_of(body, "token"));
  if (token.empty()) token = text_of(body, "access_token");
  if (!is_token(token))
    throw Error(ErrorKind::corrupt, "",
                fmt::format("the token server {} of {} has sent no valid token", realm->host(), name_));
  return token;
}

WebAnswer Client::ask_token_server(const Url& realm, const Challenge& challenge) {
  std::string scope = parameter_of(challenge, "scope");
  if (scope.empty()) scope = fmt::format("repository:{}:pull", reference_.repository());
  Parameters parameters{{"service", parameter_of(challenge, "service")}, {"scope", std::move(scope)}};
  if (!login_.identity_token.empty()) {
    parameters.insert(
        parameters.end(),
        {{"client_id", "combu"}, {"grant_type", "refresh_token"}, {"refresh_token", login_.identity_token}});
    return transfer({.url = realm, .form = encoded(parameters), .body_max = k_token_answer_max}, deadline_,
                    stop_);
  }
  const char separator = realm.text().find('?') == std::string::npos ? '?' : '&';
  const auto url = Url::parse(fmt::format("{}{}{}", realm.text(), separator, encoded(parameters)));
  if (!url) throw Error(ErrorKind::corrupt, "", fmt::format("{} names no valid token server", name_));
  WebRequest request{.url = *url, .body_max = k_token_answer_max};
  if (!login_.user.empty()) request.headers.push_back(basic_authorization(login_));
  return transfer(request, deadline_, stop_);
}

std::string Client::login_command() const {
  return reference_.registry == "docker.io" ? "docker login" : "docker login " + reference_.registry;
}

void Client::explain(const WebAnswer& answer) const {
  const int status = answer.status;
  if (status == k_unauthorized || status == k_forbidden) {
    const std::string text =
        login_.is_anonymous()
            ? fmt::format(
                  "{} requires a login (status {}), or it has no such image; check `image`, and log in with "
                  "`{}`",
                  name_, status, login_command())
            : fmt::format(
                  "{} refuses the credentials (status {}), or it has no such image; check `image`, and log "
                  "in again with `{}`",
                  name_, status, login_command());
    throw Error(ErrorKind::refused, "", text);
  }
  if (status == k_not_found)
    throw Error(
        ErrorKind::not_found, "",
        fmt::format("{} has no such image (status {}); correct `image`, or push the image", name_, status));
  if (status == k_too_many)
    throw Error(
        ErrorKind::unavailable, "",
        fmt::format("{} permits no more requests at present (status {}); log in with `{}`, or try again "
                    "later",
                    name_, status, login_command()));
  throw Error(ErrorKind::unavailable, "",
              fmt::format("{} has answered with the status {}; try again later", name_, status));
}

}  // namespace combu::registry
