#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "combu/spec.hpp"

namespace combu {
namespace {

// The first match counts, so an operator must precede its own prefixes, as "==" precedes "=".
constexpr std::array<std::pair<std::string_view, Filter::Relation>, 7> k_relations{
    {{"==", Filter::Relation::equal},
     {"!=", Filter::Relation::not_equal},
     {"<=", Filter::Relation::at_most},
     {">=", Filter::Relation::at_least},
     {"=", Filter::Relation::equal},
     {"<", Filter::Relation::less},
     {">", Filter::Relation::greater}}};

constexpr std::string_view k_blanks = " \t\n";
constexpr std::string_view k_ends_name = " \t\n\"'=!<>&|";
// The character `!` does not end a value, because a pattern such as [!0] may contain it.
constexpr std::string_view k_ends_value = " \t\n\"'=<>&|";
constexpr std::string_view k_form =
    "write NAME=VALUE (or != < <= > >= instead of =), and join several conditions by &&";

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

bool is_order(Filter::Relation relation) {
  return relation != Filter::Relation::equal && relation != Filter::Relation::not_equal;
}

// True if the relation holds between `value` and `wanted`. Throws Error(invalid) if <, <=, > or >= compares a
// number with text that is not a number, because the user probably made a mistake.
bool holds(const std::string& name, const std::string& value, Filter::Relation relation,
           const std::string& wanted) {
  const auto is_nan = [](const std::optional<double>& one) { return one && std::isnan(*one); };
  auto left = parse_number<double>(value);
  if (is_nan(left) && is_order(relation)) return false;
  auto right = parse_number<double>(wanted);
  // As a number, NaN is not even equal to itself, so NaN is compared as text.
  if (is_nan(left)) left.reset();
  if (is_nan(right)) right.reset();
  if (left && right) return holds(*left <=> *right, relation);
  if (left && is_order(relation))
    throw Error(ErrorKind::invalid, "",
                fmt::format("`{}` is {}, a number, and cannot be compared with \"{}\", which is not a number",
                            shortened(name), value, shortened(wanted)));
  const bool equal = fnmatch(wanted.c_str(), value.c_str(), 0) == 0;
  if (relation == Filter::Relation::equal) return equal;
  if (relation == Filter::Relation::not_equal) return !equal;
  return holds(value <=> wanted, relation);
}

// Returns a hint about an unknown operator.
std::string_view operator_hint(std::string_view text) {
  if (text.starts_with("=<")) return "write <= for \"at most\"";
  if (text.starts_with("=>")) return "write >= for \"at least\"";
  if (text.starts_with("<>")) return "write != for \"not equal\"";
  return k_form;
}

// Returns a hint about text between a name and its operator.
std::string_view relation_hint(std::string_view text) {
  const std::size_t at = text.find_first_of("=<>");
  const bool is_name = at != std::string_view::npos && text.find_first_of("!&|") >= at;
  return is_name ? "a name with blanks or operators must be in quotes" : k_form;
}

// Returns a hint about text between a value and the next term.
std::string_view joint_hint(std::string_view text) {
  const std::string_view word = text.substr(0, text.find_first_of(k_blanks));
  if (text.starts_with('|') || word == "or") return "conditions can be joined only by &&; there is no `or`";
  if (text.starts_with('&') || word == "and" || text.find_first_of("=<>") != std::string_view::npos)
    return "conditions must be joined by &&";
  return "a value with blanks or operators must be in quotes";
}

// Reads a condition from left to right.
class TermReader {
 public:
  explicit TermReader(std::string_view text) : rest_(text) {}

  // Consumes the `&&` before the next term. Returns false if there is no next term.
  bool more() {
    skip_blanks();
    if (rest_.empty()) return false;
    if (!rest_.starts_with("&&")) fail(joint_hint(rest_));
    rest_.remove_prefix(2);
    return true;
  }

  std::string name() {
    skip_blanks();
    term_ = rest_;
    std::string name = is_quote() ? quoted() : std::string(until(k_ends_name));
    if (name.empty()) fail(k_form);
    return name;
  }

  Filter::Relation relation() {
    skip_blanks();
    const auto* found =
        std::ranges::find_if(k_relations, [&](const auto& known) { return rest_.starts_with(known.first); });
    if (found == k_relations.end()) fail(relation_hint(rest_));
    const std::string_view from = rest_;
    rest_.remove_prefix(found->first.size());
    if (rest_.find_first_of("=<>") == 0) fail(operator_hint(from));
    return found->second;
  }

  std::string value() {
    skip_blanks();
    if (is_quote()) return quoted();
    const std::string_view value = until(k_ends_value);
    if (value.empty()) fail(k_form);
    return std::string(value);
  }

 private:
  [[nodiscard]] bool is_quote() const { return rest_.starts_with('"') || rest_.starts_with('\''); }
  void skip_blanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(k_blanks), rest_.size())); }

  std::string_view until(std::string_view ends) {
    const std::string_view read = rest_.substr(0, rest_.find_first_of(ends));
    rest_.remove_prefix(read.size());
    return read;
  }

  std::string quoted() {
    const std::size_t end = rest_.find(rest_.front(), 1);
    if (end == std::string_view::npos) fail("a quote is not closed");
    std::string value(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return value;
  }

  [[noreturn]] void fail(std::string_view hint) const {
    throw Error(ErrorKind::invalid, "",
                fmt::format("\"{}\" is not a condition: {}", shortened(trimmed(term_)), hint));
  }

  std::string_view rest_;
  std::string_view term_;  // the rest of the condition, from the current term on
};

}  // namespace

Filter::Filter(std::string_view text) {
  TermReader reader(text);
  do {
    // Separate statements ensure that the name is read before the relation.
    std::string name = reader.name();
    const Relation relation = reader.relation();
    terms_.push_back({std::move(name), relation, reader.value()});
  } while (reader.more());
}

bool Filter::matches(const Lookup& lookup) const {
  bool all = true;
  for (const Term& term : terms_) {
    // Look up the name of every term, so that `lookup` can throw for an unknown name in any position.
    const std::optional<std::string> value = lookup(term.name, term.value);
    all = all && (value ? holds(term.name, *value, term.relation, term.value)
                        : term.relation == Relation::not_equal);
  }
  return all;
}

}  // namespace combu
