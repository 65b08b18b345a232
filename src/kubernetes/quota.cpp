#include "kubernetes/quota.hpp"

#include <charconv>
#include <map>
#include <string>
#include <utility>

namespace combu::kubernetes {
namespace {

constexpr std::string_view k_exceeded = "exceeded quota: ";

using Amounts = std::map<std::string, double, std::less<>>;

// Reads "NAME=QUANTITY,NAME=QUANTITY" behind `title`, up to a blank or the end.
Amounts amounts_behind(std::string_view message, std::string_view title) {
  const std::size_t begin = message.find(title);
  if (begin == std::string_view::npos) return {};
  std::string_view list = message.substr(begin + title.size());
  list = list.substr(0, list.find(' '));
  Amounts amounts;
  while (!list.empty()) {
    const std::string_view one = list.substr(0, list.find(','));
    list.remove_prefix(one.size() == list.size() ? list.size() : one.size() + 1);
    const std::size_t equals = one.find('=');
    if (equals == std::string_view::npos) continue;
    if (const auto amount = parse_quantity(one.substr(equals + 1)))
      amounts.emplace(std::string(one.substr(0, equals)), *amount);
  }
  return amounts;
}

}  // namespace

std::optional<double> parse_quantity(std::string_view text) {
  static const std::map<std::string_view, double> k_suffixes{{"", 1},
                                                             {"n", 1e-9},
                                                             {"u", 1e-6},
                                                             {"m", 1e-3},
                                                             {"k", 1e3},
                                                             {"M", 1e6},
                                                             {"G", 1e9},
                                                             {"T", 1e12},
                                                             {"P", 1e15},
                                                             {"E", 1e18},
                                                             {"Ki", 1024.},
                                                             {"Mi", 1048576.},
                                                             {"Gi", 1073741824.},
                                                             {"Ti", 1099511627776.},
                                                             {"Pi", 1125899906842624.},
                                                             {"Ei", 1152921504606846976.}};
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  const auto suffix = k_suffixes.find(text.substr(static_cast<std::size_t>(end - text.data())));
  if (suffix == k_suffixes.end()) return std::nullopt;
  return number * suffix->second;
}

QuotaRefusal quota_refusal(std::string_view message) {
  const std::size_t begin = message.find(k_exceeded);
  if (begin == std::string_view::npos) return QuotaRefusal::none;
  message.remove_prefix(begin);
  const Amounts limited = amounts_behind(message, "limited: ");
  for (const auto& [name, amount] : amounts_behind(message, "requested: "))
    if (const auto limit = limited.find(name); limit != limited.end() && amount > limit->second)
      return QuotaRefusal::never;
  return QuotaRefusal::used_up;
}

std::string exceeded_quota(std::string_view message) {
  const std::size_t begin = message.find(k_exceeded);
  const std::size_t requested = message.find(", requested: ", begin);
  const std::size_t limited = message.find(", limited: ", requested);
  if (begin == std::string_view::npos || limited == std::string_view::npos) return std::string(message);
  return std::string(message.substr(begin, requested - begin)).append(message.substr(limited));
}

}  // namespace combu::kubernetes
