#include "spec/warnings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "spec/fields.hpp"

namespace combu::spec {

namespace {

// True if the text contains UUID as a separate word, as in "results/UUID/a" or "--run=UUID". False for
// "UUID=3", "$UUID" or "env.UUID".
bool holds_identifier(std::string_view text) {
  constexpr std::string_view k_before = "/=:- ";
  constexpr std::string_view k_after = "/:-. ";
  for (std::size_t at = text.find(k_identifier_text); at != std::string_view::npos;
       at = text.find(k_identifier_text, at + 1)) {
    const std::size_t end = at + k_identifier_text.size();
    const bool begins = at == 0 || k_before.find(text[at - 1]) != std::string_view::npos;
    const bool ends = end == text.size() || k_after.find(text[end]) != std::string_view::npos;
    if (begins && ends) return true;
  }
  return false;
}

// In an array `env`, the string "UUID" names a variable of the caller.
bool is_variable(const Json& element, std::string_view field) {
  return find_field(field) == Field::env && element.is_string() &&
         element.get_ref<const std::string&>() == k_identifier_text;
}

// Returns the place of the first string that contains k_identifier_text as a separate word, or an empty
// string. `field` is the name of `value` in its object.
std::string place_of_identifier(const Json& value, std::string_view field, const Place& place) {
  if (value.is_string())
    return holds_identifier(value.get_ref<const std::string&>()) ? place.text() : std::string();
  if (value.is_object()) {
    for (const auto& [name, element] : value.items()) {
      if (own_field(name)) continue;
      if (auto found = place_of_identifier(element, name, place.key(name)); !found.empty()) return found;
    }
  } else if (value.is_array()) {
    std::size_t index = 0;
    for (const Json& element : value) {
      const Place here = place.index(index++);
      if (is_variable(element, field)) continue;
      if (auto found = place_of_identifier(element, {}, here); !found.empty()) return found;
    }
  }
  return {};
}

bool is_shell(std::string_view program) {
  constexpr auto k_shells =
      std::to_array<std::string_view>({"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "busybox"});
  const std::size_t slash = program.rfind('/');
  if (slash != std::string_view::npos) program.remove_prefix(slash + 1);
  return std::ranges::find(k_shells, program) != k_shells.end();
}

// True if a word of the command line is a shell, possibly after the name of another program, as in "timeout 5
// sh -c 'a && b'".
bool uses_shell(const Trial& trial) {
  const auto has_shell = [](const auto& words) { return words && std::ranges::any_of(*words, is_shell); };
  return has_shell(trial.process.entrypoint) || has_shell(trial.process.cmd);
}

}  // namespace

void warn_of_identifier(const Json& value, const Place& place, Report& report) {
  const std::string where = place_of_identifier(value, {}, place);
  if (where.empty()) return;
  report.warn(Warning::identifier, where,
              "the text UUID is not replaced by the run's id, because it must be the value of a `local` in "
              "the experiment's own file; write local uuid = \"UUID\"; and use uuid");
}

void warn_of_trial(const Trial& trial, const std::string& shell_syntax, Report& report) {
  if (!shell_syntax.empty() && !uses_shell(trial))
    report.warn(Warning::shell, "cmd",
                fmt::format(R"(contains `{}`, but no shell is used; write ["sh", "-c", "..."])",
                            shortened(shell_syntax)));
  const auto mounted = std::ranges::find(trial.container.volumes, true, &Volume::source_is_path);
  if (trial.cache.on && trial.cache.key.empty() && mounted != trial.container.volumes.end())
    report.warn(
        Warning::mounted_cache, "cache",
        fmt::format("the content of {} (`volumes`) is not part of the cache key, so that the trial is "
                    "skipped even if the content has changed; use `inputs`, whose content is part of the key",
                    shortened(mounted->source)));
}

}  // namespace combu::spec
