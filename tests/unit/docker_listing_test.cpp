// Listings that are shared by several threads.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "docker/shared_listing.hpp"

namespace combu::docker {
namespace {

TEST(SharedListing, AReturnedListingBeganAfterTheCall) {
  constexpr int k_threads = 8;
  constexpr int k_calls = 50;
  SharedListing listing;
  std::atomic<std::int64_t> begun = 0;
  const auto ask = [&] {
    SharedListing::Containers containers(1);
    containers[0].created = ++begun;
    std::this_thread::sleep_for(std::chrono::microseconds(100));  // a listing takes an engine some time
    return containers;
  };
  {
    std::vector<std::jthread> threads;
    threads.reserve(k_threads);
    for (int i = 0; i < k_threads; ++i)
      threads.emplace_back([&] {
        for (int call = 0; call < k_calls; ++call) {
          const std::int64_t before = begun;
          EXPECT_GT(listing.after_now(ask)->at(0).created, before);
        }
      });
  }
  EXPECT_LT(begun, k_threads * k_calls) << "those who wait share the next one";
}

TEST(SharedListing, AFailureReachesOnlyTheCallerWhoseListingFailed) {
  SharedListing listing;
  EXPECT_THROW(listing.after_now(
                   []() -> SharedListing::Containers { throw Error(ErrorKind::unavailable, "", "away"); }),
               Error);
  EXPECT_EQ(listing.after_now([] { return SharedListing::Containers(2); })->size(), 2U);
}

}  // namespace
}  // namespace combu::docker
