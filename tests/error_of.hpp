#pragma once

#include <functional>
#include <optional>

#include "combu/base.hpp"

namespace combu::test {

// What the call throws; nullopt: nothing.
inline std::optional<Error> error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

}  // namespace combu::test
