#pragma once
// The tables, and how those of an older combu become these.

#include "combu/database.hpp"

namespace combu::record {

// What stands in its steps has been used: a change is another step.
[[nodiscard]] database::Schema schema();

}  // namespace combu::record
