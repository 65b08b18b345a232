#include "cli/run_results.hpp"

#include <fmt/format.h>

#include "cli/run_lock.hpp"

namespace combu {

RunResults::RunResults(const Invocation& invocation)
    : invocation_(invocation),
      folder_(state_folder(caller_for(invocation))),
      record_(folder_, Record::Use::reading) {}

Results RunResults::read(const std::string& id) {
  RunEntry entry = find_run(record_, invocation_, id);
  Telemetry* told = telemetry(entry.id);
  return read_results(record_, told, std::move(entry));
}

std::vector<Results> RunResults::read(const std::vector<std::string>& ids) {
  std::vector<Results> all;
  for (const std::string& id : ids) all.push_back(read(id));
  if (ids.empty()) all.push_back(read(std::string()));
  return all;
}

Telemetry* RunResults::telemetry(const RunId& run) {
  if (open_ == run) return telemetry_.get();
  telemetry_.reset();
  open_ = run;
  if (Telemetry::exists(folder_, run)) telemetry_ = std::make_unique<Telemetry>(folder_, run);
  return telemetry_.get();
}

void choose(Results& results, const std::string& where, Progress& progress) {
  if (where.empty()) return;
  for (const std::string& name : choose_results(results, Filter(where)))
    progress.note(fmt::format("--where: no trial of run {} has `{}`", results.run.id.text(), name));
}

}  // namespace combu
