#pragma once
// libjsonnet's account of an error, made into ours.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "combu/base.hpp"

namespace combu {

// Where the evaluated text stood before its identifiers were put in, so that columns can be told as the file
// has them.
class Columns {
 public:
  // `places` as find_identifiers gives them for `source`.
  Columns(std::string_view source, const std::vector<std::size_t>& places, std::size_t identifier_length);

  // Lines and columns begin at 1; columns count bytes, as libjsonnet does.
  [[nodiscard]] std::size_t original(std::size_t line, std::size_t column) const;

 private:
  struct Place {
    std::size_t line;
    std::size_t column;
  };
  std::vector<Place> places_;
  std::size_t identifier_length_;
};

// An Error(invalid) whose subject is "file:line:column" and whose message is what is wrong; then, where there
// is one, that line of the file with a caret below its column, at most 8 lines "  from file:line:column: its
// text" of where it was called from, the innermost first, and "  in [3].command", where in the result that
// is. `file` is the name under which `source` was evaluated; lines of what it imports are read from there.
[[nodiscard]] Error explain(std::string_view account, std::string_view file, std::string_view source,
                            const Columns& columns);

}  // namespace combu
