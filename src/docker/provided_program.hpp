#pragma once
// Puts programs of combu's own into containers (ContainerSettings::provided). A named volume holds the
// program, and each container mounts the volume read-only, so that no user of a container can replace the
// program. All containers of an engine with the same program share one volume.

#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <stop_token>
#include <string>

#include "combu/spec.hpp"
#include "docker/connections.hpp"

namespace combu::docker {

enum class ProgramAccess { read, write };
// Returns the element of HostConfig.Mounts for the program's volume. The engine creates the volume if it does
// not exist.
[[nodiscard]] nlohmann::json program_mount(const ProvidedProgram& program, ProgramAccess access);

class ProgramProvider {
 public:
  // Makes sure that the volumes of `trial.container.provided` have their content: the program, and the folder
  // that every user may write to. `id`: the trial's container, which was created with the volumes, and has
  // not started. Repeatable; safe for many threads and for several processes. Throws Error: refused,
  // conflict, unavailable, timeout.
  void provide(Connections& engine, const std::string& id, const Trial& trial, const std::stop_token& stop);

 private:
  std::mutex filling_;  // only one thread at a time fills a volume
};

// Removes the volumes of programs that no container uses. If the engine refuses a removal, the volume stays,
// and the function succeeds.
void remove_unused_programs(Connections& engine, const std::stop_token& stop);

}  // namespace combu::docker
