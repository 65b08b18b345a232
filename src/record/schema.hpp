#pragma once
// The tables of the record, and the steps that upgrade those of an older combu.

#include "combu/database.hpp"

namespace combu::record {

// Returns the schema. The existing steps must never change, because databases were made with them. A change
// of the tables needs a further step.
[[nodiscard]] database::Schema schema();

}  // namespace combu::record
