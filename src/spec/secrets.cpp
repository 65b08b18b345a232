#include "spec/secrets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string_view>
#include <utility>

#include "spec/environment.hpp"
#include "spec/fields.hpp"
#include "spec/outputs.hpp"
#include "spec/values.hpp"
#include "spec/volumes.hpp"

namespace combu::spec {
namespace {

constexpr std::array k_use_fields{Spelling{"source", "source"}, Spelling{"target", "target"},
                                  Spelling{"env", "env"}, Spelling{"environment", "env"}};
constexpr std::array k_source_fields{Spelling{"file", "file"}, Spelling{"env", "env"},
                                     Spelling{"environment", "env"}, Spelling{"command", "command"},
                                     Spelling{"kubernetes", "kubernetes"}};
constexpr std::array k_cluster_fields{Spelling{"secret", "secret"}, Spelling{"key", "key"}};
constexpr std::string_view k_default_folder = "/run/secrets/";

// The name is also the key of the value in a Secret of a cluster, and the name of a file.
std::optional<std::string> fault_of_secret_name(std::string_view name) {
  constexpr std::size_t k_name_max = 63;
  const auto is_plain = [](unsigned char c) { return c < 128 && std::isalnum(c) != 0; };
  const bool is_valid = !name.empty() && name.size() <= k_name_max && is_plain(name.front()) &&
                        std::ranges::all_of(name, [&](unsigned char c) {
                          return is_plain(c) || c == '.' || c == '_' || c == '-';
                        });
  if (is_valid) return std::nullopt;
  return fmt::format(
      "\"{}\" is not the name of a secret: it must be 1 to {} letters, digits, `.`, `_` and `-`, and begin "
      "with a letter or digit",
      shortened(name), k_name_max);
}

// ---- The trial's field

class UseReader {
 public:
  UseReader(const Place& place, Report& report) : place_(place), report_(report) {}

  std::optional<Secret> from_string(const Json& value) {
    auto name = read_string(value, place_, report_);
    if (!name) return std::nullopt;
    return make(std::move(*name), std::nullopt, std::nullopt, place_);
  }

  std::optional<Secret> from_object(const Json& value) {
    const Section section(value, k_use_fields, place_, report_);
    const auto text = [&](std::string_view name) -> std::optional<std::string> {
      const Json* given = section.find(name);
      return given == nullptr ? std::nullopt
                              : read_string(*given, place_.key(section.spelling(name)), report_);
    };
    auto source = text("source");
    const auto target = text("target");
    const auto variable = text("env");
    const bool has_both = section.find("target") != nullptr && section.find("env") != nullptr;
    if (section.lacks("source"))
      report_.add(place_.key("source"), "missing: the name of a secret from the field `secrets` of the file");
    if (has_both) report_.add(place_, "has both `target` and `env`: write two elements with this `source`");
    const bool is_read = source && !has_both && target.has_value() == (section.find("target") != nullptr) &&
                         variable.has_value() == (section.find("env") != nullptr);
    if (!is_read) return std::nullopt;
    return make(std::move(*source), target, variable,
                place_.key(section.spelling(variable ? "env" : "target")));
  }

 private:
  // `place`: of the target or variable.
  std::optional<Secret> make(std::string source, const std::optional<std::string>& target,
                             const std::optional<std::string>& variable, const Place& place) {
    if (const auto fault = fault_of_secret_name(source)) {
      report_.add(place_, *fault);
      return std::nullopt;
    }
    Secret secret{.source = std::move(source), .path = place_.text()};
    if (variable) {
      if (const auto fault = fault_of_variable(*variable)) {
        report_.add(place, *fault);
        return std::nullopt;
      }
      secret.variable = *variable;
      return secret;
    }
    const std::string path = target.value_or(std::string(k_default_folder) + secret.source);
    if (!path.starts_with('/')) {
      report_.add(place, fmt::format("the path in the container, \"{}\", must begin with `/`; for example, "
                                     "write {}{}",
                                     shortened(path), k_default_folder, secret.source));
      return std::nullopt;
    }
    secret.target = normalised(path.ends_with('/') ? path + secret.source : path);
    return secret;
  }

  const Place& place_;
  Report& report_;
};

std::string place_text(const Secret& secret) {
  return secret.target.empty() ? fmt::format("the variable {}", shortened(secret.variable))
                               : fmt::format("the path {}", shortened(secret.target));
}

// ---- The file's field

class SourceReader {
 public:
  SourceReader(const Caller& caller, const Place& place, Report& report)
      : caller_(caller), place_(place), report_(report) {}

  std::optional<SecretSource> read(const std::string& name, const Json& value) {
    if (!value.is_object()) {
      report_.add(place_, fmt::format("must be {{file}}, {{env}}, {{command}} or {{kubernetes}}, not {}",
                                      kind_of(value)));
      return std::nullopt;
    }
    const Section section(value, k_source_fields, place_, report_);
    SecretSource source{.name = name, .path = place_.text()};
    std::size_t count = 0;
    bool is_valid = true;
    const auto take = [&](std::string_view field, auto read_field) {
      const Json* given = section.find(field);
      if (given == nullptr) return;
      ++count;
      is_valid = read_field(*given, place_.key(section.spelling(field)), source) && is_valid;
    };
    take("file", [&](const Json& given, const Place& place, SecretSource& to) {
      return read_file(given, place, to);
    });
    take("env", [&](const Json& given, const Place& place, SecretSource& to) {
      return read_variable(given, place, to);
    });
    take("command", [&](const Json& given, const Place& place, SecretSource& to) {
      return read_command(given, place, to);
    });
    take("kubernetes", [&](const Json& given, const Place& place, SecretSource& to) {
      return read_cluster(given, place, to);
    });
    if (count > 1)
      report_.add(place_, "has several sources; keep one of `file`, `env`, `command` and `kubernetes`");
    if (count == 0 && std::ranges::all_of(k_source_fields,
                                          [&](const Spelling& field) { return section.lacks(field.name); }))
      report_.add(place_, "has no source; give one of `file`, `env`, `command` and `kubernetes`");
    return is_valid && count == 1 ? std::optional(std::move(source)) : std::nullopt;
  }

 private:
  bool read_file(const Json& value, const Place& place, SecretSource& source) {
    const auto path = read_string(value, place, report_);
    if (!path) return false;
    if (path->empty()) {
      report_.add(place, "the file's path is empty");
      return false;
    }
    source.file = absolute_path(*path, caller_);
    return true;
  }

  bool read_variable(const Json& value, const Place& place, SecretSource& source) {
    auto name = read_string(value, place, report_);
    if (!name) return false;
    if (const auto fault = fault_of_variable(*name)) {
      report_.add(place, *fault);
      return false;
    }
    source.variable = std::move(*name);
    return true;
  }

  bool read_command(const Json& value, const Place& place, SecretSource& source) {
    auto words = read_words(value, place, report_);
    if (!words) return false;
    if (words->empty() || words->front().empty()) {
      report_.add(place, "must begin with the name of a program");
      return false;
    }
    source.command = std::move(*words);
    return true;
  }

  bool read_cluster(const Json& value, const Place& place, SecretSource& source) {
    if (!value.is_object()) {
      report_.add(place, fmt::format("must be {{secret, key}}, not {}", shown(value)));
      return false;
    }
    const Section section(value, k_cluster_fields, place, report_);
    const auto text = [&](std::string_view name, std::string& to) {
      const Json* given = section.find(name);
      if (given == nullptr) {
        if (section.lacks(name))
          report_.add(place.key(name), "missing: a Secret of the cluster needs `secret` and `key`");
        return false;
      }
      const auto read = read_string(*given, place.key(name), report_);
      if (read && read->empty()) report_.add(place.key(name), "is empty");
      to = read.value_or("");
      return !to.empty();
    };
    const bool has_object = text("secret", source.object);
    return text("key", source.key) && has_object;
  }

  const Caller& caller_;
  const Place& place_;
  Report& report_;
};

// ---- Conflicts in a trial

// Returns why the file of a secret cannot be at its target, or an empty text.
std::string conflict_of_target(const Trial& trial, const std::string& target) {
  if (auto fault = fault_of_own_folder(target); !fault.empty()) return fault;
  const auto within = [](const std::string& inner, const std::string& outer) {
    return holds_path(outer, inner);
  };
  for (const Volume& volume : trial.container.volumes) {
    if (within(target, volume.target))
      return fmt::format("{} is in the volume at {}, which is on a disk; choose a path outside of volumes",
                         shortened(target), shortened(volume.target));
    if (within(volume.target, target))
      return fmt::format("{} is a file, but the volume at {} needs a folder there; choose another path",
                         shortened(target), shortened(volume.target));
  }
  for (const Input& input : trial.inputs)
    if (!input.in_scratch && (within(target, input.to) || within(input.to, target)))
      return fmt::format("{} is also the path of an input, {}; choose another path", shortened(target),
                         shortened(input.to));
  for (const Output& output : trial.outputs)
    if (!output.in_scratch && (within(target, output.path) || within(output.path, target)))
      return fmt::format("combu would collect the secret with the output {}; choose another path",
                         shortened(output.path));
  if (trial.metrics->file == target)
    return fmt::format("{} is also the path of the metrics; choose another path", shortened(target));
  return "";
}

std::string conflict_of(const Trial& trial, const Secret& secret) {
  if (!secret.target.empty()) {
    for (const Secret& other : *trial.container.secrets)
      if (!other.target.empty() && other.target != secret.target && holds_path(other.target, secret.target))
        return fmt::format("{} is within {}, which is the file of another secret", shortened(secret.target),
                           shortened(other.target));
    return conflict_of_target(trial, secret.target);
  }
  const auto is_set =
      std::ranges::any_of(trial.process.env, [&](const auto& pair) { return pair.first == secret.variable; });
  return is_set
             ? fmt::format("the variable {} is also set by `env`, `env_file` or `params`; remove one of both",
                           shortened(secret.variable))
             : "";
}

}  // namespace

std::vector<Secret> read_secrets(const Json& value, const Place& place, Report& report) {
  std::vector<Secret> secrets;
  if (value.is_object()) {
    report.add(place,
               "must be an array of secrets, such as [\"token\"]; the sources of secrets belong into the "
               "field `secrets` at the top level of the file");
    return secrets;
  }
  std::set<std::pair<std::string, std::string>> taken;
  read_list(value, "secrets", place, report, [&](const Json& element, const Place& here) {
    UseReader reader(here, report);
    std::optional<Secret> secret;
    if (element.is_string()) {
      secret = reader.from_string(element);
    } else if (element.is_object()) {
      secret = reader.from_object(element);
    } else {
      report.add(here, fmt::format("must be a name, {{source, target}} or {{source, env}}, not {}",
                                   kind_of(element)));
    }
    if (!secret) return;
    if (taken.emplace(secret->target, secret->variable).second) {
      secrets.push_back(std::move(*secret));
    } else {
      report.add(here, fmt::format("two secrets have {}", place_text(*secret)));
    }
  });
  return secrets;
}

void SecretChecks::read(const Json& value, const Caller& caller, const Place& place, Report& report) {
  if (!value.is_object()) {
    report.add(place, fmt::format("must be an object from names to sources, such as {{ token: {{ file: "
                                  "\"token.txt\" }} }}, not {}",
                                  kind_of(value)));
    return;
  }
  for (const auto& [name, element] : value.items()) {
    const Place here = place.key(name);
    // Jsonnet's `if` without `else` returns null.
    if (own_field(name) || element.is_null()) continue;
    if (!names_.insert(name).second) {
      report.add(here, fmt::format("`{}` is given twice", shortened(name)));
    } else if (const auto fault = fault_of_secret_name(name)) {
      report.add(here, *fault);
    } else if (auto source = SourceReader(caller, here, report).read(name, element)) {
      index_.emplace(name, sources_.size());
      sources_.push_back(std::move(*source));
    }
  }
}

std::string SecretChecks::unknown_source(const std::string& name) const {
  if (names_.empty())
    return fmt::format(
        "no source has the name `{}`; the file needs the field `secrets` at the top level, such as "
        "{{ secrets: {{ {}: {{ file: \"PATH\" }} }}, trials: […] }}",
        shortened(name), shortened(name));
  const std::vector<std::string_view> known(names_.begin(), names_.end());
  const auto near = nearest(name, known);
  return fmt::format(
      "no source has the name `{}`{}", shortened(name),
      near ? fmt::format(": did you mean `{}`?", *near) : "; add it to the field `secrets` of the file");
}

void SecretChecks::take(Trial& trial, Report& report) {
  if (!trial.container.secrets) return;
  std::vector<Secret> secrets = *trial.container.secrets;
  for (Secret& secret : secrets) {
    used_.insert(secret.source);
    const auto source = index_.find(secret.source);
    std::string fault;
    if (source != index_.end()) {
      secret.is_in_cluster = !sources_[source->second].object.empty();
      fault = conflict_of(trial, secret);
    } else if (!names_.contains(secret.source)) {
      fault = unknown_source(secret.source);
    }
    if (!fault.empty() && reported_.insert(secret.path).second) report.add_at(secret.path, fault);
  }
  trial.container.secrets = std::move(secrets);
}

std::vector<SecretSource> SecretChecks::finish(Report& report) {
  for (const SecretSource& source : sources_)
    if (!used_.contains(source.name))
      report.warn(Warning::unused_secret, source.path,
                  "no trial uses this secret, so combu does not read it");
  return std::move(sources_);
}

}  // namespace combu::spec
