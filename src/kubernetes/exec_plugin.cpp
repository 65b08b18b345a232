#include "kubernetes/exec_plugin.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

#include "combu/json.hpp"
#include "combu/system.hpp"

namespace combu::kubernetes {
namespace {

using nlohmann::json;

// Returns the value of the variable KUBERNETES_EXEC_INFO.
std::string exec_info(const Access& access) {
  json spec = {{"interactive", false}};
  if (access.account.exec->wants_cluster) {
    const Cluster& cluster = access.cluster;
    json shown = {{"server", cluster.server}};
    if (!cluster.tls_server_name.empty()) shown["tls-server-name"] = cluster.tls_server_name;
    if (cluster.skips_tls_verify) shown["insecure-skip-tls-verify"] = true;
    if (cluster.disables_compression) shown["disable-compression"] = true;
    if (!cluster.proxy_url.empty()) shown["proxy-url"] = cluster.proxy_url;
    constexpr Bytes k_file_max{std::int64_t{16} << 20U};
    const std::string authorities =
        cluster.authorities.file.empty()
            ? cluster.authorities.text
            : read_regular_file(cluster.authorities.file, k_file_max).value_or("");
    if (!authorities.empty()) shown["certificate-authority-data"] = encode_base64(authorities);
    if (!cluster.exec_config.empty()) shown["config"] = parse_json(cluster.exec_config);
    spec["cluster"] = shown;
  }
  return json_text(
      json{{"apiVersion", access.account.exec->api_version}, {"kind", "ExecCredential"}, {"spec", spec}});
}

// Returns the environment of this process, in which the elements of `more` replace variables of their names.
std::vector<std::string> environment_with(const std::vector<std::string>& more) {
  std::vector<std::string> variables = own_environment();
  for (const std::string& added : more) {
    const std::string_view name = std::string_view(added).substr(0, added.find('=') + 1);
    std::erase_if(variables, [&](const std::string& variable) { return variable.starts_with(name); });
    variables.push_back(added);
  }
  return variables;
}

}  // namespace

PluginCredentials run_plugin(const Access& access, Seconds time_max, const std::stop_token& stop) {
  const ExecPlugin& plugin = *access.account.exec;
  const auto fail = [&](ErrorKind kind, const std::string& why) {
    throw Error(kind, access.account.source,
                fmt::format("the credential plugin {} {}", shortened(plugin.command), why));
  };
  const std::string remedy =
      fmt::format("type `kubectl --context {} get pods` to see its messages", shortened(access.context));
  if (plugin.needs_terminal)
    fail(
        ErrorKind::refused,
        "needs a terminal (interactiveMode: Always), but combu runs plugins without one; use another plugin");
  std::vector<std::string> more = plugin.environment;
  more.push_back("KUBERNETES_EXEC_INFO=" + exec_info(access));
  ProgramCall call{.arguments = {plugin.command},
                   .environment = environment_with(more),
                   .output_max = std::size_t{1} << 20U,
                   .time_max = time_max,
                   .stop = stop};
  call.arguments.insert(call.arguments.end(), plugin.arguments.begin(), plugin.arguments.end());
  const ProgramEnd end = run_program(call);
  if (stop.stop_requested()) throw Error(ErrorKind::cancelled, access.account.source, "cancelled");
  if (end.problem.starts_with("cannot be run"))
    fail(ErrorKind::refused,
         fmt::format("{}; {}", end.problem,
                     plugin.install_hint.empty() ? "install it, or correct `command` in the kubeconfig file"
                                                 : one_line(plugin.install_hint)));
  if (!end.problem.empty()) fail(ErrorKind::unavailable, fmt::format("{}; {}", end.problem, remedy));
  if (end.output_cut) fail(ErrorKind::corrupt, "printed more than 1 MiB");
  if (end.exit_code != 0)
    fail(ErrorKind::unavailable, fmt::format("failed with exit code {}; {}", end.exit_code, remedy));

  const json answer = parse_json_or_discard(end.output);
  if (text_of(answer, "kind") != "ExecCredential")
    fail(ErrorKind::corrupt, "did not print an ExecCredential object; " + remedy);
  if (const std::string_view version = text_of(answer, "apiVersion"); version != plugin.api_version)
    fail(ErrorKind::corrupt,
         fmt::format(
             "printed credentials of version {} instead of {}; correct apiVersion in the kubeconfig file",
             shortened(version), plugin.api_version));
  const json& status = member_of(answer, "status");
  if (!status.is_object()) fail(ErrorKind::corrupt, "printed no credentials; " + remedy);
  PluginCredentials credentials{.token = std::string(text_of(status, "token")),
                                .certificate = std::string(text_of(status, "clientCertificateData")),
                                .key = std::string(text_of(status, "clientKeyData"))};
  if (credentials.certificate.empty() != credentials.key.empty())
    fail(ErrorKind::corrupt, "must print both clientCertificateData and clientKeyData, or none of them");
  if (credentials.token.empty() && credentials.certificate.empty())
    fail(ErrorKind::corrupt, "printed neither a token nor a client certificate; " + remedy);
  if (const std::string_view time = text_of(status, "expirationTimestamp"); !time.empty()) {
    credentials.expires_at = parse_timestamp(time);
    if (!credentials.expires_at)
      fail(ErrorKind::corrupt, "printed an expirationTimestamp that is not a time of RFC 3339");
  }
  return credentials;
}

}  // namespace combu::kubernetes
