#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <utility>

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

// The same, where something must be thrown.
inline Error error_in(const std::function<void()>& call) {
  if (auto error = error_of(call)) return *std::move(error);
  ADD_FAILURE() << "nothing was thrown";
  return {ErrorKind::cancelled, "", "nothing was thrown"};
}

}  // namespace combu::test
