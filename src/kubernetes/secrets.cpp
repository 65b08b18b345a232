#include "kubernetes/secrets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "combu/json.hpp"
#include "kubernetes/merge.hpp"
#include "kubernetes/names.hpp"

namespace combu::kubernetes {
namespace {

using nlohmann::json;

constexpr const char* k_volume = "combu-secrets";

// True if a Pod has the secret, and not only an attempt in the Pod.
bool is_of_pod(const Trial& trial, const Secret& secret) {
  return !trial.worker->on || is_of_container(secret);
}

const SecretSource* find_source(const Experiment& experiment, const Secret& secret) {
  const auto found = std::ranges::find(experiment.secrets, secret.source, &SecretSource::name);
  return found == experiment.secrets.end() ? nullptr : &*found;
}

// The name of a Secret, and a key in it.
struct Reference {
  std::string object;
  std::string key;
};

Reference reference_of(const Run& run, const Secret& secret) {
  if (secret.is_in_cluster)
    if (const SecretSource* source = find_source(run.experiment, secret))
      return {source->object, source->key};
  return {secret_name(run.id), secret.source};
}

// The part of a projected volume with the file `path`.
json projection_of(const Reference& reference, const std::string& path) {
  return {{"secret",
           {{"name", reference.object}, {"items", json::array({{{"key", reference.key}, {"path", path}}})}}}};
}

// The keys of a Secret: letters, digits, '-', '_' and '.'.
bool is_key(std::string_view key) {
  constexpr std::size_t k_key_max = 253;
  constexpr std::string_view k_characters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
  return !key.empty() && key.size() <= k_key_max && key != "." && key != ".." &&
         key.find_first_not_of(k_characters) == std::string_view::npos;
}

}  // namespace

bool needs_secret(const Trial& trial) {
  return std::ranges::any_of(*trial.container.secrets, [&](const Secret& secret) {
    return !secret.is_in_cluster && is_of_pod(trial, secret);
  });
}

json empty_secret_manifest(const Run& run, const Home& home) {
  json object = run_object("v1", "Secret", secret_name(run.id), run, home);
  object["type"] = "Opaque";
  return object;
}

json secret_manifest(const Run& run, const Home& home) {
  json object = empty_secret_manifest(run, home);
  std::set<std::string_view> names;
  for (const Trial& trial : run.experiment.trials)
    for (const Secret& secret : *trial.container.secrets)
      if (!secret.is_in_cluster && is_of_pod(trial, secret)) names.insert(secret.source);
  if (!run.secrets) return object;
  for (const auto& [name, value] : *run.secrets)
    if (names.contains(name)) object["data"][name] = encode_base64(value.reveal());
  return object;
}

void add_secrets(json& spec, const Run& run, const Trial& trial, const json& section) {
  constexpr int k_readable = 0444;
  json sources = json::array();
  json& container = spec["containers"][0];
  for (const Secret& secret : *trial.container.secrets) {
    if (!is_of_pod(trial, secret)) continue;
    const Reference reference = reference_of(run, secret);
    if (secret.target.empty()) {
      container["env"].push_back(
          {{"name", secret.variable},
           {"valueFrom", {{"secretKeyRef", {{"name", reference.object}, {"key", reference.key}}}}}});
    } else if (!mounts_at(section, secret.target)) {
      const std::string path = std::to_string(sources.size());
      sources.push_back(projection_of(reference, path));
      container["volumeMounts"].push_back(
          {{"name", k_volume}, {"mountPath", secret.target}, {"subPath", path}, {"readOnly", true}});
    }
  }
  if (!sources.empty())
    spec["volumes"].push_back(
        {{"name", k_volume}, {"projected", {{"defaultMode", k_readable}, {"sources", std::move(sources)}}}});
}

std::vector<const SecretSource*> cluster_sources(const Experiment& experiment) {
  std::set<std::string_view> names;
  for (const Trial& trial : experiment.trials)
    for (const Secret& secret : *trial.container.secrets)
      if (secret.is_in_cluster) names.insert(secret.source);
  std::vector<const SecretSource*> sources;
  for (const SecretSource& source : experiment.secrets)
    if (names.contains(source.name)) sources.push_back(&source);
  return sources;
}

std::vector<Error> check_secret_names(const Experiment& experiment) {
  std::vector<Error> errors;
  for (const SecretSource* source : cluster_sources(experiment)) {
    if (!is_dns_subdomain(source->object))
      errors.emplace_back(
          ErrorKind::refused, source->path + ".kubernetes.secret",
          fmt::format("\"{}\" cannot be the name of a Secret, which must be lower-case letters, "
                      "digits, `-` and `.`; correct the name",
                      shortened(source->object)));
    if (!is_key(source->key))
      errors.emplace_back(
          ErrorKind::refused, source->path + ".kubernetes.key",
          fmt::format("\"{}\" cannot be a key of a Secret, which must be letters, digits, `-`, "
                      "`_` and `.`; correct the key",
                      shortened(source->key)));
  }
  return errors;
}

}  // namespace combu::kubernetes
