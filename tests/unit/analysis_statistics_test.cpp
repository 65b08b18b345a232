#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "combu/analysis.hpp"

namespace combu {
namespace {

using testing::DoubleNear;

// NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2, column 0.975.
TEST(StudentT, MatchesPublishedTables) {
  EXPECT_THAT(student_t(1), DoubleNear(12.706, 5e-4));
  EXPECT_THAT(student_t(2), DoubleNear(4.303, 5e-4));
  EXPECT_THAT(student_t(5), DoubleNear(2.571, 5e-4));
  EXPECT_THAT(student_t(10), DoubleNear(2.228, 5e-4));
  EXPECT_THAT(student_t(30), DoubleNear(2.042, 5e-4));
  EXPECT_THAT(student_t(100), DoubleNear(1.984, 5e-4));
  EXPECT_THAT(student_t(1e9), DoubleNear(1.96, 5e-4));
}

TEST(StudentT, FractionalDegreesOfFreedomLieBetweenWholeOnes) {
  EXPECT_LT(student_t(2.5), student_t(2));
  EXPECT_GT(student_t(2.5), student_t(3));
  EXPECT_GT(student_t(0.5), student_t(1));
}

// The first five of Michelson's measurements of the speed of light, 1879; t of 4 degrees of freedom is
// 2.776445.
TEST(Sample, MeanDeviationAndIntervalAreComputed) {
  const std::array<double, 5> values{850, 740, 900, 1070, 930};
  const Sample sample = sample_of(values);
  EXPECT_EQ(sample.count, 5U);
  EXPECT_DOUBLE_EQ(sample.mean, 898);
  EXPECT_THAT(sample.deviation, DoubleNear(120.2913, 1e-3));
  EXPECT_THAT(sample.half, DoubleNear(149.3614, 1e-3));
}

TEST(Sample, OneValueHasNoInterval) {
  const std::array<double, 1> value{3};
  const Sample sample = sample_of(value);
  EXPECT_DOUBLE_EQ(sample.mean, 3);
  EXPECT_TRUE(std::isnan(sample.deviation));
  EXPECT_TRUE(std::isnan(sample.half));
  EXPECT_TRUE(std::isnan(sample_of({}).mean));
}

// Data set `sleep` of R, from "Student" (1908). For group 1 less group 2, t.test(extra ~ group) gives the
// interval -3.3654832 to 0.2054832, and t.test(…, paired = TRUE) -2.4598858 to -0.7001142.
constexpr std::array<double, 10> k_drug1{0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0};
constexpr std::array<double, 10> k_drug2{1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4};

TEST(Difference, WelchIntervalMatchesR) {
  const Difference difference = welch_difference(sample_of(k_drug1), sample_of(k_drug2));
  EXPECT_THAT(difference.mean - difference.half, DoubleNear(-0.2054832, 1e-6));
  EXPECT_THAT(difference.mean + difference.half, DoubleNear(3.3654832, 1e-6));
  EXPECT_EQ(difference.pairing, Pairing::welch);
}

TEST(Difference, PairedIntervalMatchesR) {
  const Difference difference = paired_difference(k_drug1, k_drug2);
  EXPECT_THAT(difference.mean - difference.half, DoubleNear(0.7001142, 1e-6));
  EXPECT_THAT(difference.mean + difference.half, DoubleNear(2.4598858, 1e-6));
  EXPECT_EQ(difference.pairing, Pairing::paired);
}

TEST(Difference, ConstantValuesHaveAnExactDifference) {
  const std::array<double, 2> one{1, 1};
  const std::array<double, 2> other{3, 3};
  const Difference difference = welch_difference(sample_of(one), sample_of(other));
  EXPECT_DOUBLE_EQ(difference.mean, 2);
  EXPECT_DOUBLE_EQ(difference.half, 0);
}

TEST(Difference, RoundingErrorsDoNotCountAsDeviation) {
  const std::array<double, 3> tenths{0.1, 0.1, 0.1};  // a third of their sum is not 0.1
  const Sample sample = sample_of(tenths);
  EXPECT_EQ(sample.mean, 0.1);
  EXPECT_EQ(sample.deviation, 0);
  EXPECT_EQ(sample.half, 0);
  const std::array<double, 3> one{0.1, 0.2, 0.3};
  const std::array<double, 3> other{0.4, 0.5, 0.6};  // differences to `one` differ in their last digits
  const Difference difference = paired_difference(one, other);
  EXPECT_DOUBLE_EQ(difference.mean, 0.3);
  EXPECT_EQ(difference.half, 0);
  const std::array<double, 3> near{0.4, 0.5, 0.6 + 1e-13};
  EXPECT_GT(paired_difference(one, near).half, 0);
}

TEST(Difference, OneValueEachHasNoInterval) {
  const std::array<double, 1> one{1};
  const std::array<double, 1> other{3};
  const Difference difference = welch_difference(sample_of(one), sample_of(other));
  EXPECT_DOUBLE_EQ(difference.mean, 2);
  EXPECT_TRUE(std::isnan(difference.half));
  EXPECT_EQ(difference.pairing, Pairing::none);
}

}  // namespace
}  // namespace combu
