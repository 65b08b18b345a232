#pragma once
// The tables of the record, and the steps that upgrade the tables that an older version of combu made.

#include "combu/database.hpp"

namespace combu::record {

// Returns the schema. Do not change existing steps, because databases of users were made with them. Add a new
// step to change the tables.
[[nodiscard]] database::Schema schema();

}  // namespace combu::record
