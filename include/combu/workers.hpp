#pragma once
// Workers: warm containers in which the attempts of trials with `worker` run. docs/workers.md describes them
// for users.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "combu/base.hpp"
#include "combu/engine.hpp"
#include "combu/spec.hpp"

namespace combu {

// Returns the agent's program for a platform such as "linux/amd64"; empty if this combu has none for it.
using AgentPrograms = std::function<std::string_view(std::string_view platform)>;

// Returns an engine that runs the attempts of trials with `worker` in workers, and passes all other trials on
// to `engine`. A worker is an attempt of `engine` with a name of its own (see is_worker_name()). The returned
// engine lists and reports the attempts inside the workers of a run instead of the workers. It does so for
// each run that this process prepares, checks or starts trials of, or that a selector names. The workers of
// other runs are listed like other attempts, so that the slots that they hold are visible.
//
// When the returned engine is destroyed, it ends the workers of this process that have no attempts left. The
// others continue their attempts. `engine` must outlive it.
[[nodiscard]] std::unique_ptr<Engine> with_workers(Engine& engine, AgentPrograms programs);

// Returns the run with one trial for each kind of worker, instead of the trials that share it, as the engine
// of with_workers() starts them on an engine that does not copy files.
[[nodiscard]] Run with_worker_containers(const Run& run, AgentPrograms programs);

struct SupervisionLimits {
  // A connection is closed, and opened again, if the agent does not answer for this time.
  Seconds silence_max{15};
  // list(), logs() and stop() wait at most so long for agents that have not answered yet.
  Seconds listing_max{10};
  // start() waits at most so long for an agent to begin a program with secrets.
  Seconds begin_max{60};
  // Between two tries to connect to an agent.
  Seconds pause_min{0.05};
  Seconds pause_max{3};
};

// Returns an engine that starts the containers of some trials with the agent as first process, which runs the
// program of the trial. On an engine without Engine::copies_files(), these are the trials with
// Trial::moves_files(): the agent receives the inputs before it starts the program, and keeps the files after
// its end, until acknowledge() or until Experiment::hold has passed. On an engine without
// Engine::gives_secrets(), these are the trials with secrets: the agent only receives the secrets before it
// starts the program. `engine` must outlive the result.
[[nodiscard]] std::unique_ptr<Engine> with_supervision(Engine& engine, AgentPrograms programs,
                                                       SupervisionLimits limits = {});

// Returns the run with the trials as the engine of with_supervision() starts them on an engine without
// Engine::copies_files().
[[nodiscard]] Run with_supervised_containers(const Run& run, AgentPrograms programs);

// True if `name` is the name of a worker's container. No trial may have such a name.
[[nodiscard]] bool is_worker_name(std::string_view name);

}  // namespace combu
