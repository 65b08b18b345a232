#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "combu/run.hpp"

namespace combu {

Collected take_outputs(Engine& engine, const Run& run, const CollectCommand& command, Depot& depot,
                       const std::stop_token& stop) {
  const Trial& trial = run.experiment.trials[command.trial];
  std::vector<Output> outputs = trial.outputs;
  if (command.failed)
    for (Output& output : outputs) output.required = false;
  Collected collected{.trial = command.trial};
  try {
    take_home(engine, {.run = run.id, .trial = trial.name, .attempt = command.attempt}, outputs, depot, stop);
  } catch (const Error& error) {
    collected.by_attempt = error.kind() == ErrorKind::invalid || error.kind() == ErrorKind::not_found;
    collected.fault = error.kind() == ErrorKind::not_found ? "its container is gone, and its outputs with it"
                                                           : std::string(error.what());
  } catch (const std::exception& error) {
    collected.fault = error.what();
  }
  return collected;
}

}  // namespace combu
