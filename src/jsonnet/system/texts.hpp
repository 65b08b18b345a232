#pragma once
// What combu puts in the place of libjsonnet's own: how a number is written, and std.format.
// docs/experiment.md says what both evaluators give; rsjsonnet does by itself.

struct JsonnetVm;

namespace combu {

// For each machine, before it evaluates.
void set_texts(JsonnetVm* vm);

}  // namespace combu
