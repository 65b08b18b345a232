#pragma once
// What has been done before, by the record: see Memory in run.hpp.

#include <memory>

#include "cli/load.hpp"
#include "combu/outputs.hpp"
#include "combu/record.hpp"
#include "combu/run.hpp"

namespace combu {

enum class Recall {
  done,  // what has been done is not done again
  none,  // all is done again, and known from here on
};

// `digests`: of the images that the trials are started from, as far as they are not on record. `depot`: where
// outputs come home to, which outlives it, like `loaded`. Opens the record for itself when it is asked first.
[[nodiscard]] std::unique_ptr<Memory> open_memory(const Loaded& loaded, Digests digests, Depot& depot,
                                                  Recall recall);

}  // namespace combu
