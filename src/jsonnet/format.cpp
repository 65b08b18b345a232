#include "jsonnet/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "combu/base.hpp"
#include "jsonnet/number.hpp"
#include "jsonnet/text.hpp"

namespace combu {
namespace {

// maximum precision of e, f and g, as in Rust's own formatting
constexpr std::size_t k_precision_max = 65535;

[[noreturn]] void refuse(std::string message) {
  throw Error(ErrorKind::invalid, "", std::move(message));
}

std::string utf8_of(std::uint32_t character) {
  const auto byte = [](std::uint32_t bits) { return static_cast<char>(static_cast<unsigned char>(bits)); };
  const auto continuation = [&](unsigned shift) { return byte(0x80U | ((character >> shift) & 0x3FU)); };
  if (character < 0x80) return {byte(character)};
  if (character < 0x800) return {byte(0xC0U | (character >> 6U)), continuation(0)};
  if (character < 0x10000) return {byte(0xE0U | (character >> 12U)), continuation(6), continuation(0)};
  return {byte(0xF0U | (character >> 18U)), continuation(12), continuation(6), continuation(0)};
}

// ---- Values

struct Value {
  std::string_view json;
  std::string text;  // decoded content, if the value is a string

  [[nodiscard]] bool is_string() const { return json.front() == '"'; }
  [[nodiscard]] std::string_view type() const {
    switch (json.front()) {
      case '"':
        return "string";
      case '[':
        return "array";
      case '{':
        return "object";
      case 't':
      case 'f':
        return "boolean";
      case 'n':
        return "null";
      default:
        return "number";
    }
  }
  [[nodiscard]] double number() const {
    double result = 0;
    std::from_chars(json.data(), json.data() + json.size(), result);
    if (!std::isfinite(result)) refuse(fmt::format("{} is not a number", json));
    return result;
  }
};

// Reads JSON in the form in which an evaluator writes JSON. A user's file can also call
// std.native('combu.format') with other text. With such text, the reader must not crash combu, but may throw
// an Error or return any value.
class FormatReader {
 public:
  explicit FormatReader(std::string_view json) : json_(json) {}

  // Returns the next item of the current array, or nullopt at its end.
  std::optional<Value> next() {
    at_ = std::min(json_.find_first_not_of(" ,\n", at_), json_.size());
    if (at_ == json_.size() || json_[at_] == '}') refuse("values are cut");
    if (json_[at_] == ']') return std::nullopt;
    const std::size_t begin = at_;
    Value value;
    if (json_[at_] == '"') {
      value.text = take_string();
    } else {
      skip();
    }
    value.json = json_.substr(begin, at_ - begin);
    return value;
  }
  void enter() {
    at_ = std::min(json_.find('[', at_), json_.size());
    if (at_ < json_.size()) ++at_;
  }

 private:
  std::string take_string() {
    std::string text;
    for (++at_; at_ < json_.size() && json_[at_] != '"';) {
      const std::size_t end = std::min(json_.find_first_of("\"\\", at_), json_.size());
      text += json_.substr(at_, end - at_);
      at_ = end;
      if (at_ < json_.size() && json_[at_] == '\\') text += take_escape();
    }
    if (at_ >= json_.size()) refuse("values are cut");
    ++at_;
    return text;
  }

  std::string take_escape() {
    const char c = at_ + 1 < json_.size() ? json_[at_ + 1] : '"';
    if (c != 'u') {
      at_ += 2;
      constexpr std::string_view k_letters = "bfnrt";
      const std::size_t letter = k_letters.find(c);
      return {letter == std::string_view::npos ? c : "\b\f\n\r\t"[letter]};
    }
    std::uint32_t unit = take_unit();
    if (unit >= 0xD800 && unit < 0xDC00 && json_.substr(at_, 2) == "\\u")
      unit = 0x10000 + ((unit - 0xD800) << 10U) + (take_unit() - 0xDC00);
    return utf8_of(unit);
  }
  std::uint32_t take_unit() {
    std::uint32_t unit = 0;
    const std::string_view digits = json_.substr(std::min(at_ + 2, json_.size()), 4);
    std::from_chars(digits.data(), digits.data() + digits.size(), unit, 16);
    at_ = std::min(at_ + 6, json_.size());
    return unit;
  }

  // Skips a value that is not a string.
  void skip() {
    for (std::size_t depth = 0; at_ < json_.size();) {
      const char c = json_[at_];
      if (c == '"') {
        (void)take_string();
        continue;
      }
      const bool closes = c == ']' || c == '}';
      if (depth == 0 && (closes || c == ',')) return;
      if (c == '[' || c == '{') ++depth;
      if (closes) --depth;
      ++at_;
    }
  }

  std::string_view json_;
  std::size_t at_ = 0;
};

// ---- Directives

struct Amount {
  // asked: the directive has `*`, and one of the values to be formatted gives the amount
  enum class Kind { none, given, asked };
  Kind kind = Kind::none;
  std::size_t count = 0;
};

struct Directive {
  std::optional<std::string> field;
  bool alternate = false;
  bool zero = false;
  bool left = false;
  bool blank = false;
  bool plus = false;
  Amount width;
  Amount precision;
  char conversion = '%';

  [[nodiscard]] bool uses_precision() const {
    return conversion != 'c' && conversion != 's' && conversion != '%';
  }
};

// A part of the text: a directive and the text before the directive. The last part may have no directive.
struct Part {
  std::string literal;
  std::optional<Directive> directive;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}

  std::vector<Part> parse() {
    std::vector<Part> parts;
    while (!rest_.empty()) {
      const std::size_t end = std::min(rest_.find('%'), rest_.size());
      Part part{std::string(rest_.substr(0, end)), std::nullopt};
      rest_.remove_prefix(end);
      if (!rest_.empty()) {
        rest_.remove_prefix(1);
        part.directive = parse_directive();
      }
      parts.push_back(std::move(part));
    }
    return parts;
  }

 private:
  Directive parse_directive() {
    Directive result;
    if (take('(')) {
      const std::size_t end = rest_.find(')');
      if (end == std::string_view::npos) refuse("truncated format code");
      result.field = std::string(rest_.substr(0, end));
      rest_.remove_prefix(end + 1);
    }
    while (take_flag(result)) {
    }
    if (take('*')) {
      result.width.kind = Amount::Kind::asked;
    } else {
      result.width = take_digits("format field width is too large");
    }
    if (take('.')) parse_precision(result);
    if (!take('h') && !take('l')) take('L');
    parse_conversion(result);
    return result;
  }

  bool take(char wanted) {
    if (rest_.empty() || rest_.front() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool take_flag(Directive& directive) {
    const std::pair<char, bool*> flags[] = {{'#', &directive.alternate},
                                            {'0', &directive.zero},
                                            {'-', &directive.left},
                                            {' ', &directive.blank},
                                            {'+', &directive.plus}};
    return std::ranges::any_of(flags, [&](const auto& flag) {
      const bool taken = take(flag.first);
      if (taken) *flag.second = true;
      return taken;
    });
  }

  Amount take_digits(const char* too_large) {
    std::uint32_t count = 0;
    const auto [end, fault] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), count);
    if (fault == std::errc::result_out_of_range) refuse(too_large);
    if (fault != std::errc{}) return {};
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return {Amount::Kind::given, count};
  }

  void parse_precision(Directive& directive) {
    if (take('*')) {
      directive.precision.kind = Amount::Kind::asked;
      return;
    }
    directive.precision = take_digits("format precision is too large");
    if (directive.precision.kind == Amount::Kind::none)
      refuse(rest_.empty() ? "truncated format code" : "missing format precision digits");
  }

  void parse_conversion(Directive& directive) {
    if (rest_.empty()) refuse("truncated format code");
    const char c = rest_.front();
    if (std::string_view("diuoxXeEfFgGcs%").find(c) == std::string_view::npos) {
      std::size_t end = 1;
      while (end < rest_.size() && is_inside_character(rest_[end])) ++end;
      refuse(fmt::format("invalid format conversion code '{}'", rest_.substr(0, end)));
    }
    directive.conversion = c;
    rest_.remove_prefix(1);
  }

  std::string_view rest_;
};

// ---- Numbers

// Returns a text of the sign, `prefix`, zeros and `digits`. The zeros make the number of digits at least
// `digits_min`, and the whole text at least `length_min` long.
std::string decorated(bool is_negative, const Directive& directive, std::string_view prefix,
                      const std::string& digits, std::size_t length_min, std::size_t digits_min) {
  std::string result;
  if (is_negative) {
    result = "-";
  } else if (directive.plus) {
    result = "+";
  } else if (directive.blank) {
    result = " ";
  }
  result += prefix;
  const auto lack = [](std::size_t wanted, std::size_t there) { return wanted > there ? wanted - there : 0; };
  result.append(std::max(lack(digits_min, digits.size()), lack(length_min, result.size() + digits.size())),
                '0');
  return result + digits;
}

// Returns an integer's digits. `radix` is a power of two, so the division is exact.
std::string whole_digits(double value, double radix, std::string_view numerals) {
  if (value == 0) return "0";
  std::string digits;
  while (value != 0) {
    digits += numerals[static_cast<std::size_t>(std::fmod(value, radix))];
    value = std::trunc(value / radix);
  }
  std::ranges::reverse(digits);
  return digits;
}

std::string digits_of(double value, std::chars_format form, std::size_t precision) {
  std::string text(precision + 320, '\0');  // 1e308 has 309 digits before the point
  const auto result =
      std::to_chars(text.data(), text.data() + text.size(), value, form, static_cast<int>(precision));
  text.resize(static_cast<std::size_t>(result.ptr - text.data()));
  return text;
}

// Removes zeros at the end of a fraction, and the point if no fraction is left.
void trim_zeros(std::string& digits) {
  if (digits.find('.') == std::string::npos) return;
  digits.erase(digits.find_last_not_of('0') + 1);
  if (digits.back() == '.') digits.pop_back();
}

std::string fixed_digits(double value, std::size_t precision, bool alternate, bool trim) {
  std::string digits = digits_of(value, std::chars_format::fixed, precision);
  if (precision == 0 && alternate) digits += '.';
  if (trim) trim_zeros(digits);
  return digits;
}

std::string scientific_digits(double value, std::size_t precision, bool alternate, bool trim, bool capital) {
  const std::string digits = digits_of(value, std::chars_format::scientific, precision);
  const std::size_t mark = digits.find('e');
  std::string mantissa = digits.substr(0, mark);
  if (precision == 0 && alternate) mantissa += '.';
  if (trim) trim_zeros(mantissa);
  return mantissa + (capital ? 'E' : 'e') + digits.substr(mark + 1);
}

// Unlike C, Jsonnet counts a 0 before the point as a digit, and uses the exponent of the unrounded number.
std::string general_digits(double value, std::size_t precision, bool alternate, bool capital) {
  const double exponent = value == 0 ? 0 : std::floor(std::log10(value));
  if (exponent < -4 || (exponent >= 0 && exponent >= static_cast<double>(precision))) {
    return scientific_digits(value, std::max<std::size_t>(precision, 1) - 1, alternate, !alternate, capital);
  }
  const std::size_t before = value < 1 ? 1 : text_of_number(std::trunc(value)).size();
  return fixed_digits(value, precision > before ? precision - before : 0, alternate, !alternate);
}

struct Sizes {
  std::size_t width = 0;
  std::optional<std::size_t> precision;
};

std::string number_text(const Directive& directive, const Sizes& sizes, double given) {
  const bool is_whole = std::string_view("diuoxX").find(directive.conversion) != std::string_view::npos;
  const double value = is_whole ? std::trunc(given) : given;
  const bool is_negative = value < 0;
  const double size = std::abs(value);
  const std::size_t zeros = directive.zero && !directive.left ? sizes.width : 0;
  const std::size_t digits_min = sizes.precision.value_or(0);
  const bool alternate = directive.alternate;
  switch (directive.conversion) {
    case 'd':
    case 'i':
    case 'u':
      return decorated(is_negative, directive, "", text_of_number(size), zeros, digits_min);
    case 'o': {
      const std::string digits = whole_digits(size, 8, "01234567");
      return decorated(is_negative, directive, "", (alternate && size != 0 ? "0" : "") + digits, zeros,
                       digits_min);
    }
    case 'x':
    case 'X': {
      const bool capital = directive.conversion == 'X';
      return decorated(is_negative, directive, !alternate ? "" : (capital ? "0X" : "0x"),
                       whole_digits(size, 16, capital ? "0123456789ABCDEF" : "0123456789abcdef"), zeros,
                       digits_min);
    }
    default:
      break;
  }
  const std::size_t precision = sizes.precision.value_or(6);
  if (precision > k_precision_max) refuse("format precision is too large");
  std::string digits;
  if (directive.conversion == 'f' || directive.conversion == 'F') {
    digits = fixed_digits(size, precision, alternate, false);
  } else if (directive.conversion == 'e' || directive.conversion == 'E') {
    digits = scientific_digits(size, precision, alternate, false, directive.conversion == 'E');
  } else {
    digits = general_digits(size, precision, alternate, directive.conversion == 'G');
  }
  return decorated(is_negative, directive, "", digits, zeros, 0);
}

// ---- Formatting

// Returns the text by which messages name a numeric conversion.
std::string_view names_of(char conversion) {
  switch (conversion) {
    case 'o':
      return "'o'";
    case 'x':
    case 'X':
      return "'x' / 'X'";
    case 'e':
    case 'E':
      return "'e' / 'E'";
    case 'f':
    case 'F':
      return "'f' / 'F'";
    case 'g':
    case 'G':
      return "'g' / 'G'";
    default:
      return "'i' / 'd'";
  }
}

std::string character_of(const Value& value) {
  if (value.is_string()) {
    if (const std::size_t length = count_characters(value.text); length != 1)
      refuse(fmt::format("'c' formatting requires a string of length 1, got {}", length));
    return value.text;
  }
  if (value.type() != "number")
    refuse(fmt::format("'c' formatting requires a string or a number, got {}", value.type()));
  const double number = std::trunc(value.number());
  if (!(number >= 0 && number <= 0x10FFFF && !(number >= 0xD800 && number <= 0xDFFF)))
    refuse(text_of_number(value.number()) + " is not a valid unicode codepoint");
  return utf8_of(static_cast<std::uint32_t>(number));
}

std::string text_of(const Directive& directive, const Sizes& sizes, const Value& value) {
  if (directive.conversion == 'c') return character_of(value);
  if (directive.conversion == 's') return value.is_string() ? value.text : std::string(value.json);
  if (value.type() != "number")
    refuse(
        fmt::format("{} formatting requires a number, got {}", names_of(directive.conversion), value.type()));
  return number_text(directive, sizes, value.number());
}

class Values {
 public:
  explicit Values(std::vector<Value> values) : values_(std::move(values)) {}

  const Value& next() {
    if (taken_ == values_.size())
      refuse(fmt::format("not enough array items for format, got {}", values_.size()));
    return values_[taken_++];
  }
  void check_end() const {
    if (taken_ < values_.size())
      refuse(fmt::format("too many array items for format: expected {}, got {}", taken_, values_.size()));
  }

 private:
  std::vector<Value> values_;
  std::size_t taken_ = 0;
};

std::size_t size_of(const Value& value, const char* what) {
  if (value.type() != "number") refuse(fmt::format("format {} must be a number, got {}", what, value.type()));
  const double size = std::trunc(value.number());
  if (!(size >= 0 && size <= std::numeric_limits<std::uint32_t>::max()))
    refuse(fmt::format("invalid format {} value: {}", what, text_of_number(value.number())));
  return static_cast<std::size_t>(size);
}

std::string written(const Directive& directive, Values& values) {
  const Value* width = directive.width.kind == Amount::Kind::asked ? &values.next() : nullptr;
  const Value* precision = directive.precision.kind == Amount::Kind::asked ? &values.next() : nullptr;
  Sizes sizes{directive.width.count, std::nullopt};
  if (directive.precision.kind == Amount::Kind::given) sizes.precision = directive.precision.count;
  if (precision != nullptr && directive.uses_precision()) sizes.precision = size_of(*precision, "precision");
  if (width != nullptr) sizes.width = size_of(*width, "field width");

  std::string text = directive.conversion == '%' ? "%" : text_of(directive, sizes, values.next());
  const std::size_t length = count_characters(text);
  if (length < sizes.width)
    text.insert(directive.left ? text.size() : 0, std::string(sizes.width - length, ' '));
  return text;
}

std::vector<Part> parse_text(FormatReader& reader) {
  reader.enter();
  const auto text = reader.next();
  if (!text || !text->is_string())
    refuse(fmt::format("std.format: argument 1 must be string, got {}", text ? text->type() : "nothing"));
  return Parser(text->text).parse();
}

}  // namespace

std::string format(std::string_view call) {
  FormatReader reader(call);
  const std::vector<Part> parts = parse_text(reader);
  reader.enter();
  std::vector<Value> items;
  while (auto value = reader.next()) items.push_back(*std::move(value));
  Values values(std::move(items));
  std::string result;
  for (const Part& part : parts) {
    result += part.literal;
    if (part.directive) result += written(*part.directive, values);
  }
  values.check_end();
  return result;
}

std::vector<std::string> format_fields(std::string_view call) {
  FormatReader reader(call);
  std::vector<std::string> fields;
  for (const Part& part : parse_text(reader)) {
    if (!part.directive) continue;
    const Directive& directive = *part.directive;
    if (directive.width.kind == Amount::Kind::asked)
      refuse("'*' field width cannot be used with object formatting");
    if (directive.precision.kind == Amount::Kind::asked)
      refuse("'*' precision cannot be used with object formatting");
    if (directive.conversion == '%') continue;
    if (!directive.field) refuse("mapping keys are required with object formatting");
    fields.push_back(*directive.field);
  }
  return fields;
}

}  // namespace combu
