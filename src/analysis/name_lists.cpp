#include <fmt/format.h>

#include <algorithm>

#include "combu/analysis.hpp"

namespace combu {
namespace {

// Removes the next name from the front of `rest` and returns it. A name ends at a comma, or is in
// single or double quotes.
std::string take_name(std::string_view& rest, std::string_view option) {
  if (!rest.starts_with('"') && !rest.starts_with('\'')) {
    std::string name(rest.substr(0, rest.find(',')));
    rest.remove_prefix(name.size());
    return name;
  }
  const std::size_t end = rest.find(rest.front(), 1);
  if (end == std::string_view::npos || (end + 1 < rest.size() && rest[end + 1] != ','))
    throw Error(
        ErrorKind::invalid, std::string(option),
        fmt::format("{}: a name that begins with a quote must also end with this quote", shortened(rest)));
  std::string name(rest.substr(1, end - 1));
  rest.remove_prefix(end + 1);
  return name;
}

}  // namespace

std::vector<std::string> names_in(const std::vector<std::string>& lists, std::string_view option) {
  std::vector<std::string> names;
  for (std::string_view rest : lists) {
    while (true) {
      names.push_back(take_name(rest, option));
      if (names.back().empty())
        throw Error(ErrorKind::invalid, std::string(option), "commas must separate names; one name is empty");
      if (std::count(names.begin(), names.end(), names.back()) > 1)
        throw Error(ErrorKind::invalid, std::string(option),
                    fmt::format("`{}` is named twice", names.back()));
      if (rest.empty()) break;
      rest.remove_prefix(1);
    }
  }
  return names;
}

}  // namespace combu
