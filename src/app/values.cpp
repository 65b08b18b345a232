#include "app/values.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "combu/json.hpp"
#include "combu/text.hpp"

namespace combu {
namespace {

// Returns an invocation's lists of values and import folders, each with the name of the list in the record.
template <class Lists>
auto lists_of(Lists& invocation) {
  return std::array{std::pair{"ext_str", &invocation.ext_str}, std::pair{"ext_code", &invocation.ext_code},
                    std::pair{"tla_str", &invocation.tla_str}, std::pair{"tla_code", &invocation.tla_code},
                    std::pair{"jpath", &invocation.import_dirs}};
}

bool has_values(const Invocation& invocation) {
  return !invocation.ext_str.empty() || !invocation.ext_code.empty() || !invocation.tla_str.empty() ||
         !invocation.tla_code.empty();
}

// Returns the values in the command line with which the run began, such as `-A n=5`; empty if there are none.
std::string values_begun_with(const RunEntry& entry) {
  constexpr std::array<std::string_view, 6> k_options{"--ext-str",  "--ext-code", "--tla-str",
                                                      "--tla-code", "-V",         "-A"};
  const auto arguments = parse_json(entry.arguments).get<std::vector<std::string>>();
  std::vector<std::string> values;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    for (const std::string_view option : k_options) {
      if (!word.starts_with(option)) continue;
      const bool is_apart = word == option && i + 1 < arguments.size();
      values.push_back(is_apart ? fmt::format("{} {}", word, shell_word(arguments[i + 1]))
                                : shell_word(word));
    }
  }
  return fmt::format("{}", fmt::join(values, " "));
}

}  // namespace

std::string values_text(const Invocation& invocation) {
  Invocation absolute = invocation;
  for (std::string& folder : absolute.import_dirs)
    folder = std::filesystem::absolute(folder).lexically_normal().string();
  auto object = nlohmann::json::object();
  for (const auto& [name, list] : lists_of(absolute)) object[name] = *list;
  return json_text(object);
}

void expect_values(const RunEntry& entry, const Invocation& invocation) {
  if (has_values(invocation)) return;
  const std::string values = values_begun_with(entry);
  if (values.empty()) return;
  throw Error(ErrorKind::invalid, "run " + entry.id.text(),
              fmt::format("was started with `{}`; give the same options again, or others", values));
}

Invocation invocation_for(const RunEntry& entry, Invocation invocation) {
  if (invocation.file.empty()) {
    invocation.file = entry.file;
    invocation.must_be_regular = true;
  }
  if (entry.text.values.empty()) {
    expect_values(entry, invocation);
    return invocation;
  }
  const bool are_given = has_values(invocation);
  const auto object = parse_json(entry.text.values);
  for (const auto& [name, list] : lists_of(invocation)) {
    const bool is_wanted = list == &invocation.import_dirs ? list->empty() : !are_given;
    if (is_wanted) *list = object.at(name).template get<std::vector<std::string>>();
  }
  return invocation;
}

}  // namespace combu
