#pragma once
// A client of image registries. Finds the credentials of registries, and reads the digest and the
// configuration of an image by the OCI distribution API:
// https://github.com/opencontainers/distribution-spec/blob/main/spec.md

#include <cstddef>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "combu/base.hpp"

namespace combu::registry {

// The parts of an image's name, as Docker parses it.
struct ImageReference {
  std::string name;  // the name as written, without tag and digest; the value of `fromImage` in a pull
  std::string tag;   // the tag or digest ("sha256:…"), "latest" by default; the value of `tag` in a pull
  std::string registry;  // the host part: "docker.io", "localhost:5000", "registry.example.com"
  // Returns the key of the registry's credentials in Docker's config.json.
  [[nodiscard]] std::string credentials_key() const;
  // Returns the name of the repository in its registry. For example, both "busybox" and
  // "docker.io/library/busybox" are "library/busybox".
  [[nodiscard]] std::string repository() const;
};

// Parses the name of an image by the rule of github.com/distribution/reference. The first part of the name is
// a host if that part contains a dot or a colon, or is "localhost".
[[nodiscard]] ImageReference parse_image_reference(std::string_view text);

// ---- Credentials

// The credentials for a registry. All members are empty if there are none.
struct Login {
  std::string user;
  std::string password;
  std::string identity_token;  // for a token server, instead of user and password

  // True if there are no credentials.
  [[nodiscard]] bool is_anonymous() const { return user.empty() && identity_token.empty(); }
  bool operator==(const Login&) const = default;
};

struct FoundLogin {
  Login login;
  std::string note;  // a problem that occurred during the search, to be shown if the registry refuses
};

// Searches `config_folder`/config.json under credHelpers, credsStore and auths for the registry's key
// (ImageReference::credentials_key). If the file names a credential program, runs it as
// docker-credential-NAME. Blocks for at most `helper_max`, or until `stop` is set. Never throws. A problem
// only becomes a note in the result, because Docker's own client also continues without credentials.
[[nodiscard]] FoundLogin find_login(const std::string& config_folder, const std::string& registry_key,
                                    Seconds helper_max, const std::stop_token& stop);

// Returns the names of all credential programs in `config_folder`/config.json, such as
// "docker-credential-pass"; empty if there is no such file. Throws Error(invalid) if the file does not
// contain a JSON object.
[[nodiscard]] std::set<std::string> credential_programs(const std::string& config_folder);

// Returns the logins for an image in the text of a Secret of the type kubernetes.io/dockerconfigjson, or of
// the older type kubernetes.io/dockercfg, which has only the object under `auths`. As in Kubernetes, a key
// can have `*` in its host, and a path that is a prefix of the repository; the longest path comes first:
// https://kubernetes.io/docs/concepts/containers/images/#config-json
// Returns an empty list if the text has another form.
[[nodiscard]] std::vector<Login> logins_in(std::string_view text, const ImageReference& image);

// ---- Images

// An image for one platform, as its registry describes it.
struct Image {
  // The digest of the manifest or index that the image's name refers to: "sha256:…".
  std::string digest;
  // The digests by which a container runtime can name the image: `digest`, and the digests of the manifest
  // and of the configuration for the platform.
  std::set<std::string> all_digests;
  std::string platform;  // for example "linux/amd64" or "linux/arm/v7"
  std::vector<std::string> entrypoint;
  std::vector<std::string> cmd;
  std::string stop_signal;  // empty: not set
};

struct ImageRequest {
  std::string image;     // the name as users write it
  std::string platform;  // empty: `own_platform` if the image has it, and otherwise the first one for Linux
  std::string own_platform = {};  // for example "linux/amd64"
  Login login = {};
};

struct Limits {
  Seconds connect_max{10};
  Seconds total_max{30};                             // of read_image()
  std::size_t manifest_max = std::size_t{4} << 20U;  // bytes
  std::size_t config_max = std::size_t{8} << 20U;    // bytes
};

// Reads the image from its registry. Verifies the digest of all that is named by a digest. Uses HTTPS, and
// plain HTTP only for registries on a loopback address. Sends credentials only to the registry and to the
// token server that it names.
//
// The subject of each Error is the image's name; no message contains credentials. Throws Error:
// - refused: the registry requires a login, or refuses the credentials, or its certificate is not trusted;
// - not_found: the registry does not have the image;
// - invalid: the image's name is malformed, or the image is not for the platform;
// - unavailable: the registry cannot be reached, is too slow, or reports an error of its own;
// - corrupt: an answer does not have its digest, exceeds a limit, or is no image;
// - cancelled: `stop` was requested.
[[nodiscard]] Image read_image(const ImageRequest& request, const std::stop_token& stop,
                               const Limits& limits = {});

// True if the host of a registry, such as "localhost:5000", is a loopback address.
[[nodiscard]] bool is_loopback(std::string_view host);

}  // namespace combu::registry
