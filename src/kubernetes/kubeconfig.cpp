#include "kubernetes/kubeconfig.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "combu/base.hpp"
#include "combu/json.hpp"

namespace combu::kubernetes {
namespace {

namespace fs = std::filesystem;

constexpr Bytes k_file_max{std::int64_t{16} << 20U};
constexpr std::size_t k_names_shown_max = 20;

struct File {
  std::string path;
  YAML::Node root;
};

// A mapping in a file. An absent mapping is empty.
class Section {
 public:
  Section(const File& file, std::string place, const YAML::Node& node)
      : file_(&file), place_(std::move(place)), node_(node) {
    if (node_.IsDefined() && !node_.IsNull() && !node_.IsMap()) fail("must be a mapping");
  }

  [[nodiscard]] bool has(const char* name) const { return !is_absent(value(name)); }

  [[nodiscard]] std::string text(const char* name) const {
    const YAML::Node node = value(name);
    if (is_absent(node)) return "";
    if (!node.IsScalar()) fail_at(name, "must be text");
    return node.Scalar();
  }

  [[nodiscard]] bool flag(const char* name) const {
    const std::string word = text(name);
    if (!word.empty() && word != "true" && word != "false") fail_at(name, "must be true or false");
    return word == "true";
  }

  // The path of a file, relative to the folder of this section's file unless it is absolute.
  [[nodiscard]] std::string path(const char* name) const {
    const std::string text = this->text(name);
    return text.empty() ? "" : (fs::path(file_->path).parent_path() / text).lexically_normal().string();
  }

  // The member NAME-data (Base64 of PEM text), or else the path in the member NAME.
  [[nodiscard]] Pem pem(const std::string& name) const {
    const std::string data_name = name + "-data";
    const std::string data = text(data_name.c_str());
    if (data.empty()) return {.text = "", .file = path(name.c_str())};
    Pem pem{.text = decode_base64(data), .file = ""};
    if (pem.text.find("-----BEGIN ") == std::string::npos)
      fail_at(data_name.c_str(), "must be the Base64 of PEM text");
    return pem;
  }

  [[nodiscard]] Section at(const char* name) const { return {*file_, below(name), value(name)}; }

  [[nodiscard]] std::vector<Section> list(const char* name) const {
    const YAML::Node node = value(name);
    if (is_absent(node)) return {};
    if (!node.IsSequence()) fail_at(name, "must be a list");
    std::vector<Section> sections;
    for (const auto& item : node)
      sections.emplace_back(*file_, fmt::format("{}[{}]", below(name), sections.size()), item);
    return sections;
  }

  [[nodiscard]] std::vector<std::string> texts(const char* name) const {
    const YAML::Node node = value(name);
    if (is_absent(node)) return {};
    std::vector<std::string> texts;
    if (!node.IsSequence()) fail_at(name, "must be a list of texts");
    for (const auto& item : node) {
      if (!item.IsScalar()) fail_at(name, "must be a list of texts");
      texts.push_back(item.Scalar());
    }
    return texts;
  }

  [[nodiscard]] YAML::Node value(const char* name) const {
    return node_.IsDefined() && node_.IsMap() ? std::as_const(node_)[name] : YAML::Node();
  }

  [[nodiscard]] const std::string& file_path() const { return file_->path; }

  [[noreturn]] void fail_at(const char* name, const std::string& why) const {
    throw Error(ErrorKind::invalid, file_->path, fmt::format("{}: {}", below(name), why));
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw Error(ErrorKind::invalid, file_->path, fmt::format("{}: {}", place_, why));
  }

 private:
  static bool is_absent(const YAML::Node& node) { return !node.IsDefined() || node.IsNull(); }

  [[nodiscard]] std::string below(const char* name) const {
    return place_.empty() ? name : fmt::format("{}.{}", place_, name);
  }

  const File* file_;
  std::string place_;  // for messages, such as "users[0].user"
  YAML::Node node_;
};

std::vector<std::string> config_paths(const Environment& env) {
  const std::string listed = env("KUBECONFIG").value_or("");
  if (listed.empty()) {
    const std::string home = env("HOME").value_or("");
    return home.empty() ? std::vector<std::string>() : std::vector{home + "/.kube/config"};
  }
  std::vector<std::string> paths;
  for (std::string_view rest = listed; !rest.empty();) {
    const std::size_t colon = std::min(rest.find(':'), rest.size());
    // The path must be absolute, because the paths in the file are relative to the file's folder.
    if (colon > 0) paths.push_back(fs::absolute(rest.substr(0, colon)).string());
    rest.remove_prefix(std::min(colon + 1, rest.size()));
  }
  return paths;
}

std::vector<File> read_files(const std::vector<std::string>& paths) {
  std::vector<File> files;
  for (const std::string& path : paths) {
    const auto text = read_regular_file(path, k_file_max);
    if (!text) continue;
    try {
      const YAML::Node root = YAML::Load(*text);
      if (root.IsNull()) continue;  // an empty file
      files.push_back({.path = path, .root = root});
    } catch (const YAML::Exception& exception) {
      throw Error(ErrorKind::invalid, path,
                  fmt::format("line {}, column {}: is not YAML: {}", exception.mark.line + 1,
                              exception.mark.column + 1, one_line(exception.msg)));
    }
    (void)Section(files.back(), "the file", files.back().root);  // must be a mapping
  }
  return files;
}

Section top(const File& file) {
  return {file, "", file.root};
}

// Returns the first entry `name` of the list `list`, such as the value of the member `context` of an entry of
// `contexts`.
std::optional<Section> find_entry(const std::vector<File>& files, const char* list, const char* member,
                                  const std::string& name) {
  for (const File& file : files) {
    for (const Section& entry : top(file).list(list))
      if (entry.text("name") == name) return entry.at(member);
  }
  return std::nullopt;
}

std::vector<std::string> names_of(const std::vector<File>& files, const char* list) {
  std::vector<std::string> names;
  for (const File& file : files) {
    for (const Section& entry : top(file).list(list)) {
      const std::string name = shortened(entry.text("name"));
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

std::string list_or_none(const std::vector<std::string>& names) {
  return names.empty() ? "there are no contexts" : "the contexts are " + list_text(names, k_names_shown_max);
}

// Converts a value of YAML to JSON. A scalar without quotes becomes a number, true, false or null if it has
// the form of such a JSON value. `nodes_left`: maximum number of values. The limit is needed because a value
// may contain itself by an alias.
nlohmann::json json_of(const Section& section, const YAML::Node& node, std::size_t& nodes_left) {
  if (nodes_left == 0) section.fail("is too large");
  --nodes_left;
  nlohmann::json json;
  if (node.IsMap()) {
    json = nlohmann::json::object();
    for (const auto& member : node) {
      if (!member.first.IsScalar()) section.fail("must have texts as names");
      json[member.first.Scalar()] = json_of(section, member.second, nodes_left);
    }
  } else if (node.IsSequence()) {
    json = nlohmann::json::array();
    for (const auto& item : node) json.push_back(json_of(section, item, nodes_left));
  } else if (node.IsScalar()) {
    json = node.Tag() == "!" ? nlohmann::json() : parse_json_or_discard(node.Scalar());
    if (!json.is_number() && !json.is_boolean()) json = node.Scalar();
  }
  return json;
}

Cluster read_cluster(const Section& section) {
  Cluster cluster{.server = section.text("server"),
                  .authorities = section.pem("certificate-authority"),
                  .tls_server_name = section.text("tls-server-name"),
                  .skips_tls_verify = section.flag("insecure-skip-tls-verify"),
                  .proxy_url = section.text("proxy-url"),
                  .disables_compression = section.flag("disable-compression")};
  const auto address = parse_server_address(cluster.server);
  if (!address) section.fail_at("server", "must be the URL of an API server, such as https://HOST:6443");
  cluster.address = *address;
  if (cluster.skips_tls_verify && cluster.authorities.is_set())
    section.fail_at("insecure-skip-tls-verify", "conflicts with certificate-authority; remove one of them");
  for (const Section& extension : section.list("extensions")) {
    if (extension.text("name") != "client.authentication.k8s.io/exec") continue;
    std::size_t nodes_max = 1000;
    cluster.exec_config = json_text(json_of(extension, extension.value("extension"), nodes_max));
  }
  return cluster;
}

ExecPlugin read_exec(const Section& section) {
  ExecPlugin plugin{.command = section.text("command"),
                    .arguments = section.texts("args"),
                    .api_version = section.text("apiVersion"),
                    .wants_cluster = section.flag("provideClusterInfo"),
                    .install_hint = section.text("installHint")};
  if (plugin.command.empty()) section.fail_at("command", "is missing");
  if (plugin.command.find('/') != std::string::npos) plugin.command = section.path("command");
  constexpr std::array<std::string_view, 2> k_versions{"client.authentication.k8s.io/v1",
                                                       "client.authentication.k8s.io/v1beta1"};
  if (std::ranges::find(k_versions, plugin.api_version) == k_versions.end())
    section.fail_at("apiVersion", fmt::format("must be {} or {}", k_versions[0], k_versions[1]));
  const std::string mode = section.text("interactiveMode");
  constexpr std::array<std::string_view, 3> k_modes{"Never", "IfAvailable", "Always"};
  const bool may_lack = plugin.api_version == k_versions[1];
  if (std::ranges::find(k_modes, mode) == k_modes.end() && !(mode.empty() && may_lack))
    section.fail_at("interactiveMode", "must be Never, IfAvailable or Always");
  plugin.needs_terminal = mode == "Always";
  for (const Section& variable : section.list("env"))
    plugin.environment.push_back(fmt::format("{}={}", variable.text("name"), variable.text("value")));
  return plugin;
}

Account read_account(const Section& section, const std::string& name) {
  Account account{.source = fmt::format("user {} of {}", shortened(name), section.file_path()),
                  .certificate = section.pem("client-certificate"),
                  .key = section.pem("client-key"),
                  .token = section.text("token"),
                  .token_file = section.path("tokenFile"),
                  .username = section.text("username"),
                  .password = section.text("password")};
  if (section.has("exec")) account.exec = read_exec(section.at("exec"));
  if (account.certificate.is_set() != account.key.is_set())
    section.fail("must have both client-certificate and client-key, or none of them");
  if (!account.username.empty() && !(account.token.empty() && account.token_file.empty()))
    section.fail("must have either a token or a username");
  if (section.has("auth-provider"))
    section.fail_at("auth-provider",
                    "is not supported by kubectl since 1.26, nor by combu; configure a plugin with exec");
  for (const char* const name_of_other : {"as", "as-uid", "as-groups", "as-user-extra"}) {
    if (section.has(name_of_other))
      section.fail_at(name_of_other, "combu does not support impersonation; remove the field");
  }
  return account;
}

Access read_context(const std::vector<File>& files, std::string name) {
  for (const File& file : files)
    if (name.empty()) name = top(file).text("current-context");
  const std::string& first = files.front().path;
  if (name.empty())
    throw Error(ErrorKind::invalid, first,
                fmt::format("current-context is not set; set it with `kubectl config use-context`, or name a "
                            "context; {}",
                            list_or_none(names_of(files, "contexts"))));
  const auto context = find_entry(files, "contexts", "context", name);
  if (!context)
    throw Error(
        ErrorKind::not_found, fmt::format("context {}", shortened(name)),
        fmt::format("does not exist in {}; {}",
                    files.size() == 1 ? first : fmt::format("{} and the other files of KUBECONFIG", first),
                    list_or_none(names_of(files, "contexts"))));
  Access access{.context = name, .name_space = context->text("namespace")};
  const std::string cluster_name = context->text("cluster");
  const auto cluster = find_entry(files, "clusters", "cluster", cluster_name);
  if (!cluster)
    throw Error(ErrorKind::invalid, context->file_path(),
                fmt::format("the cluster {} of context {} does not exist; correct the context",
                            shortened(cluster_name), shortened(name)));
  access.cluster = read_cluster(*cluster);
  const std::string user = context->text("user");
  if (user.empty()) {
    access.account.source = fmt::format("context {} of {}", shortened(name), context->file_path());
    return access;
  }
  const auto account = find_entry(files, "users", "user", user);
  if (!account)
    throw Error(ErrorKind::invalid, context->file_path(),
                fmt::format("the user {} of context {} does not exist; correct the context", shortened(user),
                            shortened(name)));
  access.account = read_account(*account, user);
  return access;
}

Access of_service_account(const std::string& host, const std::string& port, const std::string& folder) {
  ServerAddress address{.scheme = "https", .host = host, .port = parse_number<int>(port).value_or(0)};
  if (address.port == 0)
    throw Error(ErrorKind::invalid, "KUBERNETES_SERVICE_PORT",
                fmt::format("must be the port of the API server, not \"{}\"", shortened(port)));
  Cluster cluster{.server = "https://" + address.authority(), .address = address};
  std::error_code unreadable;
  if (fs::exists(folder + "/ca.crt", unreadable)) cluster.authorities.file = folder + "/ca.crt";
  const auto name_space = read_regular_file(folder + "/namespace", k_file_max);
  return {.context = "in-cluster",
          .name_space = std::string(trimmed(name_space.value_or(""))),
          .cluster = std::move(cluster),
          .account = {.source = "the service account in " + folder, .token_file = folder + "/token"}};
}

}  // namespace

Access find_access(const Environment& env, const std::string& context, const std::string& name_space,
                   const std::string& service_account) {
  const std::vector<std::string> paths = config_paths(env);
  const std::vector<File> files = read_files(paths);
  const std::string host = env("KUBERNETES_SERVICE_HOST").value_or("");
  const std::string port = env("KUBERNETES_SERVICE_PORT").value_or("");
  Access access;
  if (!files.empty()) {
    access = read_context(files, context);
  } else if (context.empty() && !host.empty() && !port.empty()) {
    access = of_service_account(host, port, service_account);
  } else {
    throw Error(ErrorKind::not_found, paths.empty() ? "KUBECONFIG" : paths.front(),
                "no cluster is configured: there is no kubeconfig file; set KUBECONFIG to the path of your "
                "cluster's kubeconfig file");
  }
  if (!name_space.empty()) access.name_space = name_space;
  if (access.name_space.empty()) access.name_space = "default";
  access.proxy =
      access.cluster.proxy_url.empty() ? proxy_for(access.cluster.address, env) : access.cluster.proxy_url;
  return access;
}

std::vector<std::string> context_names(const Environment& env) {
  const std::vector<File> files = read_files(config_paths(env));
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (!name.empty() && std::ranges::find(names, name) == names.end()) names.push_back(name);
  };
  for (const File& file : files) add(top(file).text("current-context"));
  for (const File& file : files)
    for (const Section& entry : top(file).list("contexts")) add(entry.text("name"));
  return names;
}

}  // namespace combu::kubernetes
