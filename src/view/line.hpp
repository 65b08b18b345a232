#pragma once
// Text that others wrote (names, errors, an engine's words), made fit for one line of a terminal.

#include <cstddef>
#include <string>
#include <string_view>

#include "combu/base.hpp"

namespace combu {

// `text` without control characters and escape sequences, in valid UTF-8: line ends and tabs become spaces,
// bytes that are no UTF-8 become question marks.
[[nodiscard]] std::string clean_line(std::string_view text);

// Whether it is printable ASCII only, and so clean.
[[nodiscard]] bool is_plain(std::string_view text);

// A clean line cut to at most `columns_max` columns, between characters; what was cut is told by "…".
[[nodiscard]] std::string cut_line(std::string_view clean, std::size_t columns_max);

// The same, but cut in its middle: "a-qu…-17". Names that differ at their ends stay different.
[[nodiscard]] std::string cut_middle(std::string_view clean, std::size_t columns_max);

}  // namespace combu
