#include "outputs/s3_entries.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <utility>

#include "combu/json.hpp"

namespace combu::outputs {
namespace {

constexpr std::array<std::pair<OutputEntry::Kind, std::string_view>, 4> k_kinds{
    {{OutputEntry::Kind::folder, "folder"},
     {OutputEntry::Kind::file, "file"},
     {OutputEntry::Kind::symbolic_link, "symbolic_link"},
     {OutputEntry::Kind::hard_link, "hard_link"}}};

// True if `text` starts with an escape that as_key() writes: %XX for a byte that is not UTF-8, or %25 for a
// `%`.
bool looks_escaped(std::string_view text) {
  constexpr std::string_view k_high = "89ABCDEF";
  constexpr std::string_view k_digits = "0123456789ABCDEF";
  if (text.size() < 3 || text[0] != '%') return false;
  return text.substr(1, 2) == "25" ||
         (k_high.find(text[1]) != std::string_view::npos && k_digits.find(text[2]) != std::string_view::npos);
}

std::string in_hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

// Returns the modification time as seconds since 1970 with nine decimals.
std::string mtime_of(const OutputEntry& entry) {
  const auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(entry.modified.time_since_epoch());
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since);
  return fmt::format("{}.{:09}", seconds.count(), (since - seconds).count());
}
std::string mode_of(const OutputEntry& entry) {
  return fmt::format("{:04o}", entry.mode);
}

template <class Number>
Number number(std::string_view text, int base) {
  Number value{};
  std::from_chars(text.begin(), text.end(), value, base);
  return value;
}

// Parses seconds since 1970 with decimals. Decimals beyond nanoseconds are ignored.
Instant read_mtime(std::string_view text) {
  constexpr std::size_t k_decimals = 9;
  const std::size_t point = std::min(text.find('.'), text.size());
  std::string decimals(text.substr(std::min(point + 1, text.size())));
  decimals.resize(k_decimals, '0');
  const std::string_view whole = text.substr(0, point);
  std::int64_t seconds = 0;
  if (std::from_chars(whole.begin(), whole.end(), seconds).ec == std::errc::result_out_of_range)
    seconds = whole.starts_with('-') ? INT64_MIN : INT64_MAX;
  return file_time(seconds, number<std::int64_t>(decimals, 10));
}

// Returns the value of the field `name`. If the value is not UTF-8, the field NAME_bytes contains the value's
// bytes in hexadecimal.
std::string read_text(const nlohmann::json& line, const std::string& name) {
  const auto bytes = line.find(name + "_bytes");
  if (bytes == line.end()) return line.value(name, "");
  const auto hex = bytes->get<std::string>();
  std::string text;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    text += static_cast<char>(number<unsigned>(std::string_view(hex).substr(i, 2), 16));
  return text;
}

OutputEntry read_entry(std::string_view text) {
  const auto line = parse_json(text);
  const std::string kind = line.at("kind");
  const auto* const known =
      std::ranges::find(k_kinds, kind, &std::pair<OutputEntry::Kind, std::string_view>::second);
  if (known == k_kinds.end()) throw Error(ErrorKind::corrupt, "", kind);
  return {.kind = known->first,
          .path = read_text(line, "path"),
          .target = read_text(line, "target"),
          .mode = number<unsigned>(line.value("mode", "0777"), 8),
          .modified = read_mtime(line.value("mtime", ""))};
}

}  // namespace

std::string as_key(std::string_view path) {
  std::string key;
  while (!path.empty()) {
    const auto character = looks_escaped(path) ? std::nullopt : first_character(path);
    if (character)
      key += path.substr(0, character->bytes);
    else
      key += fmt::format("%{:02X}", static_cast<unsigned char>(path.front()));
    path.remove_prefix(character.value_or(Character{}).bytes);
  }
  return key;
}

S3Client::Headers headers_of(const OutputEntry& entry) {
  return {{"content-type", "application/octet-stream"},
          {"x-amz-meta-mode", mode_of(entry)},
          {"x-amz-meta-mtime", mtime_of(entry)}};
}

OutputEntry file_entry(std::string path, const S3Object& object) {
  return {.path = std::move(path),
          .mode = object.mode.empty() ? 0644 : number<unsigned>(object.mode, 8),
          .modified = read_mtime(object.mtime),
          .size = object.size};
}

std::string entry_line(const OutputEntry& entry) {
  const auto* const kind =
      std::ranges::find(k_kinds, entry.kind, &std::pair<OutputEntry::Kind, std::string_view>::first);
  nlohmann::ordered_json line{{"path", as_key(entry.path)}, {"kind", kind->second}};
  if (line["path"] != entry.path) line["path_bytes"] = in_hex(entry.path);
  if (!entry.target.empty()) {
    line["target"] = as_key(entry.target);
    if (line["target"] != entry.target) line["target_bytes"] = in_hex(entry.target);
  }
  if (entry.kind != OutputEntry::Kind::symbolic_link) line["mode"] = mode_of(entry);
  line["mtime"] = mtime_of(entry);
  return json_text(line) + "\n";
}

std::vector<OutputEntry> read_entries(std::string_view text) {
  std::vector<OutputEntry> entries;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    try {
      if (!line.empty()) entries.push_back(read_entry(line));
    } catch (const std::exception&) {
      throw Error(ErrorKind::corrupt, std::string(k_entries_name), "cannot be read: " + shortened(line));
    }
  }
  return entries;
}

}  // namespace combu::outputs
