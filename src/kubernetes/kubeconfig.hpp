#pragma once
// The settings for a connection to a Kubernetes cluster, from kubeconfig files:
// https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/

#include <optional>
#include <string>
#include <vector>

#include "kubernetes/server_address.hpp"

namespace combu::kubernetes {

// Certificates or a key in PEM form, or the path of a file that contains them. At most one member is set.
struct Pem {
  std::string text;
  std::string file;
  [[nodiscard]] bool is_set() const { return !text.empty() || !file.empty(); }
};

struct Cluster {
  std::string server;  // URL of the API server, as in the file
  ServerAddress address;
  Pem authorities;              // trusted certificates; not set: the certificates that the system trusts
  std::string tls_server_name;  // the name in the server's certificate; empty: the host of `server`
  bool skips_tls_verify = false;
  std::string proxy_url;  // as in the file; empty: not set
  bool disables_compression = false;
  std::string exec_config;  // JSON text of the cluster's extension for credential plugins; empty: none
};

// A program that prints credentials (credential plugin of client-go).
struct ExecPlugin {
  std::string command;  // a path, or a name that is searched in PATH
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  // NAME=VALUE, added to the environment of this process
  std::string api_version;
  bool needs_terminal = false;  // interactiveMode is Always
  bool wants_cluster = false;   // provideClusterInfo
  std::string install_hint;     // how to install the program, for messages
};

// The user's credentials. If no member except `source` is set, requests are anonymous.
struct Account {
  std::string source;  // for messages, such as "user lab of /home/me/.kube/config"
  Pem certificate;     // client certificate
  Pem key;
  std::string token;
  std::string token_file;  // overrides `token` while the file can be read
  std::string username;
  std::string password;
  std::optional<ExecPlugin> exec;
};

struct Access {
  std::string context;     // "in-cluster" if there is no kubeconfig
  std::string name_space;  // the default namespace of objects
  Cluster cluster;
  Account account;
  // URL of the proxy for connections to the server: the kubeconfig's proxy-url, or else proxy_for(); empty:
  // no proxy
  std::string proxy;
};

// Returns the settings that kubectl would use for the context `context` and the namespace `name_space`. If
// these arguments are empty, the settings themselves name the context and the namespace.
//
// The files are those in KUBECONFIG, separated by ':', or $HOME/.kube/config. Files that do not exist are
// ignored. The first file that has a value, or an entry of a name, determines that value or entry. Relative
// paths are relative to the folder of their file. If there is no file and `context` is empty, the settings
// are those of a pod's service account (KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT, and the folder
// `service_account`).
//
// Reads no other files, runs no program and sends no request. Throws Error(not_found) if there are no
// settings, or if the context is unknown. Throws Error(invalid) if a file is malformed, or requests a feature
// that combu does not support (auth-provider, impersonation). Messages contain no credentials.
[[nodiscard]] Access find_access(
    const Environment& env, const std::string& context, const std::string& name_space,
    const std::string& service_account = "/var/run/secrets/kubernetes.io/serviceaccount");

// Returns the names of all contexts, the current context first. Throws Error(invalid) like find_access().
[[nodiscard]] std::vector<std::string> context_names(const Environment& env);

}  // namespace combu::kubernetes
