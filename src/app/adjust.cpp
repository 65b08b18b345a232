#include "app/adjust.hpp"

#include "app/run_options.hpp"
#include "combu/control.hpp"
#include "combu/session.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

// Records the new limits of parallel trials and of starts in flight, so that a process that resumes the run
// uses them.
void record_settings(Record& record, const RunId& run, const Adjust& adjust) {
  change_options(record, run, [&](RunOptions& options) {
    if (adjust.parallel_max) options.parallel = adjust.parallel_max;
    options.starts_in_flight = adjust.starts_in_flight_max.value_or(options.starts_in_flight);
  });
}

}  // namespace

Adjusted adjust_run(const Invocation& invocation, const std::string& run, const Adjust& adjust) {
  Record record = open_record(invocation);
  const RunEntry entry = find_owned_run(record, invocation, run);
  const Caller caller = caller_for(invocation);
  if (!owner_pid(entry.id, caller)) throw no_owner(entry, invocation.engine);
  ControlClient client(channel_path(entry.id, caller));
  const Settings settings = client.adjust(adjust, {});
  record_settings(record, entry.id, adjust);
  return {.run = entry.id, .settings = settings};
}

}  // namespace combu
