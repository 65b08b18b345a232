#include "jsonnet/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "jsonnet/identifier.hpp"
#include "jsonnet/importer.hpp"

namespace combu {
namespace {

constexpr std::size_t k_trace_lines_max = 8;

// FILE:L:C, FILE:L:C-C2 or FILE:(L:C)-(L2:C2), as libjsonnet's LocationRange writes them
// (core/static_error.h).
struct Place {
  std::string_view file;
  std::size_t line = 0;
  std::size_t column = 0;
};

bool take(std::string_view& rest, char wanted) {
  if (rest.empty() || rest.front() != wanted) return false;
  rest.remove_prefix(1);
  return true;
}

bool take(std::string_view& rest, std::size_t& number) {
  const auto [end, fault] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (fault != std::errc{}) return false;
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  return true;
}

// Takes a place from the front of `rest`. A file's name may itself hold colons: the first one after which
// numbers follow counts.
std::optional<Place> take_place(std::string_view& rest) {
  const std::size_t line_end = std::min(rest.find('\n'), rest.size());
  for (std::size_t colon = rest.find(':'); colon < line_end; colon = rest.find(':', colon + 1)) {
    Place place{rest.substr(0, colon), 0, 0};
    std::string_view after = rest.substr(colon + 1);
    std::size_t other = 0;
    const bool many_lines = take(after, '(');
    if (!take(after, place.line) || !take(after, ':') || !take(after, place.column)) continue;
    if (many_lines) {
      if (!take(after, ')') || !take(after, '-') || !take(after, '(') || !take(after, other) ||
          !take(after, ':') || !take(after, other) || !take(after, ')')) {
        continue;
      }
    } else if (take(after, '-') && !take(after, other)) {
      continue;
    }
    rest = after;
    return place;
  }
  return std::nullopt;
}

std::string_view without_prefix(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix ? text.substr(prefix.size()) : text;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view k_blank = " \t\n";
  const std::size_t first = text.find_first_not_of(k_blank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(k_blank) - first + 1);
}

std::string text_of(const Place& place, std::string_view file, const Columns& columns) {
  const std::size_t column = place.file == file ? columns.original(place.line, place.column) : place.column;
  return fmt::format("{}:{}:{}", place.file, place.line, column);
}

struct Trace {
  std::string message;
  std::vector<std::string> places;  // the innermost first, each with what was evaluated there
};

std::string describe(std::string_view line, std::string_view file, const Columns& columns) {
  const auto place = take_place(line);
  // The libraries that come with the program say nothing about the person's file; its own place is further
  // down.
  if (!place || place->file == "std.jsonnet" || place->file == "<std>" || place->file == k_embedded_path)
    return {};
  const std::string_view what = trimmed(line);
  return text_of(*place, file, columns) + (what.empty() ? "" : fmt::format(" ({})", what));
}

// The stack is the tail of lines that begin with a tab; before it is the message, which may have lines of its
// own.
Trace split(std::string_view account, std::string_view file, const Columns& columns) {
  std::vector<std::string_view> lines;
  while (!account.empty()) {
    const std::size_t end = std::min(account.find('\n'), account.size());
    lines.push_back(account.substr(0, end));
    account.remove_prefix(std::min(end + 1, account.size()));
  }
  std::size_t stack = lines.size();
  while (stack > 0 && take(lines[stack - 1], '\t')) --stack;
  Trace trace;
  for (std::size_t i = 0; i < stack; ++i) trace.message += fmt::format("{}{}", i == 0 ? "" : "\n", lines[i]);
  for (std::size_t i = stack; i < lines.size(); ++i) {
    std::string text = describe(lines[i], file, columns);
    const bool repeated = !trace.places.empty() && trace.places.back() == text;
    if (!text.empty() && !repeated) trace.places.push_back(std::move(text));
  }
  return trace;
}

Error explain_static(std::string_view account, std::string_view file, const Columns& columns) {
  std::string_view rest = account;
  const auto place = take_place(rest);
  if (!place) return {ErrorKind::invalid, std::string(file), std::string(trimmed(account))};
  return {ErrorKind::invalid, text_of(*place, file, columns),
          std::string(trimmed(without_prefix(rest, ":")))};
}

// What a person who has only forgotten an argument types. libjsonnet has no place for what is wrong with the
// call of the file itself (core/vm.cpp).
std::string hint_for(std::string_view message, bool has_place) {
  constexpr std::string_view k_external = "undefined external variable: ";
  if (message.starts_with(k_external))
    return fmt::format("; give it with -V {}=VALUE", message.substr(k_external.size()));
  if (message == "max stack frames exceeded.")
    return " Look for a recursion without an end; long lists and texts are made by an array comprehension, "
           "std.join or "
           "std.foldl";
  constexpr std::string_view k_parameter = "function parameter ";
  constexpr std::string_view k_unbound = " not bound in call.";
  if (has_place || !message.starts_with(k_parameter) || !message.ends_with(k_unbound)) return {};
  message.remove_prefix(k_parameter.size());
  message.remove_suffix(k_unbound.size());
  return fmt::format(" The file is a function: give it with -A {}=VALUE", message);
}

}  // namespace

Columns::Columns(std::string_view source, const std::vector<std::size_t>& places,
                 std::size_t identifier_length)
    : identifier_length_(identifier_length) {
  std::size_t line = 1;
  std::size_t line_begin = 0;
  for (const std::size_t place : places) {
    for (std::size_t end = source.find('\n', line_begin); end < place; end = source.find('\n', line_begin)) {
      ++line;
      line_begin = end + 1;
    }
    places_.push_back({line, place - line_begin + 1});
  }
}

std::size_t Columns::original(std::size_t line, std::size_t column) const {
  const auto first =
      std::lower_bound(places_.begin(), places_.end(), line,
                       [](const Place& place, std::size_t wanted) { return place.line < wanted; });
  for (auto place = first; place != places_.end() && place->line == line && column > place->column; ++place) {
    if (column < place->column + identifier_length_) return place->column;
    column = column - identifier_length_ + k_identifier.size();
  }
  return column;
}

Error explain(std::string_view account, std::string_view file, const Columns& columns) {
  constexpr std::string_view k_static = "STATIC ERROR: ";
  if (account.substr(0, k_static.size()) == k_static) {
    return explain_static(account.substr(k_static.size()), file, columns);
  }
  const Trace trace = split(without_prefix(account, "RUNTIME ERROR: "), file, columns);
  std::string message = trace.message + hint_for(trace.message, !trace.places.empty());
  if (trace.places.empty()) return {ErrorKind::invalid, std::string(file), std::move(message)};
  const std::string& innermost = trace.places.front();
  for (std::size_t i = 1; i < std::min(trace.places.size(), k_trace_lines_max + 1); ++i) {
    message += "\n  from " + trace.places[i];
  }
  return {ErrorKind::invalid, innermost.substr(0, innermost.find(" (")), std::move(message)};
}

}  // namespace combu
