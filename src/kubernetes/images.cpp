#include "kubernetes/images.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "combu/json.hpp"
#include "kubernetes/merge.hpp"
#include "kubernetes/trial_fields.hpp"

namespace combu::kubernetes {
namespace {

using nlohmann::json;

constexpr std::size_t k_look_ups_at_once = 8;
constexpr Seconds k_credential_program_max{30};
constexpr const char* k_default_account = "default";

std::string needed_by(const std::vector<std::string>& trials) {
  constexpr std::size_t k_named = 3;
  return "needed by " + list_text(trials, k_named);
}

std::string decoded(const json& data, const char* name) {
  return decode_base64(text_of(data, name));
}

// Returns the text that registry::logins_in() reads.
std::string logins_text(const json& secret) {
  const json& data = member_of(secret, "data");
  const std::string text = decoded(data, ".dockerconfigjson");
  return text.empty() ? decoded(data, ".dockercfg") : text;
}

}  // namespace

bool needs_program(const Trial& trial) {
  return needs_agent(trial) && !trial.process.entrypoint;
}

bool needs_digest(const Trial& trial) {
  return trial.cache.on;
}

// An image that trials use, for one platform.
struct Images::Wanted {
  std::string image;
  std::string platform;
  bool has_workers = false;
  std::vector<std::string> for_program;  // names of the trials that need the program
  std::vector<std::string> for_digest;
  // The names of Secrets and of service accounts in the trials' sections.
  std::set<std::string> secrets = {};
  std::set<std::string> accounts = {};
  std::optional<registry::Image> found = {};
  std::optional<Error> error = {};

  [[nodiscard]] bool is_needed() const { return !for_program.empty() || !for_digest.empty(); }

  void add(const Trial& trial) {
    has_workers = has_workers || trial.worker->on;
    if (needs_program(trial)) for_program.push_back(trial.name);
    if (needs_digest(trial)) for_digest.push_back(trial.name);
    if (!needs_program(trial) && !needs_digest(trial)) return;
    const json section = section_of(trial);
    const json& pod = member_of(section, "pod");
    const json& named = member_of(pod, "imagePullSecrets");
    for (const json& one : named)
      if (const std::string_view name = text_of(one, "name"); !name.empty()) secrets.emplace(name);
    if (!named.empty()) return;  // the service account's secrets are only used if the Pod names none
    const std::string_view account = text_of(pod, "serviceAccountName");
    accounts.emplace(account.empty() ? k_default_account : account);
  }

  [[nodiscard]] Preparation preparation() const {
    Preparation report{
        .kind = Preparation::Kind::found, .name = image, .finished = true, .platform = platform};
    report.program.platform = platform;
    if (!found) return report;
    report.digest = fmt::format("{}@{}", registry::parse_image_reference(image).name, found->digest);
    report.program = {.entrypoint = found->entrypoint,
                      .cmd = found->cmd,
                      .stop_signal = found->stop_signal,
                      .platform = found->platform};
    return report;
  }
};

std::vector<Error> Images::prepare(const Experiment& experiment,
                                   const std::function<void(const Preparation&)>& on_progress,
                                   const std::stop_token& stop) {
  std::map<std::pair<std::string, std::string>, Wanted> images;
  for (const Trial& trial : experiment.trials) {
    Wanted& wanted = images[{trial.image, trial.platform}];
    wanted.image = trial.image;
    wanted.platform = trial.platform;
    wanted.add(trial);
  }
  std::vector<Wanted*> needed;
  for (auto& [key, wanted] : images)
    if (wanted.is_needed()) needed.push_back(&wanted);
  in_parallel(needed.size(), k_look_ups_at_once, [&](std::size_t i) { look_up(*needed[i], stop); });

  std::vector<Error> errors;
  for (const auto& [key, wanted] : images) {
    if (wanted.found || wanted.has_workers) on_progress(wanted.preparation());
    if (!wanted.error) continue;
    if (!wanted.for_program.empty()) {
      errors.emplace_back(
          wanted.error->kind(), wanted.image,
          fmt::format(
              "combu cannot read the entrypoint of the image: {}. Or write `entrypoint`: the program and "
              "its first arguments, or `[]` if `cmd` begins with the program ({})",
              wanted.error->message(), needed_by(wanted.for_program)));
    } else {
      on_progress(
          {.kind = Preparation::Kind::note,
           .name = fmt::format("{}: combu cannot read the digest of the image: {}. Trials with `cache` run "
                               "without a lookup ({})",
                               wanted.image, wanted.error->message(), needed_by(wanted.for_digest)),
           .finished = true});
    }
  }
  return errors;
}

// Uses the user's own credentials first, or none, and then those that the Pods will have.
void Images::look_up(Wanted& wanted, const std::stop_token& stop) {
  const registry::ImageReference reference = registry::parse_image_reference(wanted.image);
  registry::FoundLogin own;
  if (!docker_config_.empty())
    own = registry::find_login(docker_config_, reference.credentials_key(), k_credential_program_max, stop);
  // Returns false if other credentials may help.
  const auto read = [&](const registry::Login& login) {
    try {
      wanted.found = registry::read_image({.image = wanted.image,
                                           .platform = wanted.platform,
                                           .own_platform = k_own_platform,
                                           .login = login},
                                          stop);
      wanted.error.reset();
      return true;
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::cancelled) throw;
      if (!wanted.error) wanted.error = error;
      return error.kind() != ErrorKind::refused && error.kind() != ErrorKind::not_found;
    }
  };
  if (!read(own.login)) {
    const std::vector<registry::Login> others = pull_secrets(wanted, stop);
    (void)std::ranges::any_of(others, read);
  }
  if (wanted.error && !own.note.empty())
    wanted.error = Error(wanted.error->kind(), wanted.error->subject(),
                         fmt::format("{}; also, {}", wanted.error->message(), own.note));
  if (!wanted.found) return;
  const std::scoped_lock lock(mutex_);
  for (const std::string& digest : wanted.found->all_digests)
    digests_.insert_or_assign({wanted.image, digest}, wanted.found->digest);
}

// A Secret or service account that cannot be read counts as empty: users need no right to read them.
std::vector<registry::Login> Images::pull_secrets(const Wanted& wanted, const std::stop_token& stop) {
  const auto find = [&](const Kind& kind, const std::string& name) {
    try {
      return objects_.find(kind, name, stop).value_or(json());
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::cancelled) throw;
      return json();
    }
  };
  std::set<std::string> secrets = wanted.secrets;
  for (const std::string& name : wanted.accounts) {
    const json account = find(k_service_accounts, name);
    for (const json& one : member_of(account, "imagePullSecrets"))
      if (const std::string_view secret = text_of(one, "name"); !secret.empty()) secrets.emplace(secret);
  }
  const registry::ImageReference reference = registry::parse_image_reference(wanted.image);
  std::vector<registry::Login> logins;
  for (const std::string& name : secrets)
    std::ranges::move(registry::logins_in(logins_text(find(k_secrets, name)), reference),
                      std::back_inserter(logins));
  return logins;
}

std::string Images::digest_of(const std::string& image, const std::string& reported) const {
  const std::scoped_lock lock(mutex_);
  const auto found = digests_.find({image, digest_in(reported)});
  return found == digests_.end() ? reported : found->second;
}

}  // namespace combu::kubernetes
