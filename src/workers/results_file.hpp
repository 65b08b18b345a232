#pragma once
// The results that an agent leaves in its container when it ends (docs/agent.md).

#include <stop_token>
#include <string>
#include <vector>

#include "combu/agent.hpp"
#include "combu/engine.hpp"

namespace combu::workers {

struct Result {
  agent::Started started;
  agent::Ended ended;
  std::vector<agent::LogChunk> log;  // the whole log
};

// Reads the results from the file `path` of the container `worker`. Returns an empty list if there is no such
// file. Ignores a result that the agent has not written completely. Throws Error like Engine::copy_out(), and
// Error(corrupt) if the file has holes or the archive is larger than 1 GiB.
[[nodiscard]] std::vector<Result> results_of(Engine& engine, const Key& worker, const std::string& path,
                                             const std::stop_token& stop);

// Reads the frames of the file. The bytes come from a container, and may be anything.
[[nodiscard]] std::vector<Result> read_results(std::string_view bytes);

}  // namespace combu::workers
