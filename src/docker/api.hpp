#pragma once
// The Docker Engine API's endpoints that combu uses, one function each, by resource: api_system.cpp,
// api_images.cpp, api_containers.cpp, api_networks.cpp, api_events.cpp. Each blocks until the answer is there
// and throws Error as Connections does; an answer that makes no sense is `corrupt`.
// https://docs.docker.com/reference/api/engine/

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "combu/engine.hpp"
#include "docker/connections.hpp"
#include "docker/labels.hpp"

namespace combu::docker {

// ---- System

struct SystemFacts {
  std::string product;  // "Docker Engine", "Podman Engine"
  std::string version;
  Slots capacity;
  std::vector<std::string> cdi_devices;  // their names; none before API 1.50
};
[[nodiscard]] SystemFacts get_system(Connections& engine,
                                     const std::stop_token& stop);  // GET /version and /info

// ---- Images

struct ImageFacts {
  std::string id;
  std::string
      digest;  // of the manifest that it was pulled by, behind its repository and an @; else its own id
  std::string platform;  // "linux/amd64"
  bool has_healthcheck = false;
};
// GET /images/{name}/json; nullopt when there is none.
[[nodiscard]] std::optional<ImageFacts> inspect_image(Connections& engine, const std::string& image,
                                                      const std::stop_token& stop);

struct PullOptions {
  std::string image;
  std::string platform;
  std::string registry_auth;  // X-Registry-Auth, or empty
};
// POST /images/create. `tell` is given the bytes of all layers as far as they are known.
void pull_image(Connections& engine, const PullOptions& options,
                const std::function<void(Bytes done, Bytes total)>& tell, const std::stop_token& stop);

// ---- Containers

struct PublishedPort {
  std::string ip;
  std::uint16_t host = 0;
  std::string protocol;
};

struct ContainerSummary {
  std::string id;
  std::string name;
  std::string image;
  std::string state;
  std::string status;
  std::int64_t created = 0;  // seconds since the epoch
  Labels labels;
  std::vector<PublishedPort> ports;
  std::vector<std::string> networks;  // those it is on, by their names
};
struct ContainerFilters {
  std::vector<std::string> labels = {};  // those that have all of them: "name" or "name=value"
  std::vector<std::string> states = {};  // those in one of them: "created", "running"; none: all
};
// GET /containers/json?all=1
void list_containers(Connections& engine, const ContainerFilters& filters,
                     const std::function<void(ContainerSummary&&)>& take, const std::stop_token& stop);

struct ContainerFacts {
  std::string id;
  std::string name;
  std::string image;
  std::string image_id;
  std::string state;
  int exit_code = 0;
  bool oom = false;
  std::optional<Instant> ran_at;  // nullopt: not yet, like the next one
  std::optional<Instant> ended_at;
  std::string health;
  bool tty = false;
  Labels labels;
};
// GET /containers/{id or name}/json; nullopt when there is none. What the engine takes for running though
// none of its processes is left is exited, with 255.
[[nodiscard]] std::optional<ContainerFacts> inspect_container(Connections& engine, const std::string& which,
                                                              const std::stop_token& stop);

// POST /containers/create: the answer as it is, since its 404 and 409 mean more than an error here.
[[nodiscard]] HttpResponse create_container(Connections& engine, const Trial& trial,
                                            const nlohmann::json& body, const std::stop_token& stop);
[[nodiscard]] std::string created_id(const HttpResponse& created);
// PUT /containers/{id}/archive at the root folder.
void put_archive(Connections& engine, const std::string& id, std::string tar, const std::stop_token& stop);
// The same of one that is told piece by piece; as pack_inputs(), `pack` gives false when it was told to end.
void put_archive(Connections& engine, const std::string& id, const std::string& subject,
                 const std::function<bool(const HttpRequest::Tell&)>& pack, const std::stop_token& stop);
// POST /containers/{id}/start; one that runs already is success.
void start_container(Connections& engine, const std::string& id, const std::string& subject,
                     const std::stop_token& stop);
// POST /containers/{id}/stop; one that has ended, or is gone, is success.
void stop_container(Connections& engine, const std::string& id, std::optional<Seconds> grace,
                    const std::stop_token& stop);
// DELETE /containers/{id}?force=1&v=1, and, where a removal is under way already, POST /containers/{id}/wait
// for its end. One that is gone is success.
void remove_container(Connections& engine, const std::string& id, const std::string& subject,
                      const std::stop_token& stop);

// DELETE /containers/{id}?v=1; false when it runs, or is being removed already.
[[nodiscard]] bool remove_unstarted_container(Connections& engine, const std::string& id,
                                              const std::stop_token& stop);

// GET /containers/{id}/stats, once and without the second that the rates of `docker stats` take; nullopt for
// one that does not run.
[[nodiscard]] std::optional<Usage> container_usage(Connections& engine, const std::string& id,
                                                   const std::stop_token& stop);

// HEAD /containers/{id}/archive: `path`, or where it leads when it is a symbolic link; nullopt: nothing is
// there.
[[nodiscard]] std::optional<std::string> find_path(Connections& engine, const std::string& id,
                                                   const std::string& path, const std::stop_token& stop);
// GET /containers/{id}/archive; false: nothing is there.
bool get_archive(Connections& engine, const std::string& id, const std::string& path,
                 const std::function<void(std::string_view)>& tell, const std::stop_token& stop);

enum class LogFormat { raw, frames };
// GET /containers/{id}/logs
void read_logs(Connections& engine, const std::string& id, LogFormat format, const LogOptions& options,
               const LogTell& tell, const std::stop_token& stop);

// ---- Networks

struct NetworkSummary {
  std::string id;
  std::string name;
  std::string experiment;  // that it was made for; empty: not by combu
};
// GET /networks
[[nodiscard]] std::vector<NetworkSummary> list_networks(Connections& engine,
                                                        const std::vector<std::string>& label_filters,
                                                        const std::stop_token& stop);
// POST /networks/create: a bridge. One of this name that came meanwhile is success.
void create_network(Connections& engine, const std::string& name, const Labels& labels,
                    const std::stop_token& stop);
// POST /networks/{name}/connect; repeatable.
void connect_network(Connections& engine, const std::string& network, const std::string& container,
                     const nlohmann::json& endpoint, const std::stop_token& stop);
// GET /networks/{name}: when it was made; nullopt when there is none.
[[nodiscard]] std::optional<Instant> network_created_at(Connections& engine, const std::string& name,
                                                        const std::stop_token& stop);
// DELETE /networks/{id}: the answer as it is.
[[nodiscard]] HttpResponse remove_network(Connections& engine, const std::string& id,
                                          const std::stop_token& stop);
// GET /networks/{id}: the names of the containers on it.
[[nodiscard]] std::vector<std::string> network_users(Connections& engine, const std::string& id,
                                                     const std::stop_token& stop);

// ---- Events

struct ContainerEvent {
  std::string action;  // "start", "die", "destroy", "health_status: healthy"
  std::string id;
  Labels attributes;  // the container's labels, and name, image, exitCode
  Instant at{};
};
// GET /events of the last `back` with one of these actions, as far as the engine remembers them.
[[nodiscard]] std::vector<ContainerEvent> past_events(Connections& engine,
                                                      const std::vector<std::string>& label_filters,
                                                      const std::vector<std::string>& actions, Seconds back,
                                                      const std::stop_token& stop);
// GET /events, until the stream ends (returns) or `stop` is set (throws cancelled).
void read_events(Connections& engine, const std::vector<std::string>& label_filters,
                 const std::function<void()>& on_open, const std::function<void(const ContainerEvent&)>& take,
                 const std::stop_token& stop);

// ---- What they share

// Whether the engine has said no, and would again; otherwise nobody knows what it has done.
[[nodiscard]] inline bool is_definite(const Error& error) {
  return error.kind() == ErrorKind::not_found || error.kind() == ErrorKind::refused ||
         error.kind() == ErrorKind::conflict || error.kind() == ErrorKind::invalid;
}

// Seconds since the epoch, to the nanosecond, as `since` and `until` take them.
[[nodiscard]] std::string timestamp_parameter(Instant timestamp);
// The `filters` parameter, encoded: {"label": [...]} and more.
[[nodiscard]] std::string filters_parameter(const nlohmann::json& filters);
// A request without a body.
[[nodiscard]] HttpRequest request_of(const Connections& engine, const char* method, std::string target);

}  // namespace combu::docker
