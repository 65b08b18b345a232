#include <fmt/core.h>

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "combu/json.hpp"
#include "combu/registry.hpp"
#include "docker/container_json.hpp"
#include "docker/docker_engine.hpp"
#include "docker/duplicate_networks.hpp"

namespace combu::docker {
namespace {

constexpr std::size_t k_pulls_in_flight = 4;
constexpr Seconds k_credential_program_max{30};

// An image that trials need, with the names of all these trials.
struct Wanted {
  std::string image;
  std::string platform;
  Pull pull = Pull::never;
  std::vector<std::string> trials;
  std::optional<ImageFacts> facts;
  std::optional<Error> error;
};

using ImageKey = std::pair<std::string, std::string>;  // reference and platform

ImageKey key_of(const Trial& trial) {
  return {trial.image, trial.platform};
}

// Ranks the values of `pull`: if the trials of an image have different values, the value with the highest
// rank applies to all of them.
int eagerness(Pull pull) {
  return pull == Pull::always ? 2 : pull == Pull::missing ? 1 : 0;
}

std::map<ImageKey, Wanted> wanted_images(const Run& run) {
  std::map<ImageKey, Wanted> images;
  for (const Trial& trial : run.experiment.trials) {
    Wanted& wanted = images[key_of(trial)];
    wanted.image = trial.image;
    wanted.platform = trial.platform;
    if (eagerness(trial.pull) > eagerness(wanted.pull)) wanted.pull = trial.pull;
    wanted.trials.push_back(trial.name);
  }
  return images;
}

std::string needed_by(const std::vector<std::string>& trials) {
  constexpr std::size_t k_named = 3;
  return "needed by " + list_text(trials, k_named);
}

bool is_of_platform(const ImageFacts& facts, const std::string& platform) {
  // Not every engine reports the variant of a platform, such as "v7" in "linux/arm/v7".
  return platform.empty() || platform == facts.platform || platform.starts_with(facts.platform + "/");
}

// Returns the value of the header X-Registry-Auth.
std::string header_of(const registry::Login& login, const std::string& registry_key) {
  if (login.is_anonymous()) return "";
  nlohmann::json auth = {{"serveraddress", registry_key}};
  if (!login.identity_token.empty()) {
    auth["identitytoken"] = login.identity_token;
  } else {
    auth["username"] = login.user;
    auth["password"] = login.password;
  }
  return encode_base64url(json_text(auth));
}

class ImagePreparer {
 public:
  ImagePreparer(Connections& engine, std::string config_folder,
                const std::function<void(const Preparation&)>& on_progress, std::stop_token stop)
      : engine_(engine),
        config_folder_(std::move(config_folder)),
        on_progress_(on_progress),
        stop_(std::move(stop)) {}

  void prepare(Wanted& wanted) {
    try {
      wanted.facts = inspect_image(engine_, wanted.image, stop_);
      if (wanted.facts && !is_of_platform(*wanted.facts, wanted.platform)) wanted.facts.reset();
      if (wanted.pull == Pull::always || (wanted.pull == Pull::missing && !wanted.facts)) pull(wanted);
      if (!wanted.facts) return refuse(wanted, ErrorKind::not_found, why_absent(wanted));
      on_progress_({.kind = Preparation::Kind::found,
                    .name = wanted.image,
                    .platform = wanted.platform,
                    .digest = wanted.facts->digest,
                    .program = wanted.facts->program});
    } catch (const Error& error) {
      if (!is_definite(error)) throw;
      refuse(wanted, error.kind(), error.message());
    }
  }

 private:
  static std::string_view why_absent(const Wanted& wanted) {
    return wanted.pull == Pull::never
               ? "the engine does not have the image, and `pull` is \"never\"; build or pull the image first"
               : "the image was pulled, but the engine does not have it";
  }

  static void refuse(Wanted& wanted, ErrorKind kind, std::string_view why) {
    const std::string platform = wanted.platform.empty() ? "" : fmt::format(" for {}", wanted.platform);
    wanted.error =
        Error(kind, wanted.image + platform, fmt::format("{} ({})", why, needed_by(wanted.trials)));
  }

  void pull(Wanted& wanted) {
    Preparation preparation;
    preparation.name = wanted.image;
    on_progress_(preparation);
    const std::string key = registry::parse_image_reference(wanted.image).credentials_key();
    const registry::FoundLogin found =
        registry::find_login(config_folder_, key, k_credential_program_max, stop_);
    try {
      pull_image(
          engine_, {wanted.image, wanted.platform, header_of(found.login, key)},
          [&](Bytes done, Bytes total) {
            preparation.done = done;
            preparation.total = total;
            on_progress_(preparation);
          },
          stop_);
    } catch (const Error& error) {
      if (!is_definite(error) || found.note.empty()) throw;
      throw Error(error.kind(), error.subject(), error.message() + "; also, " + found.note);
    }
    wanted.facts = inspect_image(engine_, wanted.image, stop_);
    preparation.finished = true;
    on_progress_(preparation);
  }

  Connections& engine_;
  std::string config_folder_;
  const std::function<void(const Preparation&)>& on_progress_;
  std::stop_token stop_;
};

bool checks_its_health(const Trial& trial, const std::map<ImageKey, Wanted>& images) {
  const Wanted& image = images.at(key_of(trial));
  if (trial.healthcheck && !trial.healthcheck->test.empty()) return trial.healthcheck->test.front() != "NONE";
  // If the image is missing, assume that the image has a health check, because an error already reports the
  // missing image.
  return !image.facts || image.facts->has_healthcheck;
}

// Adds an error for each trial without a health check for which another trial waits with the condition
// `healthy`.
void check_health(const Run& run, const std::map<ImageKey, Wanted>& images, std::vector<Error>& errors) {
  std::unordered_map<std::string, const Trial*> by_name;
  for (const Trial& trial : run.experiment.trials) by_name.emplace(trial.name, &trial);
  std::set<std::string> warned;
  for (const Trial& trial : run.experiment.trials) {
    for (const Depend& depend : trial.depends) {
      const auto needed = by_name.find(depend.trial);
      if (depend.condition != Condition::healthy || needed == by_name.end()) continue;
      if (checks_its_health(*needed->second, images) || !warned.insert(depend.trial).second) continue;
      errors.emplace_back(
          ErrorKind::invalid, depend.trial,
          fmt::format(
              "{} waits until this trial is healthy, but neither this trial nor its image {} has a health "
              "check; add `healthcheck` or use another condition",
              trial.name, needed->second->image));
    }
  }
}

std::set<std::string> wanted_networks(const Run& run) {
  std::set<std::string> names;
  for (const Trial& trial : run.experiment.trials)
    names.insert(trial.container.networks.begin(), trial.container.networks.end());
  std::erase_if(names, is_engines_own_network);
  return names;
}

void prepare_networks(Connections& engine, const Run& run,
                      const std::function<void(const Preparation&)>& on_progress, std::vector<Error>& errors,
                      const std::stop_token& stop) {
  std::set<std::string> missing = wanted_networks(run);
  if (missing.empty()) return;
  for (const NetworkSummary& network : list_networks(engine, {}, stop)) missing.erase(network.name);
  for (const std::string& name : missing) {
    try {
      create_network(engine, name, network_labels_of(run), stop);
      on_progress({Preparation::Kind::network, name, {}, {}, true});
    } catch (const Error& error) {
      if (!is_definite(error)) throw;
      errors.emplace_back(error.kind(), "network " + name, error.message());
    }
  }
  if (!missing.empty()) remove_duplicate_networks(engine, missing, stop);
}

}  // namespace

std::vector<Error> DockerEngine::prepare(const Run& run,
                                         const std::function<void(const Preparation&)>& on_progress,
                                         std::stop_token stop) {
  std::map<ImageKey, Wanted> images = wanted_images(run);
  std::vector<Wanted*> wanted;
  wanted.reserve(images.size());
  for (auto& [key, image] : images) wanted.push_back(&image);
  (void)connections_.version(stop);
  ImagePreparer preparer(connections_, config_folder_, on_progress, stop);
  in_parallel(wanted.size(), k_pulls_in_flight, [&](std::size_t i) { preparer.prepare(*wanted[i]); });
  std::vector<Error> errors;
  for (const Wanted* image : wanted) {
    if (image->error) errors.push_back(*image->error);
  }
  check_health(run, images, errors);
  if (errors.empty()) prepare_networks(connections_, run, on_progress, errors, stop);
  return errors;
}

}  // namespace combu::docker
