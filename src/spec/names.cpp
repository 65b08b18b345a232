#include "spec/names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>

#include "combu/base.hpp"
#include "combu/spec.hpp"

namespace combu::spec {

namespace {

bool alphanumeric(unsigned char c) {
  return c < 0x80 && std::isalnum(c) != 0;
}
bool lower_or_digit(unsigned char c) {
  return c < 0x80 && (std::islower(c) != 0 || std::isdigit(c) != 0);
}
bool name_character(unsigned char c) {
  return alphanumeric(c) || c == '_' || c == '.' || c == '-';
}
bool upper(unsigned char c) {
  return c < 0x80 && std::isupper(c) != 0;
}

std::optional<std::string> fault_of_token(std::string_view text, std::size_t least) {
  if (text.empty()) return "is empty";
  if (text.size() >= least && alphanumeric(static_cast<unsigned char>(text.front())) &&
      std::ranges::all_of(text, name_character)) {
    return std::nullopt;
  }
  return fmt::format(
      "\"{}\" is not a name that Docker accepts: it must be a letter or digit, then {} letters, digits, `_`, "
      "`.` or `-`",
      shortened(text), least > 1 ? "one or more" : "any number of");
}

// True if the text consists of lower-case letters and digits, joined by `.`, `_`, `__` or dashes
// (path-component in https://github.com/distribution/reference).
bool path_component(std::string_view text) {
  if (text.empty() || !lower_or_digit(static_cast<unsigned char>(text.front())) ||
      !lower_or_digit(static_cast<unsigned char>(text.back()))) {
    return false;
  }
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t start = i;
    while (i < text.size() && !lower_or_digit(static_cast<unsigned char>(text[i]))) ++i;
    const std::string_view joint = text.substr(start, i - start);
    const bool dashes = std::ranges::all_of(joint, [](char c) { return c == '-'; });
    if (!dashes && joint != "." && joint != "_" && joint != "__") return false;
    if (start == i) ++i;
  }
  return true;
}

bool valid_tag(std::string_view tag) {
  constexpr std::size_t k_tag_max = 128;
  return !tag.empty() && tag.size() <= k_tag_max && tag.front() != '.' && tag.front() != '-' &&
         std::ranges::all_of(tag, name_character);
}

bool valid_digest(std::string_view digest) {
  constexpr std::size_t k_hex_min = 32;
  const std::size_t colon = digest.find(':');
  return colon != std::string_view::npos && colon > 0 && digest.size() - colon - 1 >= k_hex_min &&
         std::ranges::all_of(digest.substr(colon + 1),
                             [](unsigned char c) { return c < 0x80 && std::isxdigit(c) != 0; });
}

// Removes a registry at the beginning. "registry.example.com:5000/lab/solver" begins with a registry,
// "lab/solver" does not.
std::string_view without_registry(std::string_view repository) {
  const std::size_t slash = repository.find('/');
  const std::string_view first = repository.substr(0, slash);
  const bool registry = slash != std::string_view::npos &&
                        (first.find_first_of(".:[") != std::string_view::npos || first == "localhost");
  return registry ? repository.substr(slash + 1) : repository;
}

constexpr auto k_signals = std::to_array<std::string_view>(
    {"HUP",  "INT",  "QUIT",   "ILL",  "TRAP", "ABRT", "IOT",  "BUS",  "FPE",   "KILL",   "USR1",  "SEGV",
     "USR2", "PIPE", "ALRM",   "TERM", "CHLD", "CLD",  "CONT", "STOP", "TSTP",  "TTIN",   "TTOU",  "URG",
     "XCPU", "XFSZ", "VTALRM", "PROF", "POLL", "IO",   "PWR",  "SYS",  "WINCH", "STKFLT", "RTMIN", "RTMAX"});

// Removes the offset of a real-time signal, as in "RTMIN+3" or "RTMAX-2".
std::string_view without_offset(std::string_view signal) {
  const std::size_t sign = signal.find_first_of("+-");
  const bool offset =
      sign != std::string_view::npos && signal.starts_with("RT") && sign + 1 < signal.size() &&
      signal.size() - sign <= 3 &&
      std::ranges::all_of(signal.substr(sign + 1), [](unsigned char c) { return std::isdigit(c) != 0; });
  return offset ? signal.substr(0, sign) : signal;
}

}  // namespace

std::optional<std::string> fault_of_network(std::string_view name) {
  return fault_of_token(name, 1);
}

std::optional<std::string> fault_of_named_volume(std::string_view name) {
  return fault_of_token(name, 2);
}

std::optional<std::string> fault_of_image(std::string_view reference) {
  if (reference.empty()) return "is empty; name an image, such as \"debian:12\"";
  const auto wrong = [&](std::string_view why) {
    return fmt::format("\"{}\" is not an image: {}", shortened(reference), why);
  };
  if (std::ranges::any_of(reference, [](unsigned char c) { return c <= ' ' || c == 0x7F; })) {
    return wrong("it must not contain a blank");
  }
  std::string_view rest = reference;
  if (const std::size_t at = rest.find('@'); at != std::string_view::npos) {
    if (!valid_digest(rest.substr(at + 1)))
      return wrong("a digest, such as sha256:… with 64 digits, must follow the `@`");
    rest = rest.substr(0, at);
  }
  std::string_view repository = without_registry(rest);
  if (const std::size_t colon = repository.find(':'); colon != std::string_view::npos) {
    if (!valid_tag(repository.substr(colon + 1))) {
      return wrong(
          "a tag must have 1 to 128 letters, digits, `_`, `.` or `-`, and must not begin with `.` or `-`");
    }
    repository = repository.substr(0, colon);
  }
  if (std::ranges::any_of(repository, upper)) return wrong("the repository must be in lower case");
  for (std::size_t start = 0; start <= repository.size();) {
    const std::size_t slash = std::min(repository.find('/', start), repository.size());
    if (!path_component(repository.substr(start, slash - start))) {
      return wrong(
          "each part between slashes must be lower-case letters and digits, joined by `.`, `_` or `-`");
    }
    start = slash + 1;
  }
  return std::nullopt;
}

std::optional<std::string> fault_of_platform(std::string_view platform) {
  const auto parts = std::ranges::count(platform, '/');
  const bool known =
      std::ranges::all_of(platform, [](unsigned char c) { return name_character(c) || c == '/'; });
  if (known && parts >= 1 && parts <= 2 && !platform.starts_with('/') && !platform.ends_with('/') &&
      platform.find("//") == std::string_view::npos) {
    return std::nullopt;
  }
  return fmt::format(R"("{}" is not a platform, such as "linux/amd64" or "linux/arm/v7")",
                     shortened(platform));
}

std::optional<std::string> fault_of_signal(std::string_view signal) {
  constexpr int k_signal_max = 64;
  const auto number = parse_number<int>(signal);
  if (number && *number >= 1 && *number <= k_signal_max) return std::nullopt;
  std::string_view plain = signal;
  if (plain.starts_with("SIG")) plain.remove_prefix(3);
  if (std::ranges::find(k_signals, without_offset(plain)) != k_signals.end()) return std::nullopt;
  return fmt::format(R"("{}" is not a signal, such as "SIGINT", "TERM" or 9)", shortened(signal));
}

std::optional<std::string> fault_of_user(std::string_view user) {
  const bool whole = !user.empty() && user.front() != ':' && user.back() != ':' &&
                     std::ranges::count(user, ':') <= 1 &&
                     std::ranges::none_of(user, [](unsigned char c) { return c <= ' ' || c == 0x7F; });
  if (whole) return std::nullopt;
  return fmt::format(R"("{}" is not a user: write "1000", "1000:1000", a name, or "caller")",
                     shortened(user));
}

}  // namespace combu::spec

namespace combu {

std::optional<std::string> fault_of_trial_name(std::string_view name) {
  if (name.starts_with(k_worker_name_prefix))
    return fmt::format(
        "\"{}\" is not possible: combu names its own containers combu-worker-…; choose another name",
        shortened(name));
  return spec::fault_of_token(name, 2);
}

std::optional<std::string> fault_of_experiment_name(std::string_view name) {
  if (name.empty()) return "the experiment's name is empty";
  const bool printable = std::ranges::none_of(name, [](unsigned char c) { return c < ' ' || c == 0x7F; });
  return printable ? std::nullopt : std::optional<std::string>("the experiment's name must be one line");
}

}  // namespace combu
