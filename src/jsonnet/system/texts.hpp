#pragma once
// Replaces two parts of libjsonnet with combu's own: the text of numbers, and std.format. docs/experiment.md
// describes the result. rsjsonnet gives the same result without a replacement.

struct JsonnetVm;

namespace combu {

// Prepares a machine. Call it before the machine evaluates.
void set_texts(JsonnetVm* vm);

// True if libjsonnet has used the replacements in an evaluation. False for a library that was built with
// -Bsymbolic.
[[nodiscard]] bool texts_are_set();

}  // namespace combu
