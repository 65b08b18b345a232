#include "outputs/s3_account.hpp"

#include <fmt/format.h>

#include <fstream>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string_view>

#include "combu/base.hpp"

namespace combu::outputs {
namespace {

// An AWS configuration file, whose sections have keys with values. A key KEY that is indented below a key
// ABOVE is stored as "ABOVE.KEY".
class Profiles {
 public:
  explicit Profiles(const std::string& path) {
    std::ifstream file(path);
    std::string section;
    std::string above;
    for (std::string line; std::getline(file, line);) {
      const std::string_view text = trimmed(line);
      if (text.empty() || text.front() == '#' || text.front() == ';') continue;
      if (text.front() == '[') {
        section = trimmed(text.substr(1, text.find(']') - 1));
        sections_[section];
        continue;
      }
      const std::size_t equals = text.find('=');
      if (equals == std::string_view::npos) continue;
      const std::string key(trimmed(text.substr(0, equals)));
      const std::string_view value = trimmed(text.substr(equals + 1));
      const bool is_nested = text.data() != line.data() && !above.empty();  // the line is indented
      if (!is_nested) above = value.empty() ? key : "";
      sections_[section][is_nested ? fmt::format("{}.{}", above, key) : key] = value;
    }
  }

  [[nodiscard]] bool has(const std::string& section) const { return sections_.contains(section); }

  // Returns an empty string if the section or key does not exist.
  [[nodiscard]] std::string find(const std::string& section, const std::string& key) const {
    const auto found = sections_.find(section);
    if (found == sections_.end()) return "";
    const auto value = found->second.find(key);
    return value == found->second.end() ? "" : value->second;
  }

 private:
  std::map<std::string, std::map<std::string, std::string>> sections_;
};

class Search {
 public:
  explicit Search(const Caller& caller)
      : caller_(caller),
        profile_(variable({"AWS_PROFILE", "AWS_DEFAULT_PROFILE"}).value_or("default")),
        in_config_(profile_ == "default" ? profile_ : "profile " + profile_),
        credentials_(variable({"AWS_SHARED_CREDENTIALS_FILE"}).value_or(caller.home + "/.aws/credentials")),
        config_(variable({"AWS_CONFIG_FILE"}).value_or(caller.home + "/.aws/config")) {}

  [[nodiscard]] S3Account account() const {
    S3Account account = keys();
    account.region = variable({"AWS_REGION", "AWS_DEFAULT_REGION"}).value_or(of_profile("region"));
    if (account.region.empty()) account.region = "us-east-1";
    account.endpoint = endpoint();
    account.authorities = variable({"AWS_CA_BUNDLE"}).value_or(of_profile("ca_bundle"));
    return account;
  }

 private:
  // Returns the value of the first environment variable of `names` that is set and not empty.
  [[nodiscard]] std::optional<std::string> variable(std::initializer_list<const char*> names) const {
    for (const char* name : names)
      if (auto value = caller_.env(name); value && !value->empty()) return value;
    return std::nullopt;
  }

  [[nodiscard]] std::string of_profile(const std::string& key) const {
    std::string value = credentials_.find(profile_, key);
    return value.empty() ? config_.find(in_config_, key) : value;
  }

  [[nodiscard]] S3Account keys() const {
    if (const auto key = variable({"AWS_ACCESS_KEY_ID"})) {
      const auto secret = variable({"AWS_SECRET_ACCESS_KEY"});
      if (!secret)
        throw Error(ErrorKind::refused, "AWS_SECRET_ACCESS_KEY",
                    "must be set, because AWS_ACCESS_KEY_ID is set");
      return {.key = *key,
              .secret = *secret,
              .token = variable({"AWS_SESSION_TOKEN"}).value_or(""),
              .source = "AWS_ACCESS_KEY_ID"};
    }
    S3Account account{.key = of_profile("aws_access_key_id"),
                      .secret = of_profile("aws_secret_access_key"),
                      .token = of_profile("aws_session_token"),
                      .source = fmt::format("the AWS profile `{}`", shortened(profile_))};
    if (account.key.empty() || account.secret.empty()) refuse();
    return account;
  }

  [[noreturn]] void refuse() const {
    const bool is_there = credentials_.has(profile_) || config_.has(in_config_);
    if (is_there)
      throw Error(ErrorKind::refused, fmt::format("the AWS profile `{}`", shortened(profile_)),
                  "must contain aws_access_key_id and aws_secret_access_key; for keys from another source, "
                  "run `eval \"$(aws configure export-credentials --format env)\"`");
    if (variable({"AWS_PROFILE", "AWS_DEFAULT_PROFILE"}))
      throw Error(ErrorKind::refused, fmt::format("the AWS profile `{}`", shortened(profile_)),
                  "is neither in ~/.aws/credentials nor in ~/.aws/config");
    throw Error(ErrorKind::refused, "S3",
                "no keys are given: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile in "
                "~/.aws/credentials");
  }

  [[nodiscard]] std::string endpoint() const {
    std::string found;
    if (const auto set = variable({"S3_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"})) {
      found = *set;
    } else {
      const std::string services = config_.find(in_config_, "services");
      if (!services.empty()) found = config_.find("services " + services, "s3.endpoint_url");
      if (found.empty()) found = of_profile("endpoint_url");
    }
    while (found.ends_with('/')) found.pop_back();
    const bool is_url = found.starts_with("http://") || found.starts_with("https://");
    if (!found.empty() && (!is_url || found.find_first_of("@?# ") != std::string::npos))
      throw Error(ErrorKind::refused, "the S3 endpoint",
                  "must be an address such as https://s3.example.com or http://127.0.0.1:9000");
    return found;
  }

  const Caller& caller_;
  std::string profile_;
  std::string in_config_;  // the profile's section name in the config file
  Profiles credentials_;
  Profiles config_;
};

}  // namespace

S3Account find_s3_account(const Caller& caller) {
  return Search(caller).account();
}

}  // namespace combu::outputs
