#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "combu/docker.hpp"
#include "docker/api.hpp"
#include "docker/connections.hpp"
#include "docker/provided_program.hpp"
#include "docker/shared_listing.hpp"

namespace combu::docker {

// The last signal that was sent to each container through the engine. Safe for many threads.
class Signals {
 public:
  void sent(const std::string& id, int signal);
  void forget(const std::string& id);
  // True if a signal that was sent through the engine ended the container. combu assumes this after a
  // SIGTERM, SIGKILL, SIGINT or SIGQUIT, which end most programs. After another signal, combu assumes this if
  // the exit code stands for that signal, or for SIGKILL, which follows an ignored signal.
  [[nodiscard]] bool ended(const std::string& id, std::optional<int> exit_code) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, int> last_;
};

// include/combu/engine.hpp has the contracts of the public functions. The functions are implemented in
// docker_engine.cpp, diagnose.cpp, start.cpp, check.cpp, prepare.cpp, gpus.cpp, exec.cpp and release.cpp.
class DockerEngine : public Engine {
 public:
  DockerEngine(const DockerEndpoint& claimed, DockerOptions options);

  Facts facts(std::stop_token stop) override;
  std::vector<Finding> diagnose(std::stop_token stop) override;
  std::vector<Gpu> gpus(std::stop_token stop) override;
  std::vector<Error> check(const Run& run, std::stop_token stop) override;
  bool gives_secrets() const override { return false; }
  std::vector<Error> prepare(const Run& run, const std::function<void(const Preparation&)>& on_progress,
                             std::stop_token stop) override;
  StartResult start(const Run& run, const Trial& trial, int attempt, std::stop_token stop) override;
  void stop(const Key& key, std::optional<Seconds> grace, std::stop_token stop) override;
  std::vector<Observation> list(const Selector& selector, ListDetail detail, std::stop_token stop) override;
  void watch(const Selector& selector, const std::function<void(const Change&)>& on_change,
             std::stop_token stop) override;
  std::optional<Usage> usage(const std::string& id, std::stop_token stop) override;
  void logs(const Key& key, const LogOptions& options, const OnLogPiece& on_piece,
            std::stop_token stop) override;
  bool copy_out(const Key& key, const std::string& path,
                const std::function<void(std::string_view)>& on_bytes, std::stop_token stop) override;
  std::unique_ptr<ByteStream> exec(const Key& key, const std::vector<std::string>& argv,
                                   std::stop_token stop) override;
  Released release(const Selector& selector, const ReleaseCallbacks& callbacks,
                   std::stop_token stop) override;

 private:
  // Returns Facts::engine.
  [[nodiscard]] std::string engine_name(const SystemFacts& system, const std::stop_token& stop);
  // Lists attempts with one request. `networks` receives the networks of each returned attempt, in the order
  // of the attempts.
  std::vector<Observation> list_once(const Selector& selector,
                                     std::vector<std::vector<std::string>>& networks,
                                     const std::stop_token& stop);
  void look_again(std::vector<Observation>& observations, ListDetail detail, const std::stop_token& stop);
  void look_at_end(Observation& observation, const std::stop_token& stop);
  std::vector<std::string> ids_of(const Key& key, const std::stop_token& stop);
  ContainerFacts container_of(const Key& key, const std::stop_token& stop);
  // The container of an attempt. If `existed` is true, an earlier call created the container, and the answer
  // to that call was lost.
  struct Claimed {
    std::string id;
    bool existed = false;
    std::optional<Observation> running;  // set if the container runs already or has ended
  };
  // Returns nullopt if the created container cannot be started or does not exist any more; the caller must
  // then repeat the start.
  std::optional<StartResult> try_start(const Run& run, const Trial& trial, int attempt,
                                       const std::stop_token& stop);
  StartResult start_repeatedly(const Run& run, const Trial& trial, int attempt, const std::stop_token& stop);
  std::optional<Claimed> create_or_adopt(const Run& run, const Trial& trial, int attempt,
                                         const std::stop_token& stop);
  ContainerFacts holder_of_name(const Run& run, const Trial& trial, int attempt, const std::stop_token& stop);
  std::shared_ptr<const SharedListing::Containers> list_claims(const std::stop_token& stop);
  std::optional<Observation> rival_of(const std::string& id, const Slots& slots, const std::stop_token& stop);
  // Says whether other containers leave enough CPUs and memory for a container. If `is_contested` is false,
  // they leave enough. If `holder` is set, the running containers, and the containers that were created
  // before this container, do not leave enough; `holder` is the newest of them. If only `is_contested` is
  // set, only containers that were created later and do not run yet compete for the slots; they give way.
  struct Room {
    bool is_contested = false;
    std::optional<ContainerSummary> holder = {};
  };
  [[nodiscard]] Room room_for(const std::string& id, std::int64_t created, const Slots& slots,
                              std::vector<ContainerSummary> others, const std::stop_token& stop);
  [[nodiscard]] Slots capacity(const std::stop_token& stop);
  [[nodiscard]] bool lives(const std::string& id, const std::stop_token& stop);
  // Returns Observation::digest of a container.
  std::string digest_of(const std::string& id, const std::string& image, const std::stop_token& stop);
  // Returns Observation::inputs.
  std::vector<std::string> add_to_created(const std::string& id, const Trial& trial,
                                          const std::stop_token& stop);
  // Maps the name of each network that the selected attempts use to some of the trials that use the network:
  // those whose containers release() does not remove.
  using UsedNetworks = std::map<std::string, std::vector<std::string>>;
  std::vector<NetworkSummary> networks_to_release(const Selector& selector, const UsedNetworks& used,
                                                  const std::stop_token& stop);
  void release_networks(const Selector& selector, const UsedNetworks& used, Released& released,
                        const std::stop_token& stop);

  Connections connections_;
  Signals signals_;
  SharedListing claims_;
  ProgramProvider provider_;
  std::mutex capacity_mutex_;
  std::optional<Slots> capacity_;  // CPUs and memory of the host; set by the first query
  std::string source_;             // DockerEndpoint::source
  std::string config_folder_;
  std::function<std::vector<Gpu>()> configured_gpus_;
};

[[nodiscard]] Observation observation_of(ContainerSummary&& container, Identity&& identity);

// Returns a text that names the container that holds a name or a port, such as "the container x (image y) of
// the experiment z, run r".
[[nodiscard]] std::string holder_text(const std::string& name, const std::string& image,
                                      const Labels& labels);

// Selects the trials that a selector names, or all trials if the selector names none. Sorts the names once
// for a whole listing.
class TrialFilter {
 public:
  explicit TrialFilter(const Selector& selector);
  [[nodiscard]] bool selects(const std::string& trial) const;

 private:
  std::vector<std::string> sorted_;
};

}  // namespace combu::docker
