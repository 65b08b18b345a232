#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "combu/spec.hpp"

namespace combu {
namespace {

// The longer of two that begin alike comes first.
constexpr std::array<std::pair<std::string_view, Filter::Relation>, 7> k_relations{
    {{"==", Filter::Relation::equal},
     {"!=", Filter::Relation::not_equal},
     {"<=", Filter::Relation::at_most},
     {">=", Filter::Relation::at_least},
     {"=", Filter::Relation::equal},
     {"<", Filter::Relation::less},
     {">", Filter::Relation::greater}}};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view k_blank = " \t\n";
  const std::size_t first = text.find_first_not_of(k_blank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(k_blank) - first + 1);
}

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string_view unquoted(std::string_view text) {
  const bool quoted =
      text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front();
  return quoted ? text.substr(1, text.size() - 2) : text;
}

bool holds(std::partial_ordering order, Filter::Relation relation) {
  switch (relation) {
    case Filter::Relation::equal:
      return order == 0;
    case Filter::Relation::not_equal:
      return order != 0;
    case Filter::Relation::less:
      return order < 0;
    case Filter::Relation::at_most:
      return order <= 0;
    case Filter::Relation::greater:
      return order > 0;
    case Filter::Relation::at_least:
      return order >= 0;
  }
  return false;
}

bool holds(const std::string& value, Filter::Relation relation, const std::string& wanted) {
  const auto left = number(value);
  const auto right = number(wanted);
  if (left && right) return holds(*left <=> *right, relation);
  const bool equal = fnmatch(wanted.c_str(), value.c_str(), 0) == 0;
  if (relation == Filter::Relation::equal) return equal;
  if (relation == Filter::Relation::not_equal) return !equal;
  return holds(value <=> wanted, relation);
}

}  // namespace

Filter::Filter(std::string_view text) {
  std::string_view rest = text;
  while (true) {
    const std::size_t end = rest.find("&&");
    const std::string_view term = trimmed(rest.substr(0, end));
    const std::size_t at = term.find_first_of("=!<>");
    const std::string_view name = trimmed(term.substr(0, at));
    const std::string_view behind = at == std::string_view::npos ? std::string_view() : term.substr(at);
    const auto* relation =
        std::ranges::find_if(k_relations, [&](const auto& known) { return behind.starts_with(known.first); });
    const std::string_view value =
        relation == k_relations.end() ? std::string_view() : trimmed(behind.substr(relation->first.size()));
    if (name.empty() || value.empty())
      throw Error(
          ErrorKind::invalid, "",
          fmt::format("\"{}\" is no condition: NAME=VALUE, or with != < <= > >=, several joined by &&",
                      shortened(term)));
    terms_.push_back({std::string(name), relation->second, std::string(unquoted(value))});
    if (end == std::string_view::npos) return;
    rest.remove_prefix(end + 2);
  }
}

bool Filter::matches(const Lookup& lookup) const {
  return std::ranges::all_of(terms_, [&](const Term& term) {
    const std::optional<std::string> value = lookup(term.name, term.value);
    return value ? holds(*value, term.relation, term.value) : term.relation == Relation::not_equal;
  });
}

}  // namespace combu
