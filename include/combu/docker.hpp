#pragma once
// A Docker Engine as an Engine: finding it, and opening it.

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

// Where a Docker Engine is, and where Docker's own settings lie.
struct DockerEndpoint {
  Address address;
  std::string source;  // who says so, for messages: "--engine", "DOCKER_HOST", "context lab", "the default"
  std::string config_folder;  // of config.json with its credentials; need not exist
};

using DockerEnvironment = std::function<std::optional<std::string>(const std::string&)>;

// What Docker's own client would use: `explicit_address` (empty: none), $DOCKER_HOST, $DOCKER_CONTEXT,
// config.json's currentContext, unix:///var/run/docker.sock. Settings are read from $DOCKER_CONFIG, else
// $HOME/.docker. Reads files, asks no engine. Throws Error(invalid): no address, or of a kind that is not
// supported yet, an unknown context, a broken file.
[[nodiscard]] DockerEndpoint find_docker(const DockerEnvironment& env, const std::string& explicit_address);

struct DockerOptions {
  Seconds silence_max{120};  // of a call that is not a stream
  // What a person says of the host's GPUs: more of those that the engine has discovered or NVIDIA's driver
  // tells of, else which there are. Asked by Engine::gpus.
  std::function<std::vector<Gpu>()> gpus = [] { return std::vector<Gpu>(); };
};

// Connects at the first call, not here. One connection for each call at a time, kept and used again. A
// process that uses it ignores SIGPIPE from then on.
[[nodiscard]] std::unique_ptr<Engine> open_docker(const DockerEndpoint& place,
                                                  const DockerOptions& options = {});

// What is wrong with the trials' `docker` sections, each error with its path in the evaluated file: fields
// that the Docker API does not have, values of a wrong type, and what combu itself needs. What is wrong with
// the defaults' section, or with one that many trials share, is told once. Pure.
[[nodiscard]] std::vector<Error> check_docker_sections(const Experiment& experiment);

}  // namespace combu
