#pragma once
// What combu puts in the place of libjsonnet's own: how a number is written, and std.format.
// docs/experiment.md says what both evaluators give; rsjsonnet does by itself.

struct JsonnetVm;

namespace combu {

// For each machine, before it evaluates.
void set_texts(JsonnetVm* vm);

// After an evaluation: whether the library has taken them. One that was built with -Bsymbolic does not.
[[nodiscard]] bool texts_are_set();

}  // namespace combu
