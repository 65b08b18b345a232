#include "outputs/manifest.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace combu::outputs {
namespace {

// Escapes as sha256sum does (coreutils: src/cksum.c).
std::string escaped(std::string_view path) {
  std::string name;
  for (const char letter : path) {
    if (letter == '\\') {
      name += "\\\\";
    } else if (letter == '\n') {
      name += "\\n";
    } else if (letter == '\r') {
      name += "\\r";
    } else {
      name += letter;
    }
  }
  return name;
}

std::string unescaped(std::string_view name) {
  std::string plain;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] != '\\' || i + 1 == name.size()) {
      plain += name[i];
      continue;
    }
    ++i;
    plain += name[i] == 'n' ? '\n' : name[i] == 'r' ? '\r' : name[i];
  }
  return plain;
}

}  // namespace

std::string manifest_of(const Checksums& sums) {
  std::string text;
  for (const auto& [path, digest] : sums) {
    const std::string name = escaped(path);
    text += fmt::format("{}{}  {}\n", name == path ? "" : "\\", digest, name);
  }
  return text;
}

Checksums sums_in_manifest(std::string_view text) {
  Checksums sums;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const bool is_escaped = line.starts_with('\\');
    if (is_escaped) line.remove_prefix(1);
    const std::size_t blanks = line.find("  ");
    if (blanks == std::string_view::npos) continue;
    const std::string_view name = line.substr(blanks + 2);
    sums.emplace(is_escaped ? unescaped(name) : std::string(name), line.substr(0, blanks));
  }
  return sums;
}

}  // namespace combu::outputs
