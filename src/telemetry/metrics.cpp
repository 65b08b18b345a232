#include "telemetry/metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>

#include "combu/json.hpp"

namespace combu::telemetry {
namespace {

using Numbers = std::vector<std::pair<std::string, double>>;

// Maximum size of a metric's name in bytes. Without a limit, the names in one deeply nested line, or
// k_metrics_max names as long as a line, could fill the memory.
constexpr std::size_t k_name_max = 256;

// first character of a string that replaces a number that JSON cannot express
constexpr char k_stands_for = '\1';
constexpr std::string_view k_in_words =
    "0123456789+-.abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";  // characters of which unquoted
                                                                          // words and numbers consist

// Parses a number, including "nan", "-inf" and "Infinity" in upper or lower case. A number beyond the range
// of double becomes infinite.
std::optional<double> number_in(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size() || text.empty()) return std::nullopt;
  if (fault == std::errc::result_out_of_range) return std::strtod(std::string(text).c_str(), nullptr);
  return fault == std::errc() ? std::optional(value) : std::nullopt;
}

// Returns the value of `word` if it is a NaN or an infinity, which programs print in place of a JSON number.
// Returns nullopt for other words.
std::optional<double> odd_number(std::string_view word) {
  const std::optional<double> number = number_in(word);
  return number && !std::isfinite(*number) ? number : std::nullopt;
}

// Collects the numbers of a JSON object and of nested objects. For example, {"val": {"acc": 1}} contains the
// number "val.acc". Ignores the content of arrays.
class NumbersIn : public nlohmann::json::json_sax_t {
 public:
  explicit NumbersIn(Numbers& numbers) : numbers_(numbers) {}

  bool null() override { return in_object(); }
  bool boolean(bool /*value*/) override { return in_object(); }
  bool number_integer(std::int64_t value) override { return add(static_cast<double>(value)); }
  bool number_unsigned(std::uint64_t value) override { return add(static_cast<double>(value)); }
  bool number_float(double value, const std::string& /*text*/) override { return add(value); }
  bool string(std::string& value) override {
    if (value.starts_with(k_stands_for))
      if (const auto number = odd_number(std::string_view(value).substr(1))) return add(*number);
    return in_object();
  }
  bool binary(binary_t& /*value*/) override { return true; }
  bool start_object(std::size_t /*count*/) override {
    if (depth_in_array_ > 0) {
      ++depth_in_array_;
      return true;
    }
    if (in_object()) name_ += '.';
    prefixes_.push_back(name_.size());
    return true;
  }
  bool key(std::string& name) override {
    if (depth_in_array_ == 0) name_.replace(prefixes_.back(), std::string::npos, name);
    return true;
  }
  bool end_object() override {
    if (depth_in_array_ > 0) {
      --depth_in_array_;
    } else {
      prefixes_.pop_back();
    }
    return true;
  }
  bool start_array(std::size_t /*count*/) override {
    ++depth_in_array_;
    return in_object();
  }
  bool end_array() override {
    --depth_in_array_;
    return true;
  }
  bool parse_error(std::size_t /*place*/, const std::string& /*token*/,
                   const nlohmann::json::exception& /*error*/) override {
    return false;
  }

 private:
  [[nodiscard]] bool in_object() const { return !prefixes_.empty(); }
  bool add(double value) {
    if (depth_in_array_ == 0 && in_object() && name_.size() <= k_name_max)
      numbers_.emplace_back(name_, value);
    return in_object();
  }

  Numbers& numbers_;
  std::string name_;  // name of the next value
  // For each open object outside of arrays, the length that name_ had when the object began.
  std::vector<std::size_t> prefixes_;
  std::size_t depth_in_array_ = 0;  // number of open arrays, plus open objects within arrays
};

bool read_object(std::string_view line, Numbers& numbers) {
  numbers.clear();
  NumbersIn reader(numbers);
  return nlohmann::json::sax_parse(line, &reader);
}

// Replaces each NaN and infinity outside of strings by a string that NumbersIn reads as a number.
std::string with_strings(std::string_view line) {
  std::string text;
  bool in_string = false;
  for (std::size_t i = 0; i < line.size();) {
    if (in_string && line[i] == '\\') {
      text += line.substr(i, 2);
      i += 2;
      continue;
    }
    if (line[i] == '"') in_string = !in_string;
    const std::size_t end = in_string ? i : std::min(line.find_first_not_of(k_in_words, i), line.size());
    const std::string_view word = line.substr(i, std::max<std::size_t>(end - i, 1));
    text += odd_number(word) ? fmt::format(R"("\u{:04x}{}")", static_cast<int>(k_stands_for), word)
                             : std::string(word);
    i += word.size();
  }
  return text;
}

// Splits a line of CSV (RFC 4180). Line ends within quotes are not supported.
std::vector<std::string> fields_of(std::string_view line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char letter = line[i];
    if (quoted && letter == '"' && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += line[i++];
    } else if (letter == '"') {
      quoted = !quoted;
    } else if (letter == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += letter;
    }
  }
  return fields;
}

}  // namespace

MetricLimits::MetricLimits(const std::map<std::string, std::size_t>& take_points) {
  for (const auto& [name, points] : take_points) {
    names_.insert(name);
    points_ += points;
  }
}

bool MetricLimits::admits(const std::string& name) {
  if (names_.contains(name)) return true;
  if (names_.size() < k_metrics_max) return names_.insert(name).second;
  ++passed_over_;
  return false;
}

MetricLines::MetricLines(Form form, MetricLimits& limits, const Metrics& metrics)
    : form_(form), limits_(limits), step_(metrics.step) {
  if (form_ != Form::pattern) return;
  pattern_ = std::make_unique<re2::RE2>(metrics.pattern, re2::RE2::Quiet);
  for (const auto& [group, name] : pattern_->CapturingGroupNames()) groups_.emplace_back(group, name);
}

void MetricLines::add(std::string_view line, Instant at) {
  switch (form_) {
    case Form::json:
      return add_json(trimmed(line), at);
    case Form::csv:
      return add_csv(trimmed(line), at);
    case Form::pattern:
      return add_match(line, at);
  }
}

void MetricLines::add_json(std::string_view line, Instant at) {
  if (!line.starts_with('{') || !line.ends_with('}')) return;
  if (read_object(line, numbers_)) return add(numbers_, at);
  const std::string text = with_strings(line);
  if (text != line && read_object(text, numbers_)) add(numbers_, at);
}

void MetricLines::add_csv(std::string_view line, Instant at) {
  if (line.empty()) return;
  const std::vector<std::string> fields = fields_of(line);
  if (columns_.empty()) {
    columns_ = fields;
    for (std::string& column : columns_) column = trimmed(column);
    return;
  }
  numbers_.clear();
  for (std::size_t i = 0; i < std::min(fields.size(), columns_.size()); ++i)
    if (const auto value = number_in(fields[i])) numbers_.emplace_back(columns_[i], *value);
  add(numbers_, at);
}

void MetricLines::add_match(std::string_view line, Instant at) {
  std::vector<re2::StringPiece> found(static_cast<std::size_t>(pattern_->NumberOfCapturingGroups()) + 1);
  const re2::StringPiece text(line.data(), line.size());
  if (!pattern_->Match(text, 0, text.size(), re2::RE2::UNANCHORED, found.data(),
                       static_cast<int>(found.size())))
    return;
  numbers_.clear();
  for (const auto& [group, name] : groups_) {
    const re2::StringPiece& part = found[static_cast<std::size_t>(group)];
    if (const auto value = number_in({part.data(), part.size()})) numbers_.emplace_back(name, *value);
  }
  add(numbers_, at);
}

void MetricLines::add(std::span<const std::pair<std::string, double>> numbers, Instant at) {
  const auto first_step = std::ranges::find(numbers, step_, &std::pair<std::string, double>::first);
  const double step = first_step == numbers.end() ? std::nan("") : first_step->second;
  ++line_;
  for (const auto& [name, value] : numbers) {
    if (name == step_ || name.empty() || name.size() > k_name_max) continue;
    auto found = series_.find(name);
    if (found == series_.end()) {
      if (!limits_.admits(name)) continue;
      found = series_.emplace(name, Series()).first;
    }
    Series& series = found->second;
    if (std::exchange(series.line, line_) == line_) continue;  // the line has another number with this name
    if (limits_.keeps_point()) {
      series.points.push_back({.step = step, .at = at, .value = value});
    } else {
      series.more.add(value);
    }
  }
}

std::vector<LogBatch::Metric> MetricLines::take_points() {
  std::vector<LogBatch::Metric> metrics;
  for (auto& [name, series] : series_)
    if (!series.points.empty() || series.more.points > 0)
      metrics.push_back(
          {.name = name, .points = std::exchange(series.points, {}), .more = std::exchange(series.more, {})});
  return metrics;
}

void Lines::feed(std::string_view text, Instant at) {
  for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    feed_states(text.substr(0, end), at);
    end_line(at);
    text.remove_prefix(end + 1);
  }
  feed_states(text, at);
}

void Lines::feed_states(std::string_view text, Instant at) {
  for (std::size_t end = text.find('\r'); end != std::string_view::npos; end = text.find('\r')) {
    append(text.substr(0, end));
    end_line(at);
    text.remove_prefix(end + 1);
  }
  append(text);
}

void Lines::append(std::string_view text) {
  too_long_ = too_long_ || line_.size() + text.size() > k_line_max;
  if (too_long_) {
    line_ = std::string();
  } else {
    line_ += text;
  }
}

void Lines::end_line(Instant at) {
  if (!too_long_) on_line_(line_, at);
  line_.clear();
  too_long_ = false;
}

void Lines::end(Instant at) {
  if (!line_.empty()) on_line_(std::exchange(line_, {}), at);
}

}  // namespace combu::telemetry
