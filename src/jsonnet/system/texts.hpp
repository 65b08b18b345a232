#pragma once
// Replaces two parts of libjsonnet with combu's own: the text of numbers, and std.format. docs/experiment.md
// describes the result. rsjsonnet gives the same result without a replacement.

struct JsonnetVm;

namespace combu {

// Prepares `vm` for the replacements. Must be called before `vm` evaluates code.
void set_texts(JsonnetVm* vm);

// True if libjsonnet has used the replacements in an evaluation. False if libjsonnet was built with
// -Bsymbolic, because the program cannot replace its functions.
[[nodiscard]] bool texts_are_set();

}  // namespace combu
