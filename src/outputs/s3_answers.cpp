#include "outputs/s3_answers.hpp"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace combu::outputs {
namespace {

// Decodes %XX, and `+` to a blank, as in HTML forms.
std::string decoded(std::string text) {
  std::ranges::replace(text, '+', ' ');
  int size = 0;
  const std::unique_ptr<char, decltype(&curl_free)> plain(
      curl_easy_unescape(nullptr, text.c_str(), static_cast<int>(text.size()), &size), &curl_free);
  return plain ? std::string(plain.get(), static_cast<std::size_t>(size)) : text;
}

// Returns the character of an XML entity. Returns nullopt for entities beyond ASCII: servers write such
// characters directly.
std::optional<char> character(std::string_view entity) {
  constexpr std::array<std::pair<std::string_view, char>, 5> k_named{
      {{"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}, {"amp", '&'}}};
  for (const auto& [name, letter] : k_named)
    if (entity == name) return letter;
  if (!entity.starts_with('#')) return std::nullopt;
  const bool is_hex = entity.starts_with("#x");
  entity.remove_prefix(is_hex ? 2 : 1);
  unsigned value = 0;
  const auto [end, fault] = std::from_chars(entity.begin(), entity.end(), value, is_hex ? 16 : 10);
  constexpr unsigned k_ascii_max = 127;
  if (fault != std::errc() || end != entity.end() || value > k_ascii_max) return std::nullopt;
  return static_cast<char>(value);
}

std::string without_entities(std::string_view text) {
  constexpr std::size_t k_entity_max = 16;
  std::string plain;
  while (!text.empty()) {
    const std::size_t end =
        text.front() == '&' ? text.substr(0, k_entity_max).find(';') : std::string_view::npos;
    const auto letter = end == std::string_view::npos ? std::nullopt : character(text.substr(1, end - 1));
    plain += letter.value_or(text.front());
    text.remove_prefix(letter ? end + 1 : 1);
  }
  return plain;
}

// Returns the text between <NAME> and </NAME>, searching from `at` on, and moves `at` to the end of that
// text. The function finds only elements without attributes, because the elements that combu reads have none.
std::optional<std::string_view> next_element(std::string_view xml, std::string_view name, std::size_t& at) {
  const std::string open = fmt::format("<{}>", name);
  const std::size_t from = xml.find(open, at);
  if (from == std::string_view::npos) return std::nullopt;
  const std::size_t to = xml.find(fmt::format("</{}>", name), from);
  if (to == std::string_view::npos) return std::nullopt;
  at = to;
  return xml.substr(from + open.size(), to - from - open.size());
}

std::int64_t number(std::string_view text) {
  std::int64_t value = 0;
  std::from_chars(text.begin(), text.end(), value);
  return value;
}

// Normalizes a UTC timestamp so that timestamps can be compared as text. Servers write different numbers of
// decimals.
std::string without_last_zeros(std::string time) {
  if (time.ends_with('Z')) time.pop_back();
  if (time.find('.') == std::string::npos) return time;
  time.erase(time.find_last_not_of('0') + 1);
  if (time.ends_with('.')) time.pop_back();
  return time;
}

}  // namespace

std::string element(std::string_view xml, std::string_view name) {
  std::size_t at = 0;
  return without_entities(next_element(xml, name, at).value_or(""));
}

S3Page read_page(std::string_view xml) {
  S3Page page;
  // Some servers ignore the request to encode keys.
  const bool is_encoded = element(xml, "EncodingType") == "url";
  std::size_t at = 0;
  while (const auto contents = next_element(xml, "Contents", at)) {
    const std::string key = element(*contents, "Key");
    page.objects.push_back({.key = is_encoded ? decoded(key) : key,
                            .size = number(element(*contents, "Size")),
                            .written = without_last_zeros(element(*contents, "LastModified"))});
  }
  if (element(xml, "IsTruncated") == "true") page.next = element(xml, "NextContinuationToken");
  return page;
}

}  // namespace combu::outputs
