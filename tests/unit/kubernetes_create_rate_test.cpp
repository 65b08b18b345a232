#include <gtest/gtest.h>

#include <chrono>

#include "kubernetes/create_rate.hpp"

namespace combu::kubernetes {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const CreateRate::Moment k_begin = CreateRate::Moment{} + std::chrono::hours(1);

// Returns the time between two requests, in milliseconds.
double interval(CreateRate& rate, CreateRate::Moment now) {
  const CreateRate::Moment first = rate.reserve(now);
  return std::chrono::duration<double, std::milli>(rate.reserve(now) - first).count();
}

TEST(CreateRate, SpreadsRequests) {
  CreateRate rate;
  EXPECT_EQ(rate.reserve(k_begin), k_begin);
  EXPECT_EQ(rate.reserve(k_begin), k_begin + milliseconds(10));
  EXPECT_EQ(rate.reserve(k_begin + seconds(1)), k_begin + seconds(1));
}

TEST(CreateRate, GrowsWithQuickAnswers) {
  CreateRate rate;
  rate.answered(Seconds{0.01}, k_begin);
  EXPECT_NEAR(interval(rate, k_begin), 10 / 1.1, 0.01);
  rate.answered(Seconds{1}, k_begin);
  EXPECT_NEAR(interval(rate, k_begin + seconds(1)), 10 / 1.1, 0.01);
  for (int i = 0; i < 100; ++i) rate.answered(Seconds{0.01}, k_begin);
  EXPECT_NEAR(interval(rate, k_begin + seconds(2)), 0.5, 0.01);
}

TEST(CreateRate, IsHalvedOnceBySlowAnswersOfOneSecond) {
  CreateRate rate;
  rate.answered(Seconds{3}, k_begin);
  rate.answered(Seconds{3}, k_begin + milliseconds(500));
  EXPECT_NEAR(interval(rate, k_begin + seconds(1)), 20, 0.01);
  rate.answered(Seconds{3}, k_begin + milliseconds(1500));
  EXPECT_NEAR(interval(rate, k_begin + seconds(3)), 40, 0.01);
}

TEST(CreateRate, HasAMinimum) {
  CreateRate rate;
  for (int i = 0; i < 20; ++i) rate.answered(Seconds{3}, k_begin + seconds(2 * i));
  EXPECT_NEAR(interval(rate, k_begin + seconds(60)), 1000, 0.01);
}

TEST(CreateRate, WaitsAsLongAsAnOverloadedServerAsks) {
  CreateRate rate;
  rate.overloaded(Seconds{5}, k_begin);
  EXPECT_EQ(rate.reserve(k_begin), k_begin + seconds(5));
  EXPECT_NEAR(interval(rate, k_begin + seconds(10)), 20, 0.01);
}

}  // namespace
}  // namespace combu::kubernetes
