#pragma once
// Runs a credential plugin.

#include <optional>
#include <stop_token>
#include <string>

#include "combu/base.hpp"
#include "kubernetes/kubeconfig.hpp"

namespace combu::kubernetes {

// The content of an ExecCredential. A plugin prints a token, a client certificate with its key, or all three.
struct PluginCredentials {
  std::string token;
  std::string certificate;  // PEM
  std::string key;          // PEM
  std::optional<Instant> expires_at;
};

// Runs the plugin `*access.account.exec`, which must be set, and returns the credentials that it prints.
// Blocks for at most `time_max`. Throws Error like Credentials::current().
[[nodiscard]] PluginCredentials run_plugin(const Access& access, Seconds time_max,
                                           const std::stop_token& stop);

}  // namespace combu::kubernetes
