#include "jsonnet/trace.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "combu/jsonnet.hpp"
#include "jsonnet/excerpt.hpp"
#include "jsonnet/identifier.hpp"
#include "jsonnet/importer.hpp"
#include "jsonnet/tokens.hpp"
#include "jsonnet/unsupported_features.hpp"

namespace combu {
namespace {

constexpr std::size_t k_trace_lines_max = 8;

// A location in the form of libjsonnet's LocationRange (core/static_error.h): FILE:L:C, FILE:L:C-C2 or
// FILE:(L:C)-(L2:C2).
struct SourcePlace {
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

// Removes a place from the front of `rest` and returns it. The name of a file may contain colons, so the name
// ends at the first colon with numbers after it.
std::optional<SourcePlace> parse_place(std::string_view& rest) {
  const std::size_t line_end = std::min(rest.find('\n'), rest.size());
  for (std::size_t colon = rest.find(':'); colon < line_end; colon = rest.find(':', colon + 1)) {
    SourcePlace place{rest.substr(0, colon), 0, 0};
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
  return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
}

// A line of libjsonnet's stack trace, which has a tab, a place, and the function or value that contains the
// place. The innermost frame comes first.
struct Frame {
  SourcePlace place;  // line 0: unknown
  std::string_view inside;
};

struct Account {
  std::string message;
  std::vector<Frame> frames;
  std::string path;  // location in the result, for example "trials[3].command"
};

bool is_identifier(std::string_view name) {
  const auto is_letter = [](char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto is_allowed = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); };
  return !name.empty() && is_letter(name.front()) && std::ranges::all_of(name, is_allowed);
}

// Converts "array item 3" or "field <name>" to a part of a path. Returns nullopt for other lines.
std::optional<std::string> part_of_path(std::string_view line) {
  constexpr std::string_view k_item = "array item ";
  constexpr std::string_view k_field = "field <";
  if (line.starts_with(k_item)) return fmt::format("[{}]", line.substr(k_item.size()));
  if (!line.starts_with(k_field) || !line.ends_with('>')) return std::nullopt;
  const std::string_view name = line.substr(k_field.size(), line.size() - k_field.size() - 1);
  return is_identifier(name) ? fmt::format(".{}", name) : fmt::format("[\"{}\"]", name);
}

// True if the line can belong to the stack trace. False for a line that begins with a tab but belongs to the
// message.
bool is_of_stack(std::string_view line) {
  if (!take(line, '\t')) return false;
  std::string_view rest = line;
  return line.starts_with('\t') || parse_place(rest) || part_of_path(line) || line.starts_with("...") ||
         line.starts_with("During manifestation") || line.starts_with("Top-level function") ||
         line.starts_with("comparing ");
}

// In an error report, the stack trace consists of the last lines that begin with a tab. The message before
// the stack trace may have several lines.
Account read_account(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  std::size_t stack = lines.size();
  while (stack > 0 && is_of_stack(lines[stack - 1])) --stack;
  Account account;
  for (std::size_t i = 0; i < stack; ++i)
    account.message += fmt::format("{}{}", i == 0 ? "" : "\n", lines[i]);
  std::vector<std::string> parts;  // innermost first
  for (std::size_t i = stack; i < lines.size(); ++i) {
    std::string_view rest = lines[i].substr(1);
    if (auto part = part_of_path(rest)) {
      parts.push_back(*std::move(part));
      continue;
    }
    const SourcePlace place = parse_place(rest).value_or(SourcePlace{});
    account.frames.push_back({place, trimmed(rest)});
    // The parts found so far belong to a text that the file itself converted to JSON, not to the result.
    if (place.line > 0) parts.clear();
  }
  account.path = fmt::format("{}", fmt::join(parts.rbegin(), parts.rend(), ""));
  if (account.path.starts_with('.')) account.path.erase(0, 1);
  return account;
}

// False for a place in the libraries of Jsonnet and combu, which does not help the user. An outer frame has a
// place in the user's own file.
bool is_of_the_file(const Frame& frame) {
  const std::string_view file = frame.place.file;
  return frame.place.line > 0 && file != "std.jsonnet" && file != "<std>" && file != k_embedded_path;
}

// True if the frame is a function or a named value, because both have a caller. For objects and array items,
// messages show the location in the result instead.
bool is_called(const Frame& frame) {
  constexpr std::string_view k_item = "thunk <array_element>";
  constexpr std::string_view k_assert = "thunk <object_assert>";
  const bool is_thunk =
      frame.inside.starts_with("thunk <") && frame.inside != k_item && frame.inside != k_assert;
  return is_thunk || frame.inside.starts_with("function <");
}

// Returns the offset of the last `assert` that has not ended at the end of `text`, or nullopt if there is
// none.
std::optional<std::size_t> open_assert(std::string_view text) {
  struct Open {
    std::size_t begin;
    int depth;
    bool is_assert;  // true: an `assert`; false: a `local`, whose commas separate binds
  };
  std::vector<Open> open;
  int depth = 0;
  Tokens tokens(text);
  for (Token token = tokens.next(); token.kind != TokenKind::end; token = tokens.next()) {
    if (token.kind == TokenKind::name) {
      if (token.text == "assert" || token.text == "local")
        open.push_back(
            {static_cast<std::size_t>(token.text.data() - text.data()), depth, token.text == "assert"});
      continue;
    }
    if (token.kind == TokenKind::string) continue;
    const char symbol = token.text.front();
    if (symbol == '(' || symbol == '[' || symbol == '{') ++depth;
    if (symbol == ')' || symbol == ']' || symbol == '}') --depth;
    while (!open.empty() && open.back().depth > depth) open.pop_back();
    if (open.empty() || open.back().depth != depth) continue;
    if (symbol == ';' || (symbol == ',' && open.back().is_assert)) open.pop_back();
  }
  const auto last =
      std::ranges::find_if(std::views::reverse(open), [](const Open& one) { return one.is_assert; });
  return last == open.rend() ? std::nullopt : std::optional(last->begin);
}

// Returns the place where an assert begins. libjsonnet reports the place of the assert's message, or the
// place of its condition if the assert has no message.
SourcePlace begin_of_assert(SourcePlace place, Excerpts& excerpts) {
  const std::string_view before = excerpts.before(place.file, place.line, place.column);
  const auto at = open_assert(before);
  if (!at) return place;
  const std::string_view above = before.substr(0, *at);
  const auto lines = std::count(before.begin() + static_cast<std::ptrdiff_t>(*at), before.end(), '\n');
  return {place.file, place.line - static_cast<std::size_t>(lines), *at - (above.rfind('\n') + 1) + 1};
}

// Creates errors with places in the user's file instead of places in the evaluated text.
class Explainer {
 public:
  Explainer(std::string_view file, std::string_view source, const Columns& columns)
      : file_(file), columns_(columns), excerpts_(file, source) {}

  [[nodiscard]] SourcePlace original(SourcePlace place) const {
    if (place.file == file_) place.column = columns_.original(place.line, place.column);
    return place;
  }

  enum class Kind { syntax, run_time };
  [[nodiscard]] Error error(Kind kind, const SourcePlace& place, std::string message,
                            const std::string& from) {
    const auto& [file, line, column] = place;
    if (auto other =
            unsupported_features(message, excerpts_.before(file, line, column),
                                 excerpts_.from(file, line, column), kind == Kind::syntax, evaluator())) {
      message = *std::move(other);
    }
    return {ErrorKind::invalid, text_of(place), message + excerpts_.with_caret(file, line, column) + from};
  }

  // Returns a line for each place in the chain of calls that led to the frame `innermost`.
  [[nodiscard]] std::string called_from(const std::vector<Frame>& frames, std::size_t innermost) {
    std::string text;
    std::size_t count = 0;
    std::string last = text_of(original(frames[innermost].place));
    for (std::size_t i = innermost + 1; i < frames.size(); ++i) {
      if (!is_of_the_file(frames[i]) || !is_called(frames[i - 1])) continue;
      const SourcePlace place = original(frames[i].place);
      std::string where = text_of(place);
      if (where == last) continue;
      if (++count > k_trace_lines_max) return text + "\n  from …";
      const std::string line = excerpts_.line(place.file, place.line, place.column);
      text += fmt::format("\n  from {}{}{}", where, line.empty() ? "" : ": ", line);
      last = std::move(where);
    }
    return text;
  }

  [[nodiscard]] Excerpts& excerpts() { return excerpts_; }

 private:
  [[nodiscard]] static std::string text_of(const SourcePlace& place) {
    return fmt::format("{}:{}:{}", place.file, place.line, place.column);
  }

  std::string_view file_;
  const Columns& columns_;
  Excerpts excerpts_;
};

Error explain_static(std::string_view account, std::string_view file, Explainer& explainer) {
  std::string_view rest = account;
  const auto place = parse_place(rest);
  if (!place) return {ErrorKind::invalid, std::string(file), std::string(trimmed(account))};
  const SourcePlace original = explainer.original(*place);
  const std::string_view ahead = explainer.excerpts().from(original.file, original.line, original.column);
  std::string message(trimmed(without_prefix(rest, ":")));
  // For an error at the end of the file, the list of expected tokens depends on the evaluator and does not
  // help the user.
  const bool is_known = !explainer.excerpts().before(original.file, original.line, original.column).empty();
  if (message.starts_with("expected ") && is_known && trimmed(ahead).empty())
    message = "unexpected end of file";
  return explainer.error(Explainer::Kind::syntax, original, std::move(message), "");
}

// Returns a hint for a user who may have forgotten an argument. If the file is a function whose arguments are
// wrong, libjsonnet reports the error without a place (core/vm.cpp).
std::string hint_for(std::string_view message, bool has_place) {
  constexpr std::string_view k_external = "undefined external variable: ";
  if (message.starts_with(k_external))
    return fmt::format("; set the variable with -V {}=VALUE", message.substr(k_external.size()));
  if (message == "max stack frames exceeded.")
    return " Look for an endless recursion, or files that import each other; build long arrays and strings "
           "with an array comprehension, std.join or std.foldl";
  constexpr std::string_view k_parameter = "function parameter ";
  constexpr std::string_view k_unbound = " not bound in call.";
  if (has_place || !message.starts_with(k_parameter) || !message.ends_with(k_unbound)) return {};
  message.remove_prefix(k_parameter.size());
  message.remove_suffix(k_unbound.size());
  return fmt::format(" The file is a function: set the parameter with -A {}=VALUE", message);
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
  const auto first = std::ranges::lower_bound(places_, line, {}, &SourcePlace::line);
  for (auto place = first; place != places_.end() && place->line == line && column > place->column; ++place) {
    if (column < place->column + identifier_length_) return place->column;
    column = column - identifier_length_ + k_identifier.size();
  }
  return column;
}

Error explain(std::string_view account, std::string_view file, std::string_view source,
              const Columns& columns) {
  Explainer explainer(file, source, columns);
  constexpr std::string_view k_static = "STATIC ERROR: ";
  if (account.starts_with(k_static)) return explain_static(account.substr(k_static.size()), file, explainer);
  const Account parsed = read_account(without_prefix(account, "RUNTIME ERROR: "));
  const auto frame = std::ranges::find_if(parsed.frames, is_of_the_file);
  const bool has_place = frame != parsed.frames.end();
  std::string message = parsed.message == "Object assertion failed." ? "Assertion failed." : parsed.message;
  message += hint_for(message, has_place);
  const std::string in = parsed.path.empty() ? "" : fmt::format("\n  in {}", shortened(parsed.path));
  if (!has_place) return {ErrorKind::invalid, std::string(file), message + in};
  SourcePlace place = explainer.original(frame->place);
  if (frame->inside == "thunk <object_assert>") place = begin_of_assert(place, explainer.excerpts());
  const auto innermost = static_cast<std::size_t>(frame - parsed.frames.begin());
  return explainer.error(Explainer::Kind::run_time, place, std::move(message),
                         explainer.called_from(parsed.frames, innermost) + in);
}

}  // namespace combu
