#pragma once
// Converts the evaluator's error report to an Error.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "combu/base.hpp"

namespace combu {

// Converts columns of the evaluated text to columns of the file. The evaluated text contains the run's id
// where the file contains "UUID".
class Columns {
 public:
  // `places` is the result of find_identifiers(source).
  Columns(std::string_view source, const std::vector<std::size_t>& places, std::size_t identifier_length);

  // Returns the column in the file. Lines and columns begin at 1. Columns count bytes, as in libjsonnet.
  [[nodiscard]] std::size_t original(std::size_t line, std::size_t column) const;

 private:
  struct SourcePlace {
    std::size_t line;
    std::size_t column;
  };
  std::vector<SourcePlace> places_;
  std::size_t identifier_length_;
};

// Returns an Error(invalid) with the subject "file:line:column". The message begins with the message of the
// evaluator. The line of the file follows, with a caret below the column. At most 8 lines show the callers,
// the innermost first, in the form "  from file:line:column: text of the line". The last line shows the
// location in the result, for example "  in [3].command". Parts that are not known are left out. `file` is
// the name under which `source` was evaluated. Lines of imported files are read from these files.
[[nodiscard]] Error explain(std::string_view account, std::string_view file, std::string_view source,
                            const Columns& columns);

}  // namespace combu
