#pragma once
// Jsonnet's std.format, which `%` on a text is: the directives of C's printf. docs/experiment.md says where
// it is not as C's.
//
// Texts and values come as Jsonnet writes them in JSON. What is wrong with them is an Error(invalid) without
// a subject. All is pure.

#include <string>
#include <string_view>
#include <vector>

namespace combu {

// `call` is [text, values]: `text` with `values`, an array, put in its directives' places.
[[nodiscard]] std::string format(std::string_view call);

// `call` is [text]: the fields of an object that the text's directives name, `%(lr)g`, as often and in the
// order in which they stand. format() takes their values.
[[nodiscard]] std::vector<std::string> format_fields(std::string_view call);

}  // namespace combu
