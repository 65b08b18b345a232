#include <fmt/format.h>

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "combu/run.hpp"

namespace combu {
namespace {

// Calls `verb`. Returns the reason if the call failed; empty on success. Catches every std::exception,
// because an uncaught exception of a thread would end the process.
template <class Verb>
std::string fault_of(const Verb& verb, Collected* collected = nullptr) {
  try {
    verb();
  } catch (const Error& error) {
    const bool is_gone = error.kind() == ErrorKind::not_found;
    if (collected != nullptr) {
      collected->by_attempt = is_gone || error.kind() == ErrorKind::invalid;
      collected->is_lost = error.kind() == ErrorKind::lost;
    }
    if (is_gone) return fmt::format("its outputs are lost: {}", error.message());
    if (error.kind() == ErrorKind::lost)
      return fmt::format("{}, before its outputs were collected", error.message());
    return error.what();
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

}  // namespace

OutputsResult collect_trial_outputs(Engine& engine, const Run& run, const CollectCommand& command,
                                    OutputStore& output_store, const std::stop_token& stop) {
  const Trial& trial = run.experiment.trials[command.trial];
  std::vector<Output> outputs = trial.outputs;
  if (command.failed)
    for (Output& output : outputs) output.required = false;
  OutputsResult took{.collected = {.trial = command.trial}, .collection = std::nullopt};
  const auto take = [&] {
    took.collection =
        collect_outputs(engine, {.run = run.id, .trial = trial.name, .attempt = command.attempt}, outputs,
                        output_store, stop);
  };
  took.collected.fault = fault_of(take, &took.collected);
  // Partial outputs that cannot be removed do no harm: the name of their folder, TRIAL@so-far, shows that
  // they are partial.
  if (took.collection && run.experiment.collect.every > Seconds(0)) {
    const std::string unremoved = fault_of([&] { output_store.remove(partial_place(trial.name)); });
    if (took.collection->unremoved.empty()) took.collection->unremoved = unremoved;
  }
  return took;
}

std::string collect_partial_outputs(Engine& engine, const Run& run, TrialIndex index, int attempt,
                                    OutputStore& output_store, const std::stop_token& stop) {
  const Trial& trial = run.experiment.trials[index];
  return fault_of([&] {
    (void)collect_partial(engine, {.run = run.id, .trial = trial.name, .attempt = attempt}, trial.outputs,
                          output_store, stop);
  });
}

std::vector<std::string> notes_of(const std::string& trial, const CollectionResult& collection) {
  std::vector<std::string> notes;
  if (!collection.left.empty()) {
    const std::string first = shortened(collection.left.front());
    const std::size_t others = collection.left.size() - 1;
    notes.push_back(
        others == 0
            ? fmt::format("{}: {} is not collected: an output must be a file, folder or link", trial, first)
            : fmt::format("{}: {} and {} more are not collected: outputs must be files, folders or links",
                          trial, first, others));
  }
  if (!collection.unremoved.empty())
    notes.push_back(fmt::format("{}: removing the trial's earlier outputs failed: {}; remove them by hand",
                                trial, collection.unremoved));
  return notes;
}

}  // namespace combu
