#pragma once
// The endpoints of the Docker Engine API that combu uses, one function for each. Each kind of resource has a
// file: api_system.cpp, api_images.cpp, api_containers.cpp, api_exec.cpp, api_volumes.cpp, api_networks.cpp,
// api_events.cpp. Each function blocks until the answer is complete. Each function throws the errors of
// Connections::send_checked(), and Error(corrupt) for an answer that combu cannot parse.
// https://docs.docker.com/reference/api/engine/

#include <cstdint>
#include <functional>
#include <memory>
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

// The limits that the engine can enforce.
struct SupportedLimits {
  bool cpus = true;
  bool memory = true;
  bool swap = true;
  bool processes = true;
};

struct SystemFacts {
  std::string product;  // for example "Docker Engine" or "Podman Engine"
  std::string version;
  Slots capacity;
  std::vector<std::string> cdi_devices;  // names of the CDI devices; empty below API version 1.50
  std::string host;                      // host name of the engine's machine
  std::string data_folder;               // the folder of images and containers; empty if unknown
  SupportedLimits limits;
  std::string cgroup_driver;        // "systemd", "cgroupfs" or "none"; empty if unknown
  bool is_rootless = false;         // the engine does not run as root
  bool keeps_running = false;       // a restart of the engine ends no containers (live-restore)
  bool is_in_swarm = false;         // the engine is a node of a swarm, where live-restore is not possible
  bool has_nvidia_runtime = false;  // NVIDIA's container runtime is configured
};
[[nodiscard]] SystemFacts get_system(Connections& engine,
                                     const std::stop_token& stop);  // GET /version and /info

// ---- Images

struct ImageFacts {
  std::string id;
  // The digest "NAME@sha256:…" of the manifest that was pulled, or the image's own id if the image has no
  // such digest.
  std::string digest;
  std::string platform;  // "linux/amd64"
  bool has_healthcheck = false;
  ImageProgram program;
};
// GET /images/{name}/json. Returns nullopt if the engine does not have the image.
[[nodiscard]] std::optional<ImageFacts> inspect_image(Connections& engine, const std::string& image,
                                                      const std::stop_token& stop);

struct PullOptions {
  std::string image;
  std::string platform;
  std::string registry_auth;  // value of the header X-Registry-Auth; may be empty
};
// POST /images/create. `on_progress` receives the downloaded and the total bytes of all layers whose sizes
// are known.
void pull_image(Connections& engine, const PullOptions& options,
                const std::function<void(Bytes done, Bytes total)>& on_progress, const std::stop_token& stop);

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
  std::vector<std::string> networks;  // names of the networks that the container is connected to
};
struct ContainerFilters {
  // List only containers with all of these labels, as "name" or "name=value".
  std::vector<std::string> labels = {};
  // List only containers in one of these states, such as "created" or "running". An empty list selects all
  // states.
  std::vector<std::string> states = {};
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
  std::optional<Instant> ran_at;    // nullopt if the container has not started
  std::optional<Instant> ended_at;  // nullopt if the container has not ended
  std::string health;
  bool tty = false;
  Labels labels;
};
// GET /containers/{id or name}/json. Returns nullopt if the container does not exist. If the engine reports a
// container as running although the container has no process left, the returned state is "exited" and the
// exit code 255.
[[nodiscard]] std::optional<ContainerFacts> inspect_container(Connections& engine, const std::string& which,
                                                              const std::stop_token& stop);

// POST /containers/create. `platform` may be empty. Returns answers of any status, because the caller handles
// the statuses 404 and 409.
[[nodiscard]] HttpResponse create_container(Connections& engine, const std::string& name,
                                            const std::string& platform, const nlohmann::json& body,
                                            const std::stop_token& stop);
[[nodiscard]] std::string created_id(const HttpResponse& created);
// PUT /containers/{id}/archive: unpacks `tar` in the container's folder `folder`.
void put_archive(Connections& engine, const std::string& id, const std::string& folder, std::string tar,
                 const std::stop_token& stop);
// PUT /containers/{id}/archive for an archive that `pack` writes piece by piece. Like pack_inputs(), `pack`
// returns false if it ended early because it was asked to stop.
void put_archive(Connections& engine, const std::string& id, const std::string& subject,
                 const std::function<bool(const HttpRequest::Send&)>& pack, const std::stop_token& stop);
// POST /containers/{id}/start. Also succeeds if the container runs already.
void start_container(Connections& engine, const std::string& id, const std::string& subject,
                     const std::stop_token& stop);
// POST /containers/{id}/stop. Also succeeds if the container has ended or does not exist.
void stop_container(Connections& engine, const std::string& id, std::optional<Seconds> grace,
                    const std::stop_token& stop);
// DELETE /containers/{id}?force=1&v=1. If a removal is under way already, POST /containers/{id}/wait waits
// for its end. Also succeeds if the container does not exist.
void remove_container(Connections& engine, const std::string& id, const std::string& subject,
                      const std::stop_token& stop);

// DELETE /containers/{id}?v=1. Returns false if the container runs or if its removal is under way already.
[[nodiscard]] bool remove_unstarted_container(Connections& engine, const std::string& id,
                                              const std::stop_token& stop);

// GET /containers/{id}/stats. Requests only one sample, which the engine returns at once. Two samples, as
// `docker stats` requests, would take a second. Returns nullopt if the container does not run.
[[nodiscard]] std::optional<Usage> container_usage(Connections& engine, const std::string& id,
                                                   const std::stop_token& stop);

// HEAD /containers/{id}/archive. Returns `path`, or the target if `path` is a symbolic link. Returns nullopt
// if the path does not exist.
[[nodiscard]] std::optional<std::string> find_path(Connections& engine, const std::string& id,
                                                   const std::string& path, const std::stop_token& stop);
// HEAD /containers/{id}/archive. Returns the size of the file at `path`; nullopt if the path does not exist.
[[nodiscard]] std::optional<std::int64_t> file_size(Connections& engine, const std::string& id,
                                                    const std::string& path, const std::stop_token& stop);
// GET /containers/{id}/archive. Returns false if the path does not exist.
bool get_archive(Connections& engine, const std::string& id, const std::string& path,
                 const std::function<void(std::string_view)>& on_bytes, const std::stop_token& stop);

enum class LogFormat { raw, frames };
// GET /containers/{id}/logs
void read_logs(Connections& engine, const std::string& id, LogFormat format, const LogOptions& options,
               const OnLogPiece& on_piece, const std::stop_token& stop);

// ---- Programs in running containers

// POST /containers/{id}/exec. Returns the id of the program's execution. `subject`: the subject of an Error.
[[nodiscard]] std::string create_exec(Connections& engine, const std::string& container,
                                      const std::string& subject, const std::vector<std::string>& argv,
                                      const std::stop_token& stop);
// POST /exec/{id}/start. The engine sends the program's output in the frames of LogFrames.
[[nodiscard]] std::unique_ptr<RawConnection> start_exec(Connections& engine, const std::string& id,
                                                        const std::string& subject,
                                                        const std::stop_token& stop);
struct ExecFacts {
  bool has_begun = false;        // the engine has created the program's process
  std::optional<int> exit_code;  // nullopt if the program has not ended
};
// GET /exec/{id}/json. Returns nullopt if the engine does not know the execution any more.
[[nodiscard]] std::optional<ExecFacts> inspect_exec(Connections& engine, const std::string& id,
                                                    const std::stop_token& stop);

// ---- Networks

struct NetworkSummary {
  std::string id;
  std::string name;
  // The experiment that the network was created for; empty if combu did not create the network.
  std::string experiment;
};
// GET /networks
[[nodiscard]] std::vector<NetworkSummary> list_networks(Connections& engine,
                                                        const std::vector<std::string>& label_filters,
                                                        const std::stop_token& stop);
// POST /networks/create: creates a bridge network. Also succeeds if another process has created a network of
// this name meanwhile.
void create_network(Connections& engine, const std::string& name, const Labels& labels,
                    const std::stop_token& stop);
// POST /networks/{name}/connect. Repeatable.
void connect_network(Connections& engine, const std::string& network, const std::string& container,
                     const nlohmann::json& endpoint, const std::stop_token& stop);
// GET /networks/{name}. Returns the moment at which the network was created; nullopt if the network does not
// exist.
[[nodiscard]] std::optional<Instant> network_created_at(Connections& engine, const std::string& name,
                                                        const std::stop_token& stop);
// DELETE /networks/{id}. Returns answers of any status.
[[nodiscard]] HttpResponse remove_network(Connections& engine, const std::string& id,
                                          const std::stop_token& stop);
// GET /networks/{id}. Returns the names of the network's containers.
[[nodiscard]] std::vector<std::string> network_users(Connections& engine, const std::string& id,
                                                     const std::stop_token& stop);

// ---- Volumes

// GET /volumes. Returns the names of the volumes with the label `label`.
[[nodiscard]] std::vector<std::string> list_volumes(Connections& engine, const std::string& label,
                                                    const std::stop_token& stop);
// DELETE /volumes/{name}. Returns answers of any status.
[[nodiscard]] HttpResponse remove_volume(Connections& engine, const std::string& name,
                                         const std::stop_token& stop);

// ---- Events

struct ContainerEvent {
  std::string action;  // for example "start", "die", "destroy" or "health_status: healthy"
  std::string id;
  Labels attributes;  // the container's labels, and the attributes name, image and exitCode
  Instant at{};
};
// GET /events for past events. Returns the events of the last `back` seconds whose action is in `actions`, as
// far as the engine still stores them.
[[nodiscard]] std::vector<ContainerEvent> past_events(Connections& engine,
                                                      const std::vector<std::string>& label_filters,
                                                      const std::vector<std::string>& actions, Seconds back,
                                                      const std::stop_token& stop);
// GET /events, as a stream. Returns when the stream ends; throws Error(cancelled) if `stop` is set.
void read_events(Connections& engine, const std::vector<std::string>& label_filters,
                 const std::function<void()>& on_open, const std::function<void(const ContainerEvent&)>& take,
                 const std::stop_token& stop);

// ---- Common functions

// True if the error says that the engine has refused the request, and would refuse a repetition, too. After
// other errors, the engine may or may not have carried out the request.
[[nodiscard]] inline bool is_definite(const Error& error) {
  return error.kind() == ErrorKind::not_found || error.kind() == ErrorKind::refused ||
         error.kind() == ErrorKind::conflict || error.kind() == ErrorKind::invalid;
}

// Formats a moment for the parameters `since` and `until`: seconds since the epoch with nanoseconds.
[[nodiscard]] std::string timestamp_parameter(Instant timestamp);
// Returns the parameter `filters`, encoded for a URL. `filters`: a JSON object with a list of values for each
// filter.
[[nodiscard]] std::string filters_parameter(const nlohmann::json& filters);
// Returns a request without a body.
[[nodiscard]] HttpRequest request_of(const Connections& engine, const char* method, std::string target);

}  // namespace combu::docker
