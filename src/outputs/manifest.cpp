#include "outputs/manifest.hpp"

#include <algorithm>

namespace combu::outputs {
namespace {

std::string name_in(std::string_view line) {
  const bool is_escaped = line.starts_with('\\');
  const std::size_t blanks = line.find("  ");
  if (blanks == std::string_view::npos) return "";
  const std::string_view name = line.substr(blanks + 2);
  if (!is_escaped) return std::string(name);
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

std::set<std::string> names_in_manifest(std::string_view text) {
  std::set<std::string> names;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) names.insert(name_in(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return names;
}

}  // namespace combu::outputs
