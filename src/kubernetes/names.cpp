#include "kubernetes/names.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <vector>

namespace combu::kubernetes {
namespace {

constexpr std::size_t k_label_max = 63;
constexpr std::size_t k_subdomain_max = 253;
constexpr std::size_t k_hash_size = 12;  // 48 bits
// Separates a changed text from its hash. A text that contains the joint is always changed, so that no name
// without a hash equals a name with a hash.
constexpr std::string_view k_joint = "--";
// A run's id that is longer, or has other characters, is replaced by its hash in names of Pods.
constexpr std::size_t k_run_max = 20;
constexpr std::size_t k_trials_selected_max = 20;

bool is_lower_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}
bool is_alphanumeric(char c) {
  return is_lower_or_digit(c) || (c >= 'A' && c <= 'Z');
}
bool is_label_character(char c) {
  return is_alphanumeric(c) || c == '-' || c == '_' || c == '.';
}

// True if `text` is a DNS label of any length.
bool is_dns_word(std::string_view text) {
  return !text.empty() && text.front() != '-' && text.back() != '-' &&
         std::ranges::all_of(text, [](char c) { return c == '-' || is_lower_or_digit(c); });
}

std::string hash_of(std::string_view text) {
  return sha256_of(text).substr(0, k_hash_size);
}

// Returns the parts of `text` for which `is_kept` is true, joined by `joint`.
std::string slug(std::string_view text, bool (*is_kept)(char), char joint) {
  std::string result;
  for (const char c : text) {
    if (is_kept(c)) {
      result += c;
    } else if (!result.empty() && result.back() != joint) {
      result += joint;
    }
  }
  return result;
}

// Returns `text` if it is a DNS label of at most `size_max` characters without `k_joint`. Otherwise returns
// such a label that contains a hash of `text`.
std::string dns_part(std::string_view text, std::size_t size_max) {
  if (text.size() <= size_max && is_dns_label(text) && text.find(k_joint) == std::string_view::npos)
    return std::string(text);
  std::string part = slug(in_lower_case(text), is_lower_or_digit, '-');
  part.resize(std::min(part.size(), size_max - k_joint.size() - k_hash_size));
  while (part.ends_with('-')) part.pop_back();
  return fmt::format("{}{}{}", part, part.empty() ? "" : k_joint, hash_of(text));
}

// Returns `text` if it is a valid label value of at most `size_max` characters, and otherwise such a value
// with the end of `text` and a hash. The end tells texts such as paths apart.
std::string label_part(std::string_view text, std::size_t size_max) {
  if (text.size() <= size_max && is_label_value(text)) return std::string(text);
  std::string part = slug(text, is_label_character, '_');
  part.erase(0, part.size() - std::min(part.size(), size_max - 1 - k_hash_size));
  part.erase(part.begin(), std::ranges::find_if(part, is_alphanumeric));
  while (!part.empty() && !is_alphanumeric(part.back())) part.pop_back();
  return fmt::format("{}{}{}", part, part.empty() ? "" : "-", hash_of(text));
}

// Terms of a labelSelector.
std::string equals(const char* label, std::string_view text) {
  return fmt::format("{}={}", label, label_value(text));
}

std::string is_one_of(const std::vector<std::string>& trials) {
  std::vector<std::string> values;
  std::ranges::transform(trials, std::back_inserter(values), label_value);
  return fmt::format("{} in ({})", k_trial, fmt::join(values, ","));
}

}  // namespace

std::string anchor_name(const RunId& run) {
  const std::string head = "combu-";
  return head + dns_part(run.text(), k_label_max - head.size());
}

std::string pod_name(const Key& key) {
  // The run's part has no '-', so the name can be split into its three parts, and different keys have
  // different names.
  const std::string& id = key.run.text();
  const bool is_plain = id.size() <= k_run_max && std::ranges::all_of(id, is_lower_or_digit);
  const std::string tail = fmt::format("-{}-{}", is_plain ? id : hash_of(id), key.attempt);
  return dns_part(key.trial, k_label_max - tail.size()) + tail;
}

std::string network_label(std::string_view network) {
  const std::string head = "combu.network.";
  return head + label_part(network, k_label_max - head.size());
}

std::string network_policy_name(const RunId& run, std::string_view network) {
  return fmt::format("{}-network-{}", anchor_name(run), dns_part(network, k_label_max));
}

std::string port_policy_name(const RunId& run, std::string_view trial) {
  return fmt::format("{}-ports-{}", anchor_name(run), dns_part(trial, k_label_max));
}

std::string program_name(const RunId& run, const ProvidedProgram& program) {
  constexpr std::size_t k_hash = 10;
  return fmt::format("{}-program-{}", anchor_name(run), sha256_of(program.content).substr(0, k_hash));
}

std::string secret_name(const RunId& run) {
  return anchor_name(run) + "-secrets";
}

std::string label_value(std::string_view text) {
  return label_part(text, k_label_max);
}

std::string label_selector(const RunId& run, const std::vector<std::string>& trials, int attempt) {
  return fmt::format("{},{},{}", equals(k_run, run.text()), equals(k_attempt, std::to_string(attempt)),
                     is_one_of(trials));
}

std::string label_selector(const Selector& selector) {
  std::vector<std::string> terms;
  const auto add = [&](const char* label, std::string_view text) { terms.push_back(equals(label, text)); };
  if (!selector.experiment.empty()) add(k_experiment, selector.experiment);
  if (!selector.file.empty()) add(k_file, selector.file);
  if (selector.run) add(k_run, selector.run->text());
  if (terms.empty()) terms.emplace_back(k_experiment);
  if (!selector.trials.empty() && selector.trials.size() <= k_trials_selected_max)
    terms.push_back(is_one_of(selector.trials));
  return fmt::format("{}", fmt::join(terms, ","));
}

bool is_dns_label(std::string_view text) {
  return text.size() <= k_label_max && is_dns_word(text);
}

bool is_dns_subdomain(std::string_view text) {
  if (text.size() > k_subdomain_max) return false;
  for (std::size_t dot = text.find('.'); dot != std::string_view::npos; dot = text.find('.')) {
    if (!is_dns_word(text.substr(0, dot))) return false;
    text.remove_prefix(dot + 1);
  }
  return is_dns_word(text);
}

bool is_label_value(std::string_view text) {
  if (text.empty()) return true;
  return text.size() <= k_label_max && is_alphanumeric(text.front()) && is_alphanumeric(text.back()) &&
         std::ranges::all_of(text, is_label_character);
}

bool is_label_key(std::string_view text) {
  const std::size_t slash = text.find('/');
  const bool has_prefix = slash != std::string_view::npos;
  const std::string_view name = has_prefix ? text.substr(slash + 1) : text;
  return !name.empty() && is_label_value(name) && (!has_prefix || is_dns_subdomain(text.substr(0, slash)));
}

std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

}  // namespace combu::kubernetes
