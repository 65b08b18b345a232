// The queues between the thread that drives a run and its workers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "run/inbox.hpp"
#include "run/work_queue.hpp"
#include "unit/run_drive.hpp"

namespace combu {
namespace {

using namespace std::chrono_literals;
using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::size_t k_workers = 8;

std::vector<int> numbers(int first, int last) {
  std::vector<int> all;
  for (int i = first; i <= last; ++i) all.push_back(i);
  return all;
}

// A point where threads wait until `expected` of them have arrived.
class Meeting {
 public:
  explicit Meeting(std::size_t expected) : expected_(expected) {}
  // Returns false if the others have not arrived within ten seconds; later calls do not wait, either.
  bool join() {
    std::unique_lock lock(mutex_);
    ++come_;
    changed_.notify_all();
    is_complete_ =
        changed_.wait_for(lock, 10s, [this] { return come_ >= expected_ || !is_complete_; }) && is_complete_;
    changed_.notify_all();
    return is_complete_;
  }

 private:
  const std::size_t expected_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t come_ = 0;
  bool is_complete_ = true;
};

// Calls `work` with each item, in threads that end with the object.
class Workers {
 public:
  Workers(std::size_t count, WorkQueue<int>& queue, const std::function<void(int)>& work) : queue_(queue) {
    for (std::size_t i = 0; i < count; ++i)
      threads_.emplace_back([&queue, work] {
        while (const std::optional<int> item = queue.pop()) work(*item);
      });
  }
  ~Workers() { queue_.close(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

 private:
  WorkQueue<int>& queue_;
  std::vector<std::jthread> threads_;
};

// ---- The queue of the workers

TEST(WorkQueue, ReturnsItemsInOrder) {
  WorkQueue<int> queue;
  for (int i = 1; i <= 5; ++i) queue.push(i);
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_THAT(queue.pop_up_to(3), ElementsAre(2, 3, 4));
  EXPECT_THAT(queue.pop_up_to(3), ElementsAre(5));
}

TEST(WorkQueue, ReturnsItemsOfOnePushInOrder) {
  WorkQueue<int> queue;
  queue.push(1);
  queue.push_all({2, 3});
  queue.push_all({});
  queue.push_all({4});
  EXPECT_THAT(queue.pop_up_to(5), ElementsAre(1, 2, 3, 4));
}

TEST(WorkQueue, CloseEndsTheWait) {
  WorkQueue<int> queue;
  queue.push(1);
  queue.close();
  EXPECT_FALSE(queue.pop()) << "what is left is not given out";
  EXPECT_THAT(queue.pop_up_to(3), IsEmpty());
}

TEST(WorkQueue, CloseWakesAllWorkers) {
  WorkQueue<int> queue;
  std::atomic<std::size_t> begun = 0;
  std::atomic<std::size_t> ended = 0;
  {
    std::vector<std::jthread> threads;
    threads.reserve(k_workers + 1);
    for (std::size_t i = 0; i < k_workers; ++i)
      threads.emplace_back([&] {
        ++begun;
        if (!queue.pop()) ++ended;
      });
    threads.emplace_back([&] {
      ++begun;
      if (queue.pop_up_to(3).empty()) ++ended;
    });
    while (begun < threads.size()) std::this_thread::yield();
    queue.close();
  }
  EXPECT_EQ(ended, k_workers + 1);
}

// Each worker keeps its item until all have one. So no worker may take two, and no worker may sleep.
TEST(WorkQueue, WakesAsManyWorkersAsThereAreItems) {
  for (int round = 0; round < 200; ++round) {
    WorkQueue<int> queue;
    Meeting meeting(k_workers + 1);
    const Workers workers(k_workers, queue, [&](int /*item*/) { meeting.join(); });
    queue.push_all(numbers(1, k_workers));
    ASSERT_TRUE(meeting.join()) << "round " << round;
  }
}

// Pushes items one after another, while workers fall asleep and wake.
TEST(WorkQueue, WakesAWorkerForEachPush) {
  WorkQueue<int> queue;
  std::array<std::optional<Meeting>, 300> meetings;
  const Workers workers(k_workers, queue,
                        [&](int item) { meetings[static_cast<std::size_t>(item)]->join(); });
  for (std::size_t round = 0; round < meetings.size(); ++round) {
    meetings[round].emplace(k_workers + 1);
    for (std::size_t i = 0; i < k_workers; ++i) queue.push(static_cast<int>(round));
    ASSERT_TRUE(meetings[round]->join()) << "round " << round;
  }
}

TEST(WorkQueue, ASlowItemDelaysNoOther) {
  WorkQueue<int> queue;
  Meeting all_others(2);
  Meeting slow(2);
  std::atomic<int> done = 0;
  const Workers workers(2, queue, [&](int item) {
    if (item == 0) {
      slow.join();
    } else if (++done == 1000) {
      all_others.join();
    }
  });
  queue.push_all(numbers(0, 500));
  for (int i = 501; i <= 1000; ++i) queue.push(i);
  EXPECT_TRUE(all_others.join());
  EXPECT_TRUE(slow.join());
}

TEST(WorkQueue, ReturnsEachItemOnce) {
  constexpr int k_count = 10'000;
  WorkQueue<int> queue;
  std::vector<std::atomic<int>> times(k_count);
  std::atomic<int> left = k_count;
  Meeting end(2);
  const Workers workers(k_workers, queue, [&](int item) {
    ++times[static_cast<std::size_t>(item)];
    if (--left == 0) end.join();
  });
  for (int i = 0; i < k_count; i += 10) queue.push_all(numbers(i, i + 9));
  EXPECT_TRUE(end.join());
  EXPECT_THAT(std::vector<int>(times.begin(), times.end()), Each(1));
}

// ---- The inbox

TEST(Inbox, ReturnsAllItemsInOrder) {
  Inbox<int> inbox;
  for (const int item : numbers(1, 3)) inbox.post(item);
  std::vector<int> collection{7};
  inbox.take(collection, 0ms);
  EXPECT_THAT(collection, ElementsAre(1, 2, 3));
  inbox.take(collection, 0ms);
  EXPECT_THAT(collection, IsEmpty());
}

TEST(Inbox, APostEndsTheWait) {
  constexpr std::size_t k_posts = 2000;
  Inbox<std::size_t> inbox;
  std::vector<std::size_t> all;
  {
    std::vector<std::jthread> threads;
    threads.reserve(2);
    for (std::size_t thread = 0; thread < 2; ++thread)
      threads.emplace_back([&] {
        for (std::size_t i = 0; i < k_posts; ++i) inbox.post(i);
      });
    for (std::vector<std::size_t> collection; all.size() < 2 * k_posts;) {
      inbox.take(collection, 10s);
      ASSERT_THAT(collection, Not(IsEmpty()));
      all.insert(all.end(), collection.begin(), collection.end());
    }
  }
  EXPECT_THAT(all, SizeIs(2 * k_posts));
}

// ---- The queue and the inbox, with an engine

class HandOverTest : public test::DriveTest {};

// All starts wait for one another. If there were too few workers, or if a worker held a start while it
// carries out another, the first starts would wait in vain.
TEST_F(HandOverTest, SlowStartsAreCarriedOutInParallel) {
  test::Hooked hooked(*simulated_);
  std::string text;
  for (std::size_t i = 0; i < k_workers; ++i) text += " t" + std::to_string(i);
  Meeting meeting(k_workers);
  std::atomic<std::size_t> met = 0;
  hooked.before_start = [&](const Trial& /*trial*/, const std::stop_token& /*stop*/) {
    if (meeting.join()) ++met;
  };
  const Outcome outcome =
      drive_on(hooked, test::run(text), {.starts_in_flight_max = k_workers, .until = Until::ended});
  EXPECT_EQ(met, k_workers);
  EXPECT_EQ(outcome.last.count(TrialState::succeeded), k_workers);
}

}  // namespace
}  // namespace combu
