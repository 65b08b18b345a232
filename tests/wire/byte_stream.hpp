#pragma once
// Expectations of the streams of exec().

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <string>
#include <thread>

#include "combu/engine.hpp"

namespace combu::wire {

// Writes `bytes` while it reads as many bytes, and expects to read the same bytes.
inline void expect_echo(ByteStream& stream, const std::string& bytes) {
  std::jthread writer([&] { stream.write(bytes); });
  std::string back(bytes.size(), '\0');
  std::size_t filled = 0;
  while (filled < back.size()) {
    const std::size_t count = stream.read(std::span(back).subspan(filled));
    ASSERT_GT(count, 0U);
    filled += count;
  }
  EXPECT_TRUE(back == bytes);
}

}  // namespace combu::wire
