#include "spec/inputs.hpp"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "spec/fields.hpp"
#include "spec/outputs.hpp"
#include "spec/values.hpp"
#include "spec/volumes.hpp"

namespace combu::spec {

namespace {

constexpr std::array k_input_fields{Spelling{"from", "from"}, Spelling{"to", "to"}};
constexpr std::string_view k_of_trial = "trial:";

class InputReader {
 public:
  InputReader(const Caller& caller, const Place& place, Report& report)
      : caller_(caller), place_(place), report_(report) {}

  std::optional<Input> from_string(const Json& value) {
    const auto text = read_string(value, place_, report_);
    if (!text) return std::nullopt;
    // In FROM:TO, the last ":/" is the beginning of an absolute TO, because FROM may contain colons. If there
    // is no ":/", TO is relative.
    std::size_t colon = text->rfind(":/");
    if (colon == std::string::npos) colon = text->rfind(':');
    const bool has_only_trial = text->starts_with(k_of_trial) && colon == k_of_trial.size() - 1;
    if (colon == std::string::npos || has_only_trial || text->compare(colon, 3, "://") == 0) {
      report_.add(place_,
                  fmt::format(R"("{}" is not an input: write "FROM:TO", where TO is a path in the container)",
                              shortened(*text)));
      return std::nullopt;
    }
    const std::string to = text->substr(colon + 1);
    if (to.find(':') != std::string::npos) {
      report_.add(place_, fmt::format("\"{}\": nothing may follow the path in the container; an input has "
                                      "no mode, because the trial gets its own copy",
                                      shortened(*text)));
      return std::nullopt;
    }
    return make(text->substr(0, colon), place_, to, place_);
  }

  std::optional<Input> from_object(const Json& value) {
    const Section section(value, k_input_fields, place_, report_);
    const auto text = [&](std::string_view name) -> std::optional<std::string> {
      if (const Json* given = section.find(name)) return read_string(*given, place_.key(name), report_);
      if (section.lacks(name)) report_.add(place_.key(name), "missing: an input needs `from` and `to`");
      return std::nullopt;
    };
    const auto from = text("from");
    const auto to = text("to");
    if (!from || !to) return std::nullopt;
    return make(*from, place_.key("from"), *to, place_.key("to"));
  }

 private:
  std::optional<Input> make(const std::string& from, const Place& from_place, const std::string& to,
                            const Place& to_place) {
    Input input{.path = from_place.text()};
    const bool is_known = from.starts_with(k_of_trial)
                              ? read_of_trial(from.substr(k_of_trial.size()), from_place, input)
                              : read_own(from, from_place, input);
    // A relative path begins at the scratch folder, which only attempts in workers have (see check_worker()).
    input.in_scratch = !to.starts_with('/');
    if (input.in_scratch && leads_out(to)) {
      report_.add(to_place, fault_of_scratch_path(to));
      return std::nullopt;
    }
    if (!is_known) return std::nullopt;
    const std::string name = to.ends_with('/') ? std::filesystem::path(input.from).filename().string() : "";
    input.to = normalised((input.in_scratch ? "/" : "") + to + name);
    std::string fault = input.in_scratch ? "" : fault_of_own_folder(input.to);
    if (input.to == "/") fault = "must not be the root of the container; name a path in it";
    if (fault.empty()) return input;
    report_.add(to_place, fault);
    return std::nullopt;
  }

  // Reads the "NAME/PATH" of "trial:NAME/PATH".
  bool read_of_trial(const std::string& text, const Place& place, Input& input) {
    const std::size_t slash = text.find('/');
    input.trial = text.substr(0, slash);
    if (input.trial.empty()) {
      report_.add(place, "the name of the trial is empty: write trial:NAME/PATH");
      return false;
    }
    if (slash == std::string::npos) {
      report_.add(place,
                  fmt::format("must name an output of the trial: write trial:{}/PATH", shortened(text)));
      return false;
    }
    input.from = normalised(text.substr(slash));
    return expect_no_pattern(input.from, place, report_);
  }

  bool read_own(const std::string& text, const Place& place, Input& input) {
    if (text.empty()) {
      report_.add(place, "the path is empty");
    } else if (text.find("://") != std::string::npos) {
      report_.add(place, fmt::format("\"{}\" is not supported yet: name a file, a folder or a trial's output",
                                     shortened(text)));
    } else if (text.starts_with('~') && text != "~" && !text.starts_with("~/")) {
      report_.add(place,
                  fmt::format("\"{}\": only your own home folder, `~/`, is supported; write an absolute path",
                              shortened(text)));
    } else {
      input.from = absolute_path(text, caller_);
      return true;
    }
    return false;
  }

  const Caller& caller_;
  const Place& place_;
  Report& report_;
};

// The target paths of one trial's inputs, in a sorted set because a trial may have thousands of inputs.
class Places {
 public:
  // Adds the target of an input. If the target conflicts with another input's target, returns a message about
  // the conflict, else nullopt. `input.to` must be within the container or the scratch folder.
  std::optional<std::string> take(const Input& input) {
    // Absolute paths begin with a slash, and paths in the scratch folder with "./".
    return take(input.in_scratch ? "." + input.to : input.to);
  }

 private:
  std::optional<std::string> take(const std::string& path) {
    for (std::size_t slash = path.rfind('/'); slash > 1; slash = path.rfind('/', slash - 1))
      if (const auto above = taken_.find(path.substr(0, slash)); above != taken_.end())
        return within(path, *above);
    const auto below = taken_.lower_bound(path + '/');
    if (below != taken_.end() && holds_path(path, *below)) return within(*below, path);
    if (taken_.insert(path).second) return std::nullopt;
    return fmt::format("two inputs have the same path in the container, {}", shown(path));
  }

  static std::string within(const std::string& path, const std::string& above) {
    return fmt::format("{} is within {}, which is the path of another input", shown(path), shown(above));
  }

  static std::string shown(const std::string& path) {
    return shortened(path.starts_with("./") ? path.substr(2) : path);
  }

  std::set<std::string> taken_;
};

}  // namespace

std::vector<Input> read_inputs(const Json& value, const Caller& caller, const Place& place, Report& report) {
  std::vector<Input> inputs;
  Places places;
  const auto take = [&](const Json& element, const Place& here) {
    InputReader reader(caller, here, report);
    std::optional<Input> input;
    if (element.is_string()) {
      input = reader.from_string(element);
    } else if (element.is_object()) {
      input = reader.from_object(element);
    } else {
      report.add(here, fmt::format("must be \"FROM:TO\" or {{from, to}}, not {}", kind_of(element)));
    }
    if (!input) return;
    if (const auto fault = places.take(*input)) {
      report.add(here, *fault);
    } else {
      inputs.push_back(std::move(*input));
    }
  };
  if (value.is_object()) {
    take(value, place);
  } else {
    read_list(value, "inputs", place, report, take);
  }
  return inputs;
}

void add_depends(Trial& trial) {
  std::unordered_set<std::string> known;
  for (const Depend& depend : trial.depends)
    if (depend.condition == Condition::succeeded) known.insert(depend.trial);
  for (const Input& input : trial.inputs)
    if (!input.trial.empty() && known.insert(input.trial).second)
      trial.depends.push_back({input.trial, Condition::succeeded, input.path});
}

}  // namespace combu::spec
