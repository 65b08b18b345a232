#pragma once

#include <functional>
#include <string>

#include "cli/execution.hpp"
#include "cli/invocation.hpp"

namespace combu {

struct Resumption {
  std::string run;       // its id; empty: the last one of the invocation's file
  bool edited = false;   // with the file as it is now
  AdjustOptions adjust;  // changes its options
};

// Goes on with a run that is on record, on the engine it was begun on unless --engine names one.
// `background`: as for AtWork. Gives the exit code. Throws Error.
[[nodiscard]] int resume_run(const Invocation& invocation, const Resumption& resumption,
                             const Background* background);

}  // namespace combu
