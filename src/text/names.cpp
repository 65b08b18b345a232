
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "combu/text.hpp"

namespace combu {
namespace {

constexpr std::string_view k_digits = "0123456789";
constexpr std::size_t k_number_digits_max = 18;  // a number of 18 digits fits into 64 bits

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string_view digits_at(std::string_view text, std::size_t at) {
  return text.substr(at, std::min(text.find_first_not_of(k_digits, at), text.size()) - at);
}

std::string_view without_zeros(std::string_view digits) {
  return digits.substr(std::min(digits.find_first_not_of('0'), digits.size()));
}

// The text before (`head`) and after (`tail`) the last number in a name.
struct Pattern {
  std::string_view head;
  std::string_view tail;
  std::size_t width = 0;  // number of digits if a number with this pattern has leading zeros, else 0
  auto operator<=>(const Pattern&) const = default;
};

struct Numbered {
  Pattern pattern;
  std::uint64_t number = 0;
  bool has_zeros = false;  // leading zeros
};

// Splits a name into its last number and the text before and after this number. Returns false if the name has
// no number, or if the last number has too many digits. Sets `width` to the number of digits.
bool split(std::string_view name, Numbered& out) {
  const std::size_t last = name.find_last_of(k_digits);
  if (last == std::string_view::npos) return false;
  const std::size_t before = name.substr(0, last).find_last_not_of(k_digits);
  const std::size_t first = before == std::string_view::npos ? 0 : before + 1;
  const std::string_view digits = name.substr(first, last + 1 - first);
  if (digits.size() > k_number_digits_max) return false;
  std::from_chars(digits.data(), digits.data() + digits.size(), out.number);
  out.has_zeros = digits.size() > 1 && digits.front() == '0';
  out.pattern = {name.substr(0, first), name.substr(last + 1), digits.size()};
  return true;
}

// Appends the ranges of one pattern's numbers to `out`, for example "solver-[1-5]", "solver-[7-9]" and
// "solver-12".
void append_ranges(const Pattern& pattern, std::vector<std::uint64_t>& numbers,
                   std::vector<std::string>& out) {
  std::ranges::sort(numbers);
  for (std::size_t from = 0; from < numbers.size();) {
    std::size_t to = from;
    while (to + 1 < numbers.size() && numbers[to + 1] == numbers[to] + 1) ++to;
    const std::string first = fmt::format("{:0{}}", numbers[from], pattern.width);
    const std::string last = fmt::format("{:0{}}", numbers[to], pattern.width);
    const std::string number = from == to ? first : fmt::format("[{}-{}]", first, last);
    out.push_back(fmt::format("{}{}{}", pattern.head, number, pattern.tail));
    from = to + 1;
  }
}

}  // namespace

bool is_before(std::string_view left, std::string_view right) {
  std::size_t l = 0;
  std::size_t r = 0;
  while (l < left.size() && r < right.size()) {
    if (!is_digit(left[l]) || !is_digit(right[r])) {
      if (left[l] != right[r]) return left[l] < right[r];
      ++l;
      ++r;
      continue;
    }
    const std::string_view left_digits = digits_at(left, l);
    const std::string_view right_digits = digits_at(right, r);
    const std::string_view left_number = without_zeros(left_digits);
    const std::string_view right_number = without_zeros(right_digits);
    if (left_number.size() != right_number.size()) return left_number.size() < right_number.size();
    if (left_number != right_number) return left_number < right_number;
    l += left_digits.size();
    r += right_digits.size();
  }
  const std::size_t left_rest = left.size() - l;
  const std::size_t right_rest = right.size() - r;
  return left_rest != right_rest ? left_rest < right_rest
                                 : left < right;  // the last comparison orders names such as "a01" and "a1"
}

std::vector<std::string> ranges(const std::vector<std::string_view>& names) {
  // If a name such as "a-09" has a leading zero, ranges() treats "a-10" as zero-padded to two digits, too.
  std::set<Pattern> padded;
  for (const std::string_view name : names)
    if (Numbered numbered; split(name, numbered) && numbered.has_zeros) padded.insert(numbered.pattern);
  std::map<Pattern, std::size_t> places;
  std::vector<std::pair<Pattern, std::vector<std::uint64_t>>> groups;
  for (const std::string_view name : names) {
    Numbered numbered;
    const bool has_number = split(name, numbered);
    if (!has_number) numbered.pattern = {name, {}, 0};
    if (!padded.contains(numbered.pattern)) numbered.pattern.width = 0;
    // A name without a number forms its own group, to which no number is ever added.
    const auto [place, is_new] = places.try_emplace(numbered.pattern, groups.size());
    if (is_new) groups.emplace_back(numbered.pattern, std::vector<std::uint64_t>{});
    if (has_number) groups[place->second].second.push_back(numbered.number);
  }
  std::vector<std::string> out;
  for (auto& [pattern, numbers] : groups) {
    if (numbers.empty()) {
      out.emplace_back(pattern.head);
    } else {
      append_ranges(pattern, numbers, out);
    }
  }
  return out;
}

std::string number_of(std::size_t count, std::string_view noun, std::string_view plural) {
  if (count == 1 || plural.empty()) return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
  return fmt::format("{} {}", count, plural);
}

}  // namespace combu
