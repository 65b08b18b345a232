#pragma once

namespace combu {

// Prevents a statically linked program from loading shared libraries of the machine on which it runs. Call
// this function first in main(), while the process has only one thread.
void stay_self_contained();

}  // namespace combu
