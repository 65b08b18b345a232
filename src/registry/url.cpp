#include "registry/url.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <new>

namespace combu::registry {
namespace {

using Handle = std::unique_ptr<CURLU, decltype(&curl_url_cleanup)>;

std::string part_of(CURLU* url, CURLUPart part, unsigned int flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, flags) != CURLUE_OK) return "";
  std::string copy = text;
  curl_free(text);
  return copy;
}

std::string in_lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

}  // namespace

std::optional<Url> Url::parse(const std::string& text, const Url* base) {
  const Handle handle(curl_url(), &curl_url_cleanup);
  if (!handle) throw std::bad_alloc();
  CURLU* const url = handle.get();
  if (base != nullptr && curl_url_set(url, CURLUPART_URL, base->text().c_str(), 0) != CURLUE_OK)
    return std::nullopt;
  if (curl_url_set(url, CURLUPART_URL, text.c_str(), CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK)
    return std::nullopt;
  Url parsed;
  parsed.text_ = part_of(url, CURLUPART_URL);
  parsed.scheme_ = part_of(url, CURLUPART_SCHEME);
  const std::string name = part_of(url, CURLUPART_HOST);
  const std::string port = part_of(url, CURLUPART_PORT);
  parsed.host_ = port.empty() ? name : fmt::format("{}:{}", name, port);
  parsed.origin_ = in_lower_case(
      fmt::format("{}://{}:{}", parsed.scheme_, name, part_of(url, CURLUPART_PORT, CURLU_DEFAULT_PORT)));
  const bool has_user = !part_of(url, CURLUPART_USER).empty() || !part_of(url, CURLUPART_PASSWORD).empty();
  if (name.empty() || has_user || (parsed.scheme_ != "https" && parsed.scheme_ != "http"))
    return std::nullopt;
  return parsed;
}

std::string encoded(const Parameters& parameters) {
  std::string text;
  for (const auto& [name, value] : parameters) {
    char* const escaped = curl_easy_escape(nullptr, value.c_str(), static_cast<int>(value.size()));
    if (escaped == nullptr) throw std::bad_alloc();
    text += fmt::format("{}{}={}", text.empty() ? "" : "&", name, escaped);
    curl_free(escaped);
  }
  return text;
}

}  // namespace combu::registry
