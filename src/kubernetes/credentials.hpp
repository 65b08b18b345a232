#pragma once
// The credentials that combu presents to an API server. combu renews credentials that come from files or from
// a plugin.

#include <condition_variable>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>

#include "combu/base.hpp"
#include "kubernetes/kubeconfig.hpp"

namespace combu::kubernetes {

struct Identity {
  std::string token;        // bearer token
  std::string username;     // for basic authentication, if there is no token
  std::string password;     // of `username`
  std::string certificate;  // client certificate and its chain, in PEM form
  std::string key;          // key of `certificate`, in PEM form
};

// The current credentials of one account. Thread-safe: while one thread renews the credentials, other threads
// that need new credentials wait for that thread.
//
// - combu reads files (token, certificate, key) again when the content is older than a minute. If a file
//   cannot be read then, combu continues with the old content.
// - combu runs a plugin again after the expirationTimestamp that the plugin has printed. A plugin never
//   prompts: it has neither a terminal nor an input. A token or username of the account, and a client
//   certificate of the account, override those of the plugin, as in kubectl. The protocol is
//   https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
//
// Messages of errors contain no credentials.
class Credentials {
 public:
  explicit Credentials(Access access, Clock& clock = real_clock());

  // Returns the credentials for a request. May block while a file is read or a plugin runs, at most a minute
  // for the plugin. Throws Error:
  // - invalid: a file is missing or malformed;
  // - refused: the plugin cannot be run;
  // - unavailable: the plugin failed or did not end; a repeat may succeed;
  // - corrupt: the plugin printed no valid credentials;
  // - cancelled: `stop` was requested.
  [[nodiscard]] std::shared_ptr<const Identity> current(const std::stop_token& stop);

  // Makes the next call of current() renew the credentials, unless a thread has already renewed them since
  // current() returned `refused`. A caller calls discard() after the server has rejected `refused` (401).
  // Returns false if the credentials cannot change, because they come from neither a file nor a plugin.
  [[nodiscard]] bool discard(const std::shared_ptr<const Identity>& refused);

 private:
  struct Renewed {
    Identity identity;
    Instant valid_until;
  };
  // `previous`: the identity whose content may be used if a file cannot be read; may be nullptr.
  [[nodiscard]] Renewed renew(const Identity* previous, const std::stop_token& stop) const;
  [[nodiscard]] bool uses_plugin() const;
  [[nodiscard]] bool uses_files() const;

  const Access access_;
  Clock& clock_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool is_renewing_ = false;
  std::shared_ptr<const Identity> current_;
  Instant valid_until_;
};

}  // namespace combu::kubernetes
