#include "spec/environment.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <functional>
#include <optional>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "spec/values.hpp"

namespace combu::spec {

std::optional<std::string> fault_of_variable(std::string_view name) {
  if (name.empty()) return "a variable's name is empty";
  if (name.find_first_of(std::string_view("=\0", 2)) == std::string_view::npos) return std::nullopt;
  return fmt::format("\"{}\" is not the name of a variable: it must not contain `=` or NUL", shortened(name));
}

namespace {

// Returns the fault of a name, or nullopt if the name is valid.
using NameFault = std::function<std::optional<std::string>(std::string_view)>;
// Returns the value of a variable or label whose value the file does not give; nullopt: the variable or label
// is left out.
using Absent = std::function<std::optional<std::string>(const std::string&)>;

class PairReader {
 public:
  PairReader(NameFault fault, Absent absent, Report& report)
      : fault_(std::move(fault)), absent_(std::move(absent)), report_(report) {}

  PairMap read(const Json& value, const Place& place) {
    if (value.is_object()) {
      for (const auto& [name, element] : value.items()) put_named(name, element, place.key(name));
    } else if (value.is_array()) {
      std::size_t index = 0;
      for (const Json& element : value) put_joined(element, place.index(index++));
    } else {
      report_.add(place, fmt::format("must be an object or an array of \"K=V\", not {}", kind_of(value)));
    }
    return std::move(pairs_);
  }

 private:
  void put_named(const std::string& name, const Json& value, const Place& place) {
    if (value.is_null()) {
      put(name, std::nullopt, place);
    } else if (auto text = read_text(value, place, report_)) {
      put(name, std::move(text), place);
    }
  }
  void put_joined(const Json& element, const Place& place) {
    const auto text = read_string(element, place, report_);
    if (!text) return;
    const std::size_t equals = text->find('=');
    put(text->substr(0, equals),
        equals == std::string::npos ? std::nullopt : std::optional(text->substr(equals + 1)), place);
  }
  void put(const std::string& name, std::optional<std::string> value, const Place& place) {
    if (auto fault = fault_(name)) {
      report_.add(place, *fault);
    } else if (!names_.insert(name).second) {
      report_.add(place, fmt::format("`{}` is given twice", shortened(name)));
    } else {
      if (!value) value = absent_(name);
      if (value) pairs_.put(name, std::move(*value));
    }
  }

  NameFault fault_;
  Absent absent_;
  Report& report_;
  std::unordered_set<std::string> names_;
  PairMap pairs_;
};

std::optional<std::string> fault_of_label(std::string_view name) {
  if (name.empty()) return "a label's name is empty";
  if (name.find('\0') != std::string_view::npos) return "a label's name must not contain a NUL character";
  if (!name.starts_with("combu.")) return std::nullopt;
  return fmt::format("labels that begin with `combu.` are reserved for combu; rename `{}`", shortened(name));
}

constexpr Bytes k_env_file_max{std::int64_t{16} << 20U};

// The content of a file, or why it cannot be read.
struct FileText {
  std::string text;
  std::string fault;
};
FileText read_file(const std::string& path) {
  try {
    auto text = read_regular_file(path, k_env_file_max);
    if (!text) return {"", std::generic_category().message(ENOENT)};
    return {*std::move(text), ""};
  } catch (const Error& error) {
    return {"", "it " + error.message()};
  }
}

// Reads one line of a file into `pairs`. Returns the fault of the line, or an empty string. Values are taken
// verbatim, including quotes: https://docs.docker.com/reference/cli/docker/container/run/#env
std::string put_line(std::string_view line, const Caller& caller, PairMap& pairs) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  line.remove_prefix(std::min(line.find_first_not_of(" \t\v\f"), line.size()));
  if (line.empty() || line.starts_with('#')) return "";
  const std::size_t equals = line.find('=');
  const std::string name(line.substr(0, equals));
  if (name.empty()) return "a variable's name is missing before `=`";
  if (line.find('\0') != std::string_view::npos) return "must not contain a NUL character";
  if (name.find_first_of(" \t\v\f") != std::string::npos) {
    return fmt::format("the variable's name \"{}\" must not contain a blank", shortened(name));
  }
  if (equals != std::string_view::npos) {
    pairs.put(name, std::string(line.substr(equals + 1)));
  } else if (auto value = caller.env(name)) {
    pairs.put(name, std::move(*value));
  }
  return "";
}

}  // namespace

std::size_t PairMap::find(const std::string& name) const {
  if (!index_.empty()) {
    const auto found = index_.find(name);
    return found == index_.end() ? k_absent : found->second;
  }
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    if (pairs_[i].first == name) return i;
  }
  return k_absent;
}

void PairMap::put(const std::string& name, std::string value) {
  if (const std::size_t found = find(name); found != k_absent) {
    pairs_[found].second = std::move(value);
    return;
  }
  // Minimum number of pairs for an index. With fewer pairs, as in most trials, a linear search is faster.
  constexpr std::size_t k_few = 16;
  pairs_.emplace_back(name, std::move(value));
  if (pairs_.size() == k_few) {
    for (std::size_t i = 0; i < k_few; ++i) index_.emplace(pairs_[i].first, i);
  } else if (pairs_.size() > k_few) {
    index_.emplace(name, pairs_.size() - 1);
  }
}

void PairMap::put_all(const Pairs& pairs) {
  for (const auto& [name, value] : pairs) put(name, value);
}

const EnvFile& EnvFiles::read(const std::string& path, const Caller& caller, const Place& place,
                              Report& report) {
  const auto [found, is_new] = files_.try_emplace(path);
  if (!is_new) return found->second;
  const FileText file = read_file(path);
  if (!file.fault.empty()) {
    const std::string fault = fmt::format("cannot read {}: {}", shortened(path), file.fault);
    if (caller.may_lack_env_files) {
      found->second.fault = fault;
    } else {
      report.add(place, fault);
    }
    return found->second;
  }
  std::string_view rest = file.text;
  if (rest.starts_with("\xEF\xBB\xBF")) rest.remove_prefix(3);
  PairMap pairs;
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string fault = put_line(rest.substr(0, end), caller, pairs);
    if (!fault.empty()) report.add(place, fmt::format("{}:{}: {}", shortened(path), number, fault));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  found->second.pairs = pairs.take();
  return found->second;
}

PairMap read_env(const Json& value, const Caller& caller, const Place& place, Report& report) {
  return PairReader(fault_of_variable, caller.env, report).read(value, place);
}

PairMap read_labels(const Json& value, const Place& place, Report& report) {
  const auto empty = [](const std::string&) { return std::optional<std::string>(""); };
  return PairReader(fault_of_label, empty, report).read(value, place);
}

std::string param_variable(std::string_view param) {
  std::string name = "COMBU_PARAM_";
  for (const char c : param) {
    const bool upper_or_digit = (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    const bool lower = c >= 'a' && c <= 'z';
    if (upper_or_digit) {
      name += c;
    } else if (lower) {
      name += static_cast<char>(c - 'a' + 'A');
    } else if (!is_inside_character(c)) {
      name += '_';
    }
  }
  return name;
}

void check_params(const Json& params, const Json& reported, const Place& place, Report& report) {
  std::unordered_map<std::string, const std::string*> variables;
  for (const auto& [name, value] : params.items()) {
    if (name.empty()) report.add(place.key(name), "a param's name is empty");
    if (value.is_string() && !read_string(value, place.key(name), report)) continue;
    const auto [same, is_new] = variables.emplace(param_variable(name), &name);
    if (is_new || (reported.contains(name) && reported.contains(*same->second))) continue;
    report.add(place.key(name),
               fmt::format("`{}` and `{}` both set the variable {} in the container; rename one",
                           shortened(name), shortened(*same->second), shortened(same->first)));
  }
}

void put_params(const Json& params, PairMap& env) {
  for (const auto& [name, value] : params.items()) {
    const std::string variable = param_variable(name);
    // A null param sets no variable.
    if (value.is_null() || env.has(variable)) continue;
    env.put(variable, scalar_text(value).value_or(value.is_structured() ? json_text(value) : ""));
  }
}

}  // namespace combu::spec
