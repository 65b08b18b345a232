#pragma once
// Finds a Docker Engine, and opens it as an object with the interface Engine.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "combu/base.hpp"
#include "combu/engine.hpp"
#include "combu/http.hpp"
#include "combu/spec.hpp"

namespace combu {

// The address of a Docker Engine, and the folder of Docker's own settings.
struct DockerEndpoint {
  Address address;
  // The source of the address, for messages, such as "--engine", "DOCKER_HOST", "context lab" or "the
  // default".
  std::string source;
  std::string config_folder;  // the folder of config.json with the registries' credentials; need not exist
};

using DockerEnvironment = std::function<std::optional<std::string>(const std::string&)>;

// Returns the endpoint that Docker's own client would use. The address is the first of these that is set: the
// argument `explicit_address`, $DOCKER_HOST, $DOCKER_CONTEXT, currentContext of config.json. The default is
// unix:///var/run/docker.sock. The settings are in the folder $DOCKER_CONFIG, or in $HOME/.docker if
// DOCKER_CONFIG is not set. Reads files, but sends nothing to an engine. Throws Error(invalid) if the address
// cannot be parsed, has an unsupported kind, or names another machine. Also throws Error(invalid) if the
// context is unknown or if a settings file is malformed.
[[nodiscard]] DockerEndpoint find_docker(const DockerEnvironment& env, const std::string& explicit_address);

struct DockerOptions {
  // Maximum time without a byte from the engine during a call. Streams have no such limit, and image pulls
  // have a longer limit.
  Seconds silence_max{120};
  // Returns the GPUs that the user has configured for the host. If the engine or NVIDIA's driver reports
  // GPUs, Engine::gpus() adds missing data from the configured GPUs. If neither reports GPUs, Engine::gpus()
  // returns the configured GPUs.
  std::function<std::vector<Gpu>()> gpus = [] { return std::vector<Gpu>(); };
};

// The returned engine connects at its first call. Concurrent calls use separate connections. A connection
// stays open after its call, and later calls reuse it. The process ignores SIGPIPE from the first call on.
[[nodiscard]] std::unique_ptr<Engine> open_docker(const DockerEndpoint& place,
                                                  const DockerOptions& options = {});

// Returns the errors in the trials' `docker` sections, each with its path in the evaluated file. Errors are
// fields that the Docker API does not have, fields that combu itself sets, and values of a wrong type. If
// many trials share a section, for example the defaults' section, each of its errors is returned only once.
// Pure function.
[[nodiscard]] std::vector<Error> check_docker_sections(const Experiment& experiment);

}  // namespace combu
