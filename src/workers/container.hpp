#pragma once
// The containers of workers: their names, their description as trials, and their number.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "combu/engine.hpp"
#include "combu/spec.hpp"

namespace combu::workers {

// The agent's program in the container, and the folder of its socket and of the attempts' scratch folders.
inline constexpr std::string_view k_program = "/combu/agent/agent";
inline constexpr std::string_view k_writable = "/combu/attempts";
inline constexpr std::string_view k_folder = "/combu/attempts/w/agent";

// Returns "combu-worker-RUN-NUMBER".
[[nodiscard]] std::string worker_name(const RunId& run, std::size_t number);
// Returns the number in the name of a worker of `run`.
[[nodiscard]] std::optional<std::size_t> number_of_worker(const RunId& run, std::string_view name);

// A description of a worker. The agent repeats the text of the Note to each client, so that another process
// can use the worker, too.
struct Note {
  std::size_t concurrency = 1;
  std::string shape;  // the SHA-256 of worker_shape()
};
[[nodiscard]] std::string to_text(const Note& note);
[[nodiscard]] Note parse_note(std::string_view text);
[[nodiscard]] Note note_of(const Trial& trial);

// Copies the inputs that all attempts of a worker share into its container: the engine's start(), or
// stage_inputs().
enum class Staging { by_engine, by_agent };
[[nodiscard]] inline Staging staging_of(const Engine& engine) {
  return engine.copies_files() ? Staging::by_engine : Staging::by_agent;
}

// Returns a trial whose attempt is a worker for `trial`: its container runs the agent.
[[nodiscard]] Trial container_of(const Trial& trial, std::string name,
                                 std::shared_ptr<const ProvidedProgram> program, Staging staging);

// The engine gives the agent the secret variables as files, because the engine's host may keep the
// environment of a container on its disk. The agent gives them to the programs. Changes the entrypoint, which
// runs the agent.
void pass_variables_as_files(Trial& container);

// Returns the slots of a worker, or of one attempt in a worker with these slots.
[[nodiscard]] Slots times(const Slots& slots, std::size_t concurrency);
[[nodiscard]] Slots divided(const Slots& slots, std::size_t concurrency);

inline constexpr Seconds k_default_grace{10};  // the default of a Docker Engine
// Rounds up.
[[nodiscard]] std::uint64_t milliseconds_of(Seconds duration);
// Returns the number of bytes of the attempt's output that its agent keeps.
[[nodiscard]] std::uint64_t log_max_of(const Trial& trial);

// Returns the program and the arguments of an attempt: what the container of the trial would run.
[[nodiscard]] std::vector<std::string> argv_of(const Trial& trial, const ImageProgram& image);
// Throws Error(refused) if the result of argv_of() names no program.
void expect_program(const std::vector<std::string>& argv, const std::string& trial);

// Prepares the image of the trial: a process that resumes a run may start attempts without Engine::prepare().
// Throws the first error.
void prepare_image(Engine& engine, const Run& run, const Trial& trial, const std::stop_token& stop);

// Returns the number of workers that the trials of one shape can have at once. `capacity`: empty if unknown.
[[nodiscard]] std::size_t count_max(const Trial& trial, const Slots& capacity);
// See Engine::limits().
[[nodiscard]] std::vector<StartLimit> limits_of(const Experiment& experiment, const Slots& capacity);

}  // namespace combu::workers
