#pragma once
// What `run`, `run --resume` and `retry` share: trials are started, watched and put on record.

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/load.hpp"
#include "app/run_options.hpp"
#include "app/run_owner.hpp"
#include "combu/record.hpp"
#include "combu/session.hpp"

namespace combu {

// Where a run stands that is gone on with.
struct Standing {
  std::vector<Past> past;
  Instant working_since{};
};

// What was found out, and how long it took, before the first start.
struct Prepared {
  Seconds took{0};
  Digests digests;
  Digests references;
};

// What the engine and the caller's folders would refuse of it, all of it; then images, networks and folders
// are made ready, and what of these cannot be had is returned.
[[nodiscard]] std::vector<Error> make_ready(Session& session, const Loaded& loaded, const RunOptions& options,
                                            Prepared& prepared);

// The run as it gets on the record. Takes the texts out of `loaded`: they are as long as the experiment is
// large.
[[nodiscard]] RunEntry entry_of(Session& session, Loaded& loaded, const RunOptions& options,
                                const Prepared& prepared);

enum class Earlier { refuse, replace };
// All that can be refused comes before anything changes on the record or on the engine, and that before the
// first start. `loaded` gets its host paths. `earlier`: whether what lives of earlier runs is removed.
// `enter` is called in between: it puts on record that the run begins, or goes on from where it stands.
// `work` has begun.
[[nodiscard]] Result execute(Session& session, Record& record, Loaded& loaded, const RunOptions& options,
                             Earlier earlier, RunOwner& owner,
                             const std::function<std::optional<Standing>(const Prepared&)>& enter);

}  // namespace combu
