#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "combu/cache.hpp"
#include "combu/json.hpp"

namespace combu {
namespace {

using Json = nlohmann::json;

// Length of a random run id. A shorter run id, which --run-id can set, may occur in unrelated texts.
constexpr std::size_t k_run_id_size = 12;
constexpr std::string_view k_run_word = "UUID";
constexpr std::string_view k_hash = "sha256:";

Json words(const std::optional<std::vector<std::string>>& given) {
  return given ? Json(*given) : Json();
}

Json volumes_of(const std::vector<Volume>& given) {
  Json volumes = Json::array();
  for (const Volume& volume : given)
    volumes.push_back(fmt::format("{}:{}{}", volume.source, volume.target, volume.read_only ? ":ro" : ""));
  return volumes;
}

Json outputs_of(const Trial& trial) {
  Json outputs = Json::object();
  for (const Output& output : trial.outputs)
    outputs[output.path_in_container()] = {{"required", output.required},
                                           {"max_size", output.size_max.count}};
  return outputs;
}

Json metrics_of(const Rare<Metrics>& metrics) {
  if (!metrics) return {};
  Json parts = {{"json", metrics->json}, {"pattern", metrics->pattern}, {"file", metrics->file}};
  if (metrics->step != Metrics().step) parts["step"] = metrics->step;
  return parts;
}

// Includes the number and kind of the GPUs, but not their memory and ids, which should not change the
// outputs.
Json gpus_of(const GpuRequest& gpus) {
  if (gpus.empty()) return {};
  return {{"count", gpus.all ? Json("all") : Json(gpus.count)}, {"kind", gpus.kind}};
}

Json inputs_of(const Trial& trial, const std::vector<std::string>& digests) {
  Json inputs = Json::object();
  for (std::size_t i = 0; i < digests.size(); ++i)
    inputs[trial.inputs.at(i).path_in_container()] = digests[i];
  return inputs;
}

// A secret counts by its name, and not by its value.
Json secrets_of(const Trial& trial) {
  Json secrets = Json::object();
  for (const Secret& secret : *trial.container.secrets)
    secrets[secret.target.empty() ? secret.variable : secret.target] = secret.source;
  return secrets;
}

Json object_of(const std::string& text) {
  return text.empty() ? Json::object() : parse_json(text);
}

Json all_parts(const Trial& trial, const std::vector<std::string>& inputs) {
  const Process& process = trial.process;
  Json env = Json::object();
  for (const auto& [name, value] : process.env) env[name] = value;  // hide_env() replaces `value` by its hash
  return {{"name", trial.name},
          {"entrypoint", words(process.entrypoint)},
          {"cmd", words(process.cmd)},
          {"env", std::move(env)},
          {"workdir", process.workdir},
          {"user", process.user},
          {"params", object_of(trial.params)},
          {"platform", trial.platform},
          {"volumes", volumes_of(trial.container.volumes)},
          {"networks", trial.container.networks},
          {"cpus", to_string(trial.slots.cpus)},
          {"memory", trial.slots.memory.count},
          {"gpus", gpus_of(*trial.gpus)},
          {"inputs", inputs_of(trial, inputs)},
          {"secrets", secrets_of(trial)},
          {"metrics", metrics_of(trial.metrics)},
          {"docker", object_of(trial.container.docker)},
          {"kubernetes", object_of(trial.container.kubernetes)}};
}

bool is_empty(const Json& part) {
  if (part.is_string()) return part.get_ref<const std::string&>().empty();
  return part.is_null() || (part.is_structured() && part.empty());
}

// Returns the parts that `key` names. The name "params.lr" selects one member of "params".
Json chosen_parts(Json all, const std::vector<std::string>& key) {
  Json parts = Json::object();
  for (const std::string& wanted : key) {
    const std::size_t dot = wanted.find('.');
    const auto part = all.find(wanted.substr(0, dot));
    if (part == all.end()) continue;  // the image and the outputs, which cache_key() always adds
    if (dot == std::string::npos) {
      parts[wanted] = *part;
    } else {
      parts[wanted] = part->value(wanted.substr(dot + 1), Json());
    }
  }
  return parts;
}

Json default_parts(Json all) {
  for (const char* other : {"name", "cpus", "memory"}) all.erase(other);
  // A field that the trial does not set has no entry.
  for (auto part = all.begin(); part != all.end();)
    part = is_empty(*part) ? all.erase(part) : std::next(part);
  // `env` repeats each param as an entry COMBU_PARAM_NAME. These entries are redundant.
  if (const auto env = all.find("env"); env != all.end()) {
    for (auto one = env->begin(); one != env->end();)
      one =
          one.key().starts_with("COMBU_PARAM_") && all.contains("params") ? env->erase(one) : std::next(one);
    if (env->empty()) all.erase(env);
  }
  return all;
}

void forget_run(Json& json, const std::string& run) {
  if (json.is_string()) {
    auto& text = json.get_ref<std::string&>();
    for (std::size_t at = text.find(run); at != std::string::npos;
         at = text.find(run, at + k_run_word.size()))
      text.replace(at, run.size(), k_run_word);
  } else if (json.is_structured()) {
    for (Json& element : json) forget_run(element, run);
  }
}

// The record must not contain secrets from an `env_file` or from the caller's environment.
void hide_env(Json& parts) {
  const auto hide = [](Json& value) {
    if (value.is_string()) value = fmt::format("{}{}", k_hash, sha256_of(value.get<std::string>()));
  };
  for (const auto& part : parts.items()) {
    if (part.key() == "env") {
      for (Json& value : part.value()) hide(value);
    } else if (part.key().starts_with("env.")) {
      hide(part.value());
    }
  }
}

bool is_hash(const Json& value) {
  return value.is_string() && value.get_ref<const std::string&>().starts_with(k_hash);
}

std::string shown(const Json& value) {
  if (value.is_null()) return "not given";
  if (value.is_array() && std::ranges::all_of(value, [](const Json& one) { return one.is_string(); })) {
    std::string line;
    for (const Json& word : value) line += (line.empty() ? "" : " ") + word.get<std::string>();
    return shortened(line);
  }
  return shortened(unquoted_text(value));
}

// Adds each difference between `now` and `before` to `found`. Compares objects member by member.
void compare(const std::string& path, const Json& now, const Json& before, std::vector<std::string>& found) {
  if (now == before) return;
  const bool goes_down = (now.is_object() || now.is_null()) && (before.is_object() || before.is_null());
  if (!goes_down) {
    found.push_back(is_hash(now) && is_hash(before)
                        ? fmt::format("{} differs", path)
                        : fmt::format("{} is {}, but was {}", path, is_hash(now) ? "given" : shown(now),
                                      is_hash(before) ? "given" : shown(before)));
    return;
  }
  std::set<std::string> names;
  for (const Json* one : {&now, &before})
    if (one->is_object())
      for (const auto& element : one->items()) names.insert(element.key());
  if (names.empty()) return;
  for (const std::string& name : names)
    compare(path.empty() ? name : fmt::format("{}.{}", path, name),
            now.is_object() ? now.value(name, Json()) : Json(),
            before.is_object() ? before.value(name, Json()) : Json(), found);
}

}  // namespace

CacheKey cache_key(const Trial& trial, const RunId& run, std::string_view digest,
                   const std::vector<std::string>& inputs) {
  Json all = all_parts(trial, inputs);
  Json parts =
      trial.cache.key.empty() ? default_parts(std::move(all)) : chosen_parts(std::move(all), trial.cache.key);
  if (run.text().size() >= k_run_id_size) forget_run(parts, run.text());
  hide_env(parts);
  parts["image"] = digest;
  if (!trial.outputs.empty()) parts["outputs"] = outputs_of(trial);
  CacheKey key{.hash = {}, .parts = json_text(parts)};
  key.hash = sha256_of(key.parts);
  return key;
}

std::vector<std::string> differences(std::string_view now, std::string_view before) {
  std::vector<std::string> found;
  compare("", parse_json(now), parse_json(before), found);
  return found;
}

}  // namespace combu
