#include "combu/engine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace combu {
namespace {

using testing::_;
using testing::InSequence;
using testing::Return;
using testing::Throw;

class EngineMock : public Engine {
 public:
  MOCK_METHOD(Facts, facts, (std::stop_token), (override));
  MOCK_METHOD(std::vector<Gpu>, gpus, (std::stop_token), (override));
  MOCK_METHOD(std::optional<Usage>, usage, (const std::string&, std::stop_token), (override));
  MOCK_METHOD(std::vector<Error>, check, (const combu::Run&, std::stop_token), (override));
  MOCK_METHOD(std::vector<Error>, prepare,
              (const combu::Run&, const std::function<void(const Preparation&)>&, std::stop_token),
              (override));
  MOCK_METHOD(StartResult, start, (const combu::Run&, const Trial&, int, std::stop_token), (override));
  MOCK_METHOD(void, stop, (const Key&, std::optional<Seconds>, std::stop_token), (override));
  MOCK_METHOD(std::vector<Observation>, list, (const Selector&, ListDetail, std::stop_token), (override));
  MOCK_METHOD(void, watch, (const Selector&, const std::function<void(const Change&)>&, std::stop_token),
              (override));
  MOCK_METHOD(void, logs, (const Key&, const LogOptions&, const OnLogPiece&, std::stop_token), (override));
  MOCK_METHOD(bool, copy_out,
              (const Key&, const std::string&, (const std::function<void(std::string_view)>&),
               std::stop_token),
              (override));
  MOCK_METHOD(Released, release, (const Selector&, const ReleaseCallbacks&, std::stop_token), (override));
};

// A clock whose time passes only while a caller waits.
class ClockFake : public Clock {
 public:
  Instant now() override { return now_; }
  void wait(Seconds duration, std::stop_token /*stop*/) override {
    waits.push_back(duration.count());
    now_ += std::chrono::duration_cast<Instant::duration>(duration);
  }
  std::vector<double> waits;

 private:
  Instant now_{};
};

const Error k_away(ErrorKind::unavailable, "engine", "connection refused");

class RetryTest : public testing::Test {
 protected:
  EngineMock mock_;
  ClockFake clock_;
  std::vector<std::string> told_;
  std::unique_ptr<Engine> engine_ =
      with_retry(mock_, {.pause = Seconds(1), .factor = 2, .pause_max = Seconds(3), .give_up = Seconds(10)},
                 clock_, [this](const Error& error, Seconds) { told_.emplace_back(error.message()); });
  combu::Run run_;
  Trial trial_;
};

TEST_F(RetryTest, RepeatsUnansweredCallsWithGrowingPauses) {
  EXPECT_CALL(mock_, start(_, _, 1, _))
      .WillOnce(Throw(k_away))
      .WillOnce(Throw(k_away))
      .WillOnce(Throw(k_away))
      .WillOnce(Throw(k_away))
      .WillOnce(Return(Running{{.id = "c1"}}));
  EXPECT_EQ(std::get<Running>(engine_->start(run_, trial_, 1, {})).observation.id, "c1");
  EXPECT_THAT(clock_.waits, testing::ElementsAre(1, 2, 3, 3));
  EXPECT_EQ(told_.size(), 4U);
}

TEST_F(RetryTest, GivesUpAfterTheTimeLimit) {
  EXPECT_CALL(mock_, list(_, _, _)).WillRepeatedly(Throw(k_away));
  try {
    (void)engine_->list({}, ListDetail::consistent, {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unavailable);
    EXPECT_EQ(error.message(), "connection refused");
  }
  EXPECT_GE(Seconds(clock_.now() - Instant{}), Seconds(10));
  EXPECT_LT(Seconds(clock_.now() - Instant{}), Seconds(14));
}

TEST_F(RetryTest, ARefusalIsNotRepeated) {
  EXPECT_CALL(mock_, start(_, _, _, _)).WillOnce(Throw(Error(ErrorKind::refused, "a", "no such user")));
  EXPECT_THROW((void)engine_->start(run_, trial_, 1, {}), Error);
  EXPECT_TRUE(clock_.waits.empty());
}

TEST_F(RetryTest, FactsIsNotRepeated) {
  EXPECT_CALL(mock_, facts(_)).WillOnce(Throw(k_away));
  EXPECT_THROW((void)engine_->facts({}), Error);
}

TEST_F(RetryTest, AWatchSubscribesAgainWithFreshPauses) {
  const auto connect_and_break = [](const Selector&, const std::function<void(const Change&)>& on_change,
                                    const std::stop_token&) {
    on_change(Watching{});
    throw Error(k_away);
  };
  {
    const InSequence sequence;
    EXPECT_CALL(mock_, watch(_, _, _)).WillOnce(connect_and_break);
    EXPECT_CALL(mock_, watch(_, _, _)).WillOnce(Throw(k_away));
    EXPECT_CALL(mock_, watch(_, _, _)).WillOnce(connect_and_break);
    EXPECT_CALL(mock_, watch(_, _, _)).WillOnce(Return());
  }
  int watching = 0;
  engine_->watch(
      {}, [&](const Change& change) { watching += std::holds_alternative<Watching>(change) ? 1 : 0; }, {});
  EXPECT_EQ(watching, 2);
  EXPECT_THAT(clock_.waits, testing::ElementsAre(1, 2, 1));
}

TEST_F(RetryTest, ASetStopTokenEndsTheRepeats) {
  std::stop_source stop;
  EXPECT_CALL(mock_, list(_, _, _))
      .WillOnce([&](const Selector&, ListDetail, const std::stop_token&) -> std::vector<Observation> {
        stop.request_stop();
        throw Error(k_away);
      });
  try {
    (void)engine_->list({}, ListDetail::consistent, stop.get_token());
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::cancelled);
  }
}

// ---- Findings

TEST(Diagnosis, OfAnEngineWithoutFurtherChecksIsItsNameOrItsError) {
  EngineMock mock;
  EXPECT_CALL(mock, facts(_)).WillOnce(Return(Facts{.engine = "Lab 1", .address = "lab:"}));
  const std::vector<Finding> good = mock.diagnose({});
  ASSERT_EQ(good.size(), 1U);
  EXPECT_EQ(good[0].kind, Finding::Kind::good);
  EXPECT_EQ(good[0].text, "Lab 1 at lab:");
  for (const auto& [kind, is_unreachable] :
       {std::pair(ErrorKind::unavailable, true), std::pair(ErrorKind::timeout, true),
        std::pair(ErrorKind::corrupt, true), std::pair(ErrorKind::refused, false)}) {
    EXPECT_CALL(mock, facts(_)).WillOnce(Throw(Error(kind, "lab:", "why")));
    const std::vector<Finding> fault = mock.diagnose({});
    ASSERT_EQ(fault.size(), 1U);
    EXPECT_EQ(fault[0].kind, Finding::Kind::fault);
    EXPECT_EQ(fault[0].text, "lab:: why");
    EXPECT_EQ(fault[0].is_unreachable, is_unreachable) << to_string(kind);
  }
  EXPECT_CALL(mock, facts(_)).WillOnce(Throw(Error(ErrorKind::cancelled, "lab:", "cancelled")));
  EXPECT_THROW((void)mock.diagnose({}), Error);
}

TEST_F(RetryTest, DoesNotRepeatADiagnosis) {
  EXPECT_CALL(mock_, facts(_)).WillOnce(Throw(k_away));
  EXPECT_TRUE(engine_->diagnose({}).at(0).is_unreachable);
}

TEST(Diagnosis, OfADiskDependsOnSizeAndShare) {
  constexpr std::int64_t k_mebibyte = std::int64_t{1} << 20U;
  constexpr std::int64_t k_gibibyte = std::int64_t{1} << 30U;
  const auto kind = [](std::int64_t free, std::int64_t total) {
    return disk_finding("/d", Bytes{free}, Bytes{total}, "remove").kind;
  };
  using Kind = Finding::Kind;
  EXPECT_EQ(kind(1023 * k_mebibyte, 4 * k_gibibyte), Kind::fault);
  EXPECT_EQ(kind(k_gibibyte, 4 * k_gibibyte), Kind::good);
  EXPECT_EQ(kind(2 * k_gibibyte - 1, 100 * k_gibibyte), Kind::fault);
  EXPECT_EQ(kind(2 * k_gibibyte, 100 * k_gibibyte), Kind::warning);
  EXPECT_EQ(kind(10 * k_gibibyte - 1, 100 * k_gibibyte), Kind::warning);
  EXPECT_EQ(kind(10 * k_gibibyte, 100 * k_gibibyte), Kind::good);
  EXPECT_EQ(kind(10 * k_gibibyte - 1, 10'000 * k_gibibyte), Kind::fault);
  EXPECT_EQ(kind(50 * k_gibibyte - 1, 10'000 * k_gibibyte), Kind::warning);
  EXPECT_EQ(kind(50 * k_gibibyte, 10'000 * k_gibibyte), Kind::good);
}

TEST(Diagnosis, OfADiskHasARemedyOnlyIfSpaceIsShort) {
  const Bytes total{std::int64_t{100} << 30U};
  EXPECT_EQ(disk_finding("/d", Bytes{0}, total, "remove").remedy, "remove");
  EXPECT_EQ(disk_finding("/d", total, total, "remove").remedy, "");
  EXPECT_EQ(disk_finding("/d", Bytes{std::int64_t{50} << 30U}, total, "").text,
            "50 GiB of 100 GiB are free on the disk of /d");
}

TEST(Gpu, IsKnownByEachOfItsNames) {
  const Gpu gpu{.id = "nvidia.com/gpu=0", .uuid = "GPU-a", .kind = {}, .memory = {}};
  for (const char* name : {"0", "nvidia.com/gpu=0", "GPU-a", "nvidia.com/gpu=GPU-a"})
    EXPECT_TRUE(is_called(gpu, name)) << name;
  for (const char* name : {"", "1", "nvidia.com/gpu=", "amd.com/gpu=GPU-a", "GPU-b"})
    EXPECT_FALSE(is_called(gpu, name)) << name;
}

TEST(Trace, WritesALineForAnExec) {
  EngineMock mock;
  ClockFake clock;
  std::ostringstream out;
  const auto engine = with_trace(mock, clock, out);
  EXPECT_THROW((void)engine->exec({.trial = "solver-1"}, {"cat"}, {}), Error);
  EXPECT_EQ(out.str(),
            "0.000000 exec solver-1 0.000000 refused: solver-1: the engine cannot run a further program in a "
            "container\n");
}

TEST(Trace, WritesALineForADiagnosis) {
  EngineMock mock;
  ClockFake clock;
  std::ostringstream out;
  EXPECT_CALL(mock, facts(_)).WillOnce(Return(Facts{}));
  EXPECT_EQ(with_trace(mock, clock, out)->diagnose({}).size(), 1U);
  EXPECT_EQ(out.str(), "0.000000 diagnose - 0.000000 ok\n");
}

TEST(Trace, WritesALineForEachCall) {
  EngineMock mock;
  ClockFake clock;
  std::ostringstream out;
  const auto engine = with_trace(mock, clock, out);
  EXPECT_CALL(mock, start(_, _, _, _))
      .WillOnce([&](const combu::Run&, const Trial&, int, const std::stop_token&) {
        clock.wait(Seconds(0.25), {});
        return Running{};
      });
  EXPECT_CALL(mock, stop(_, _, _)).WillOnce(Throw(k_away));
  Trial trial;
  trial.name = "solver-1";
  (void)engine->start({}, trial, 1, {});
  EXPECT_THROW(engine->stop({.trial = "solver-1"}, std::nullopt, {}), Error);
  EXPECT_EQ(out.str(),
            "0.250000 start solver-1 0.250000 ok\n"
            "0.250000 stop solver-1 0.000000 unavailable: engine: connection refused\n");
}

}  // namespace
TEST(Tar, ContainsEachFileAndFolderOnce) {
  const std::string tar = tar_of({{"combu/params.json", "{}"}, {"combu/x", "y"}});
  EXPECT_EQ(tar.size() % 512, 0U);
  EXPECT_TRUE(tar.starts_with("combu/"));
  EXPECT_EQ(tar.substr(512, 17), "combu/params.json");
  EXPECT_EQ(tar.substr(1024, 3), std::string("{}\0", 3));
  EXPECT_EQ(tar.substr(1536, 7), "combu/x");
}

TEST(Tar, KeepsTheModes) {
  const std::string tar =
      tar_of({{.path = "w/", .mode = 01777}, {.path = "x", .mode = 0755, .content = "y"}});
  EXPECT_EQ(tar.substr(0, 3), std::string("w/\0", 3));
  EXPECT_EQ(tar.substr(100, 7), "001777 ");
  EXPECT_EQ(tar[156], '5');
  EXPECT_EQ(tar.substr(612, 7), "000755 ");
  EXPECT_EQ(tar.substr(1024, 2), std::string("y\0", 2));
}

}  // namespace combu
