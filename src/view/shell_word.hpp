#pragma once

#include <string>
#include <string_view>

namespace combu {

// `text` as one word of a POSIX shell, quoted when it has to be.
[[nodiscard]] std::string shell_word(std::string_view text);

}  // namespace combu
