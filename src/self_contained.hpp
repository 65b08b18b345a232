#pragma once

namespace combu {

// Keeps a program that is linked statically from loading libraries of the machine that it runs on. To be
// called before anything else, with no other thread about.
void stay_self_contained();

}  // namespace combu
