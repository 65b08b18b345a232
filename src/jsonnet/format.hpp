#pragma once
// Jsonnet's std.format (the operator `%` on a string), with the directives of C's printf. docs/experiment.md
// lists the differences from C.
//
// Texts and values are passed as JSON, in the form in which Jsonnet writes JSON. The functions are pure, and
// throw Error(invalid) without a subject if an argument is invalid.

#include <string>
#include <string_view>
#include <vector>

namespace combu {

// `call` is [text, values], where `values` is an array. Returns `text` with the values in place of its
// directives.
[[nodiscard]] std::string format(std::string_view call);

// `call` is [text]. Returns the names of the object fields in the directives of `text`, such as `lr` in
// `%(lr)g`, in their order and with repetitions. The caller must pass the values of these fields to format().
[[nodiscard]] std::vector<std::string> format_fields(std::string_view call);

}  // namespace combu
