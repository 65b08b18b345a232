#pragma once

#include <string_view>

namespace combu {

// A standard file that the caller has closed would be the first one that is opened, an engine's socket. From
// now on it is one that can be neither read nor written. Call it first.
void hold_standard_files();

// Writes data to standard output, at once. False when its reader has gone (`combu ps | head`): that is no
// error, and there is no use in writing more. Throws Error(refused) when it cannot be written otherwise.
[[nodiscard]] bool put_out(std::string_view data);
// The same to standard error.
[[nodiscard]] bool put_err(std::string_view data);

}  // namespace combu
