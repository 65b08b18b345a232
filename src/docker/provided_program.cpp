#include "docker/provided_program.hpp"

#include <fmt/core.h>

#include <cstdint>
#include <utility>

#include "combu/engine.hpp"
#include "docker/api.hpp"
#include "docker/api_json.hpp"

namespace combu::docker {
namespace {

using nlohmann::json;

constexpr int k_program_mode = 0711;  // the kernel lets only root trace a program that its user cannot read
constexpr int k_writable_mode = 01777;
// While another process fills the volume, combu waits so long for the program, and then removes the container
// that fills the volume. The other process may have died.
constexpr Seconds k_look_for_program_again{0.1};
constexpr int k_program_looks_max = 50;
// Maximum number of times that combu tries to fill the volume. Another process may have removed the container
// that fills the volume.
constexpr int k_fill_tries_max = 5;

// Returns the first 12 hexadecimal digits of the program's SHA-256.
std::string digits_of(const ProvidedProgram& program) {
  constexpr std::size_t k_digits = 12;
  return sha256_of(program.content).substr(0, k_digits);
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string name_of(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

// True if the program's volume, which the container `id` mounts, holds the whole program. The size shows
// this: an engine writes the file from the beginning to the end.
bool has_program(Connections& engine, const std::string& id, const ProvidedProgram& program,
                 const std::stop_token& stop) {
  return file_size(engine, id, program.path, stop) == static_cast<std::int64_t>(program.content.size());
}

// Returns the description of a container that is never started, and that mounts the volume of the program for
// writing. The container has no label of an attempt.
json filler_json(const Trial& trial) {
  const ProvidedProgram& program = *trial.container.provided;
  return {
      {"Image", trial.image},
      {"Entrypoint", {program.path}},
      {"Labels", {{k_label_program, digits_of(program)}}},
      {"HostConfig", {{"NetworkMode", "none"}, {"Mounts", {program_mount(program, ProgramAccess::write)}}}}};
}

// Returns false if another process removed the container that fills the volume.
bool fill(Connections& engine, const std::string& filler, const ProvidedProgram& program,
          const std::stop_token& stop) {
  const std::string tar =
      tar_of({{.path = name_of(program.path), .mode = k_program_mode, .content = program.content}});
  try {
    put_archive(engine, filler, folder_of(program.path), tar, stop);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::not_found) return false;
    remove_container(engine, filler, filler, {});
    throw;
  }
  remove_container(engine, filler, filler, stop);
  return true;
}

// Waits until the container `id` has the program, which another process provides. Returns false if the
// program is absent for too long.
bool await_program(Connections& engine, const std::string& id, const ProvidedProgram& program,
                   const std::stop_token& stop) {
  for (int looks = 0; looks < k_program_looks_max; ++looks) {
    if (has_program(engine, id, program, stop)) return true;
    real_clock().wait(k_look_for_program_again, stop);
  }
  return false;
}

void fill_volume(Connections& engine, const std::string& id, const Trial& trial,
                 const std::stop_token& stop) {
  const ProvidedProgram& program = *trial.container.provided;
  const std::string filler = "combu-agent-fill-" + digits_of(program);
  for (int tries = 0; tries < k_fill_tries_max; ++tries) {
    const HttpResponse created = create_container(engine, filler, trial.platform, filler_json(trial), stop);
    if (created.status == 409) {
      if (await_program(engine, id, program, stop)) return;
      remove_container(engine, filler, trial.name, stop);
    } else if (created.status != 201) {
      throw error_of(created, trial.name);
    } else if (fill(engine, filler, program, stop)) {
      return;
    }
  }
  throw Error(ErrorKind::unavailable, trial.name,
              fmt::format("the volume of combu's agent could not be filled in {} tries; try again",
                          k_fill_tries_max));
}

}  // namespace

json program_mount(const ProvidedProgram& program, ProgramAccess access) {
  const std::string digits = digits_of(program);
  json mount = {{"Type", "volume"},
                {"Source", "combu-agent-" + digits},
                {"Target", folder_of(program.path)},
                {"VolumeOptions", {{"NoCopy", true}, {"Labels", {{k_label_program, digits}}}}}};
  if (access == ProgramAccess::read) mount["ReadOnly"] = true;
  return mount;
}

void ProgramProvider::provide(Connections& engine, const std::string& id, const Trial& trial,
                              const std::stop_token& stop) {
  const ProvidedProgram& program = *trial.container.provided;
  put_archive(engine, id, program.folder, tar_of({{.path = "w/", .mode = k_writable_mode}}), stop);
  if (has_program(engine, id, program, stop)) return;
  const std::scoped_lock lock(filling_);
  if (!has_program(engine, id, program, stop)) fill_volume(engine, id, trial, stop);
}

void remove_unused_programs(Connections& engine, const std::stop_token& stop) {
  try {
    for (const std::string& name : list_volumes(engine, k_label_program, stop))
      (void)remove_volume(engine, name, stop);
  } catch (const Error& error) {
    // For example, a proxy before the engine may forbid requests for volumes.
    if (!is_definite(error)) throw;
  }
}

}  // namespace combu::docker
